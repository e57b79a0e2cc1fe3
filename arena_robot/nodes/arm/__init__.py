"""The arm node: commands, actions and parameters."""
