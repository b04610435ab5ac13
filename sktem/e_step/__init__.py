"""The E-step: expectations over rows, memory of latents, batches, randomness."""
