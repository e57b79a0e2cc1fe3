"""The A/B session: protocol state machine with a journal, control loop, evaluator's commands."""
