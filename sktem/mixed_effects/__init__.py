"""Nonlinear mixed-effects models."""
