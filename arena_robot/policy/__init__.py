"""Observation in, actions out: clients, servers, wrappers, conformance."""
