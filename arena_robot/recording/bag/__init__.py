"""Bags: write, read, check, recover and play back."""
