"""Implementation of `arena demo`: plan, processes, tournament, display, outcome."""
