"""The replay node."""
