"""Commands of the evaluator: interface, access control, checks of input."""
