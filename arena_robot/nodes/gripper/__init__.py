"""The gripper node."""
