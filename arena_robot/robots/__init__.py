"""What is known of arms, grippers, cameras and action spaces: rows of data, no drivers."""
