"""Methods of comparisons of two policies: Bradley–Terry, Davidson, Elo, progress."""
