"""Learning of Boltzmann machines: updates, rounds and the monitored likelihood."""
