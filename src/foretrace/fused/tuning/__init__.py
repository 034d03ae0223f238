"""Measured times of the paths: a table per device, and what extends it."""
