"""Runs generated code of subtasks with a tree walker that knows nothing but what is listed."""
