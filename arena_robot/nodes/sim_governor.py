"""Simulated time that gives way: slower while this machine cannot keep up with it."""

import logging

from rclpy.node import Node
from sensor_msgs.msg import JointState

from arena_robot.drivers.sim.world import SimWorld
from arena_robot.nodes import qos
from arena_robot.nodes.convert import stamp_of

log = logging.getLogger(__name__)

LATE_S = 0.06
SLOWER, FASTER = 0.8, 1.03
LEAST = 0.1


class Governor:
    """
    Watches how old commands are, in simulated time, when they arrive at the arm.

    On a machine with time to spare that is a few milliseconds. When the processes of the station
    wait for each other, simulated time runs away from them, and a policy would be judged by the
    machine it is tried on: so the world slows down until commands arrive in time again. How long
    a policy thinks does not matter here, since a command is stamped when it is sent.
    """

    def __init__(self, node: Node, world: SimWorld, asked: float) -> None:
        self._world = world
        self._asked = asked
        self._slowest = asked
        qos.subscription(node, JointState, 'arm_node/target_joint', self._on_command, qos.COMMAND)

    def _on_command(self, message: JointState) -> None:
        self.heard((self._world.now_ns() - stamp_of(message.header.stamp)) * 1e-9)

    def heard(self, age_s: float) -> None:
        """Take the age of a command that has just arrived."""
        factor = self._world.real_time_factor or self._asked
        if age_s > LATE_S:
            factor = max(factor * SLOWER, LEAST)
        else:
            factor = min(factor * FASTER, self._asked)
        if factor < self._slowest:
            self._slowest = factor
            log.info('commands come %.0f ms late: simulated time runs at %.2f now', 1e3 * age_s,
                     factor)
        self._world.real_time_factor = factor
