"""Algorithm 1, its state, and what is measured and recorded while it runs."""
