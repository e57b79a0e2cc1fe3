"""Deviation ratings of games; see ``ratings``."""
