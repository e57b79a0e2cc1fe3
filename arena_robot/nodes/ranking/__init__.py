"""The ranking node."""
