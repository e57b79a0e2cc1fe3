"""Pace of a simulated station with sessions: as asked, slower while the machine cannot keep up."""

import logging
from dataclasses import dataclass

from rclpy.node import Node

from arena_msgs.msg import PolicyAction, StepRecord
from arena_robot.core.errors import ConfigError
from arena_robot.drivers.sim.world import SimWorld
from arena_robot.nodes.lib import qos
from arena_robot.nodes.lib.convert import stamp_of

log = logging.getLogger(__name__)

LATE_S = 0.06    # a command is this old at the arm only on a machine that cannot keep up
OLD_S = 0.12     # likewise a picture when a step uses it: nearly two periods
SLOWER, FASTER = 0.8, 1.03    # factors of the speed: down at once, up over many commands
LEAST = 0.1      # the slowest simulated time
SLOWEST, FASTEST = 0.1, 20.0    # allowed with --speed
STALE_S = 0.5    # of real time; lateness is harmless in a simulation
# Every message on /clock wakes every node; a step may be late by a quarter of its period. 84 Hz is
# one message in 12 ms.
ARM_RATE, CLOCK_RATE = 50.0, 84.0


class Governor:
    """
    Reduces the real time factor when commands or images are used too late.

    It checks the age, in simulated time, of commands when they arrive at the arm, and of images
    when a step uses them. On a fast machine a command takes a few milliseconds, and an image less
    than a period. When the machine is too slow, ages grow and would influence the result of a
    policy: so simulated time slows down until both are fresh again. The duration of an inference
    has no influence here, because a command is stamped when it is sent, and a step uses the newest
    image at its start.
    """

    def __init__(self, node: Node, world: SimWorld, asked: float) -> None:
        self._world = world
        self._wanted = asked
        self._slowest = asked
        qos.subscription(node, PolicyAction, 'arm_node/arm_action', self._on_command, qos.COMMAND)
        qos.subscription(node, StepRecord, 'session_node/step', self._on_step, qos.SENSOR)

    def _on_command(self, message: PolicyAction) -> None:
        age_s = (self._world.now_ns() - stamp_of(message.header.stamp)) * 1e-9
        self.heard(age_s, LATE_S, 'a command')

    def _on_step(self, message: StepRecord) -> None:
        self.heard(message.observation_age_s, OLD_S, 'what a step saw')

    def heard(self, age_s: float, limit_s: float, what: str) -> None:
        """Report the age of a command or image when it is used, and its limit."""
        factor = self._world.real_time_factor or self._wanted
        if age_s > limit_s:
            factor = max(factor * SLOWER, LEAST)
        else:
            factor = min(factor * FASTER, self._wanted)
        if factor < self._slowest:
            self._slowest = factor
            log.info('%s was %.0f ms old: simulated time runs at %.2f now', what, 1e3 * age_s,
                     factor)
        self._world.real_time_factor = factor


@dataclass(frozen=True)
class SessionPace:
    """
    Simulated seconds per real second, and what the nodes must know of it.

    Age limits are multiplied by ``speed``, because stamps are simulated time.
    """

    speed: float

    def __post_init__(self) -> None:
        """Refuse what no session can follow."""
        if not SLOWEST <= self.speed <= FASTEST:
            raise ConfigError(f'--speed is {SLOWEST:g} to {FASTEST:g} with sessions, got '
                              f'{self.speed:g}')

    def station(self) -> dict[str, dict[str, object]]:
        """Return the parameters of the simulation and of its arm, by node."""
        slack = max(self.speed, 1.0)
        return {'sim_station': {'real_time_factor': self.speed, 'publish_clock': True,
                                'clock_rate': CLOCK_RATE},
                'arm_node': {'joint_state_rate': ARM_RATE, 'arm_state_rate': ARM_RATE,
                             'max_command_age': min(0.2 * slack, 5.0),
                             'max_state_age': min(STALE_S * slack, 1.0),
                             'command_timeout': min(0.5 * slack, 5.0)}}

    def session(self) -> dict[str, object]:
        """Return the parameters of the session node."""
        slack = max(self.speed, 1.0)
        return {'max_image_age': min(0.2 * slack, 2.0)}
