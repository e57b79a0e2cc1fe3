"""Policies tried on the simulated station: one episode, and many at once."""
