"""Rows that belong together: sequences in time, or the subjects of a study."""
