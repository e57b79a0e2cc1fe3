"""The parameters of replay_node."""

from dataclasses import dataclass

from arena_robot.nodes.parameters import Parameters, param


@dataclass(frozen=True, kw_only=True)
class ReplayParams(Parameters):
    """The parameters of replay_node."""

    folder: str = param('', 'episode to play, such as …/A')
    rate: float = param(1.0, 'times the recorded speed', 0.01, 100.0)
    start: float = param(0.0, 'begin this far into the episode', 0.0, 1e6, unit='s')
    topics: tuple[str, ...] = param(
        ('.*',), 'whole names of the topics to play, as regular expressions')
    prefix: str = param('replay', 'first part of the published names')
    wait: float = param(
        2.0, 'longest wait for a subscriber of each topic', 0.0, 3600.0, unit='s')
