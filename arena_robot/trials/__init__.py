"""The pieces of `arena policy rates`: one trial, and many in several processes."""
