"""An append-only log of what counts, which anybody can check."""
