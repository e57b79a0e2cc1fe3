"""The pieces of `arena demo`: a plan, the processes, the tournament, the display, the outcome."""
