"""Compiled recursions of hidden Markov models."""

__all__: list[str] = []
