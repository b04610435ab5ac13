"""Displays of fits and of their checks."""
