"""Policies over gRPC."""
