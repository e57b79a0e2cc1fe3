"""Conformance suite for policy servers; the report says how to fix each failure."""
