"""The camera node."""
