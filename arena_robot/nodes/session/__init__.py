"""The session node."""
