"""The evaluator's console."""
