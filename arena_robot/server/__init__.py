"""The central service and its client."""
