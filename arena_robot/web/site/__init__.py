"""The public site of an arena server: standings, evaluations, policies, and their owners' page."""
