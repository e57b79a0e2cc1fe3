"""Thin ROS shells around the rooms below."""
