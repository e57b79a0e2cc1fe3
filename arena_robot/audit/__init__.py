"""Dense progress of episodes: judges, OPD metrics, and a benchmark for judges."""
