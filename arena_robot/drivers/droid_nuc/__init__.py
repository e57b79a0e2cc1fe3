"""DROID's server on the NUC of a station: the arm and the gripper behind it."""
