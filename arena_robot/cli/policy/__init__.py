"""Verbs of policy authors."""
