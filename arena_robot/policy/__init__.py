"""Policies: interface, clients, servers, wrappers, conformance suite, examples."""
