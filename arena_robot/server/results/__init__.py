"""Standings and exports of what counts."""
