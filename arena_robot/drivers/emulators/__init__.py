"""Emulators of devices: they speak the wire protocols that the real drivers speak."""
