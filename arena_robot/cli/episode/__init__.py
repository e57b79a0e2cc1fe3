"""Verbs on recorded episodes."""
