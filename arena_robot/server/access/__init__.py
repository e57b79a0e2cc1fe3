"""Who may call the server, how often, and with what."""
