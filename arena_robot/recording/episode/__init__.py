"""Recorded episodes: tracks, derived files, summary and check."""
