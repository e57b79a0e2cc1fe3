"""Ranking methods: standings computed from comparisons, votes and games."""
