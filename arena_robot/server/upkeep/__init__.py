"""What keeps a server in order: backups, deletion, background work, metrics."""
