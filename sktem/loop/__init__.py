"""Algorithm 1, its state, and the measurements and records of a run."""
