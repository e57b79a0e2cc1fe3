"""Emulators of devices: they speak the wire protocols that the real drivers speak."""


class CountedFaults:
    """Base of faults that are numbers: each counts the packets that it will still affect."""

    def spend(self, name: str) -> bool:
        """Return whether a fault affects this packet, and count it down."""
        left = int(getattr(self, name))
        if left:
            setattr(self, name, left - 1)
        return bool(left)
