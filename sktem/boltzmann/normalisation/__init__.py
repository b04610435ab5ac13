"""Log Z of Boltzmann machines: exact, annealed, bracketed."""
