"""The A/B protocol: states, journal, record, conductor, submission."""
