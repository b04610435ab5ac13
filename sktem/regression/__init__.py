"""Regressions with latent variables: robust Poisson, ARD logistic."""
