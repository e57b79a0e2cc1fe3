"""What moves the robot: motions between rollouts, and the control loop of a rollout."""
