"""Robot motions of a session: the control loop of a rollout, and motions between rollouts."""
