"""Runs generated skills on the simulated station."""
