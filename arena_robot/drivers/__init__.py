"""Drivers of robot parts, one part per file; base.py has the interfaces."""
