"""Shared words: observations, actions, episodes, errors, configuration, time."""
