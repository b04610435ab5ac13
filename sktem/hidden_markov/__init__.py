"""Hidden Markov models of sequences."""
