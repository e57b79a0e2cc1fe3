"""Governor of simulated time: slower while this machine cannot keep up."""

import logging

from rclpy.node import Node

from arena_msgs.msg import PolicyAction, StepRecord
from arena_robot.drivers.sim.world import SimWorld
from arena_robot.nodes import qos
from arena_robot.nodes.convert import stamp_of

log = logging.getLogger(__name__)

LATE_S = 0.06
OLD_S = 0.12
SLOWER, FASTER = 0.8, 1.03
LEAST = 0.1


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
        self._asked = asked
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
        factor = self._world.real_time_factor or self._asked
        if age_s > limit_s:
            factor = max(factor * SLOWER, LEAST)
        else:
            factor = min(factor * FASTER, self._asked)
        if factor < self._slowest:
            self._slowest = factor
            log.info('%s was %.0f ms old: simulated time runs at %.2f now', what, 1e3 * age_s,
                     factor)
        self._world.real_time_factor = factor
