"""A rollout that a desk starts and that the session node lost is an error soon."""

import threading
import time
import uuid

import pytest
from rclpy.action import ActionServer
from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.node import Node

from arena_msgs.action import RunEpisode
from arena_msgs.msg import SessionState
from arena_robot.core.episode import Slot
from arena_robot.core.errors import SessionError
from arena_robot.nodes.lib import qos
from arena_robot.nodes.lib.session_messages import state_message
from arena_robot.nodes.lib.spin import Spin
from arena_robot.nodes.remote.desk import RemoteDesk
from arena_robot.session.evaluator.desk import DeskState
from arena_robot.session.protocol.states import State


@pytest.fixture
def session():
    """A session node that takes goals and never runs them: its name, and how to restart it."""
    name, over = f'session_{uuid.uuid4().hex[:8]}', threading.Event()
    ended = threading.Event()

    def wait(handle):
        over.wait(60.0)
        handle.abort()
        ended.set()
        return RunEpisode.Result()

    with Spin() as spin:
        node = Node(name, context=spin.context)
        ActionServer(node, RunEpisode, f'{name}/run_episode', wait,
                     callback_group=ReentrantCallbackGroup())

        def start():
            states = qos.publisher(node, SessionState, f'{name}/state', qos.LATCHED)
            states.publish(state_message(DeskState(state=State.START_PHOTOGRAPHED)))
            return states

        spin.add(node, threads=3)
        yield name, node, start
        over.set()
        ended.wait(5.0)


def test_a_start_that_the_node_lost_when_it_was_started_again_is_an_error_soon(session):
    name, node, start = session
    states = start()
    with RemoteDesk(name, patience_s=20.0) as desk:
        again = threading.Timer(1.0, lambda: (node.destroy_publisher(states), start()))
        again.start()
        begun_s = time.monotonic()
        with pytest.raises(SessionError, match='A has not begun; start it again'):
            desk.start(Slot.A)
        assert time.monotonic() - begun_s < 15.0, 'long before the timeout of a minute'
        again.join()
