"""Comparisons in, standings out."""
