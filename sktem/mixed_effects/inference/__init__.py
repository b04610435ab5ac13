"""Likelihoods, posterior moments and standard errors of a fit."""
