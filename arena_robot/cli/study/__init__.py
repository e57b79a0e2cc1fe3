"""Verbs that say how far to trust a ranking."""
