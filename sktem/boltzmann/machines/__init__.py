"""Boltzmann machines: their units, weights, transitions and sums."""
