"""One client for chat endpoints with text and pictures, and for HTTP services of models."""
