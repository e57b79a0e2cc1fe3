"""Shared types: observations, actions, episodes, errors, configuration, time."""
