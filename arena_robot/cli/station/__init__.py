"""Verbs at a station."""
