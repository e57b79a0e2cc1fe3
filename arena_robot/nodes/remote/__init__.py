"""Clients of a station's nodes: parts, recorder, scene and desk over topics and services."""
