"""A small process reward model that runs on a CPU: frozen picture features and linear heads."""
