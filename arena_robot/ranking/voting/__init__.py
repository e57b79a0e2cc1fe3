"""Ballots in, winners and tiers out. The rules by name are in ``rules.RULES``."""
