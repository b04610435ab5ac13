"""Measuring fitted models: likelihoods, conditional laws, information."""
