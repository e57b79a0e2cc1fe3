"""Pages over server, session and reports."""
