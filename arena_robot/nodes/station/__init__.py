"""A station as processes: its parameter file, what is started from it, views of it."""
