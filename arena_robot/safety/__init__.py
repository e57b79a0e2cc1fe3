"""Safety layer: checks and limits every command before it is sent to the robot."""
