"""The evaluator's side: commands, who may give them, what they must be like."""
