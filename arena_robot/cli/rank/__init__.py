"""Verbs that rank and report."""
