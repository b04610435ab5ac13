"""Deformable templates of images and signals."""
