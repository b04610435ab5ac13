"""How Boltzmann machines learn: updates, rounds and what a run watches."""
