"""The A/B protocol as a state machine with a journal."""
