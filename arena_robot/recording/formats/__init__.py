"""Other formats: DROID, LeRobot, RoboArena."""
