"""The arm node: its commands, actions and parameters."""
