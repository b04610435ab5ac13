"""Boltzmann machines with latent units."""
