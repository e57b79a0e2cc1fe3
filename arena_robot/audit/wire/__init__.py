"""Judges behind a network: RoboMeter's protocol, and chat endpoints."""
