"""One recorded episode: its tracks, derived files, summary and check."""
