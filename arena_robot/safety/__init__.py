"""State and command in, allowed command or stop out."""
