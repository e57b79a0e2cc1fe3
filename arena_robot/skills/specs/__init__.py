"""Tasks: what is told of them, what their independent oracles ask for, reference solutions."""
