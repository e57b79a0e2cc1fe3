"""Blind comparisons on any robot: declared studies, their trials, what may be said of them."""
