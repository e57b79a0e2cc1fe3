"""Episodes to and from disk."""
