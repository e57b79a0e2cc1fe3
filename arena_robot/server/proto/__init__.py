"""Wire format of the arena server."""
