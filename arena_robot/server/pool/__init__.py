"""The policies that may be assigned: how they enter, and how they are checked."""
