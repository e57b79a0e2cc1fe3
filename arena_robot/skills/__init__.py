"""Generated skills: specifications, policy models, exemplar pool, labels, verifier (VERGSA)."""
