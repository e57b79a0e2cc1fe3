"""The parameters of replay_node."""

from dataclasses import dataclass

from arena_robot.nodes.lib.parameters import Parameters, param
from arena_robot.nodes.recorder.qos import read_overrides
from arena_robot.nodes.replay.publisher import ReplayNames, remap_rules
from arena_robot.recording.bag.playback import Playing


@dataclass(frozen=True, kw_only=True)
class ReplayParams(Parameters):
    """The parameters of replay_node, with the names of `ros2 bag play`."""

    folder: str = param('', 'episode to play, such as …/A')
    rate: float = param(1.0, 'times the recorded speed', 0.01, 100.0)
    start: float = param(0.0, 'begin this far into the episode', 0.0, 1e6, unit='s')
    topics: tuple[str, ...] = param(
        ('.*',), 'whole names of the topics to play, as regular expressions')
    prefix: str = param('replay', 'first part of the published names')
    remap: tuple[str, ...] = param(
        (), 'other names, as /recorded:=/new; a name that a running node uses is refused')
    loop: bool = param(False, 'begin again at the end, until it is stopped')
    start_paused: bool = param(False, 'begin paused; ~/resume goes on')
    clock: float = param(
        0.0, 'rate of the recorded time on /clock; 0: none', 0.0, 1000.0, unit='Hz')
    qos_profile_overrides_path: str = param(
        '', 'file with QoS profiles by recorded topic, as ros2 bag takes')
    wait: float = param(
        2.0, 'longest wait for a subscriber of each topic', 0.0, 3600.0, unit='s')

    def playing(self) -> Playing:
        """Return what is played, and how fast."""
        return Playing(self.rate, self.start, self.topics, self.loop)

    def names(self) -> ReplayNames:
        """Return under which names. Raises ConfigError."""
        return ReplayNames(self.prefix, remap_rules(self.remap),
                           read_overrides(self.qos_profile_overrides_path))
