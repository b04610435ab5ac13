"""Restricted machines of outputs given inputs."""
