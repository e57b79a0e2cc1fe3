"""Arenas, which assign blind pairs: the local arena, sealed tokens, contract tests."""
