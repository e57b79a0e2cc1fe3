"""The way of observations and actions between a station and a policy, and the record of it."""
