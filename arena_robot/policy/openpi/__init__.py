"""Policies over openpi's websocket protocol."""
