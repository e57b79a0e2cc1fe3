"""Bags: written, read, checked stream by stream, repaired and played."""
