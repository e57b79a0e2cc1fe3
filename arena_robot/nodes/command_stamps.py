"""Stamps of commands on topics: refuses what a played bag could have sent."""

from typing import Any

from builtin_interfaces.msg import Time

from arena_robot.core.errors import SafetyError
from arena_robot.nodes import convert
from arena_robot.nodes.part_node import PartNode


class CommandStamps:
    """
    The times of the commands that a part's node receives.

    A command without a stamp cannot be told from one that a bag plays: it is refused, except with
    the parameter ``accept_unstamped``. While a bag is played into the station all are refused.
    """

    def __init__(self, node: PartNode[Any]) -> None:
        self._node = node

    def of(self, stamp: Time | None) -> int:
        """Return the part's time of a stamp (None: the command has none). Raises SafetyError."""
        node = self._node
        stamp_ns = 0 if stamp is None else convert.stamp_of(stamp)
        if not stamp_ns and not node.params.accept_unstamped:
            raise SafetyError('the command has no stamp, so a played bag could move the robot: '
                              'stamp it with the current time, or set accept_unstamped')
        played = node.played.problem if stamp_ns else node.played.look()
        if played:
            raise SafetyError(played)
        return node.timeline.to_part(stamp_ns) if stamp_ns else node.timeline.part.now_ns()
