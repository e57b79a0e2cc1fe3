"""Verbs on the progress of episodes and its judges."""
