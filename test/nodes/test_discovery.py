"""Participants of one machine find each other, however many there are."""

import contextlib
import uuid

from rclpy.node import Node
from waiting import until

from arena_robot.nodes.spin import Spin

MANY = 35    # with ROS's own 32 ports, the 34th and the 35th never meet


def test_the_last_of_many_participants_find_each_other():
    name = f'one_{uuid.uuid4().hex[:6]}'
    with contextlib.ExitStack() as stack:
        nodes = []
        for i in range(MANY):    # a participant begins with its first node
            nodes.append(Node(f'{name}_{i}', context=stack.enter_context(Spin()).context))
            stack.callback(nodes[-1].destroy_node)
        one, other = nodes[-2:]
        until(lambda: _sees(one, other) and _sees(other, one), 'each other', 30.0)


def _sees(one, other):
    return other.get_name() in one.get_node_names()
