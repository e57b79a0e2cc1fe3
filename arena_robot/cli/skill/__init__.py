"""Verbs on generated skills."""
