"""Results in, documents and plots out."""
