"""The A/B protocol: states, journal, record, and what drives them."""
