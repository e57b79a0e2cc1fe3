"""Recording of episodes: bags, derived files, checks, replay, exports."""
