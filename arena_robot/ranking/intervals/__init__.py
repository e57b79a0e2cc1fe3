"""How far standings may be off, and how many sessions are still needed."""
