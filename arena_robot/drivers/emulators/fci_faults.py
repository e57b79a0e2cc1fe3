"""What goes wrong at an emulated control box and on the way to it."""

from dataclasses import dataclass, field

from arena_robot.drivers.franka.wire import FciCommand


@dataclass
class FciFaults:
    """
    Faults of the network and of the box; numbers count down with the packets that they affect.

    ``silent``: no state is sent. ``unanswered``: commands that get no reply. ``closes_on``:
    commands at which the box closes the connection. ``refused``: commands that are answered as
    not possible. ``unplugged``: nothing passes in either direction. ``late_ms``: how late a late
    state comes.
    """

    silent: bool = False
    unplugged: bool = False
    unanswered: set[FciCommand] = field(default_factory=set)
    closes_on: set[FciCommand] = field(default_factory=set)
    refused: set[FciCommand] = field(default_factory=set)
    states_lost: int = 0
    states_doubled: int = 0
    states_damaged: int = 0
    states_cut: int = 0
    states_late: int = 0
    late_ms: int = 30
    commands_lost: int = 0
    commands_damaged: int = 0

    @property
    def broken(self) -> bool:
        """Return whether no command can be expected."""
        return self.silent or self.unplugged

    def spend(self, name: str) -> bool:
        """Return whether a fault affects this packet, and count it down."""
        left = int(getattr(self, name))
        if left:
            setattr(self, name, left - 1)
        return bool(left)

    def mend(self) -> None:
        """End all of them."""
        self.__init__()  # type: ignore[misc]
