"""Published tables computed again from public data; see ``lines``."""
