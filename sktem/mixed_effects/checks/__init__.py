"""Residuals, predictive checks and curves of a fit."""
