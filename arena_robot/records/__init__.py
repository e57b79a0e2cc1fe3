"""What stands on disk and is shared by several rooms: one module, reader and writer a format."""
