"""Pixels, landmarks, kernels, flows and registrations of images."""
