"""The simulated station as nodes."""
