"""TASK: policies compared over latent kinds of task."""
