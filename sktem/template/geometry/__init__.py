"""Pixels, landmarks, kernels and flows of images, and what is carried along."""
