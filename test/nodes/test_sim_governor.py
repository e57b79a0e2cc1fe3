"""Simulated time gives way to a busy machine, and comes back."""

import asyncio
import threading
import types

import pytest

pytest.importorskip('rclpy', reason='ROS 2 is not installed')

from rclpy.action import ActionClient

from arena_robot.nodes import sim_governor
from arena_robot.nodes.action_client import ThreadedActionClient
from arena_robot.nodes.sim_governor import LATE_S, LEAST, Governor


@pytest.fixture
def world():
    return types.SimpleNamespace(real_time_factor=3.0, now_ns=lambda: 0)


@pytest.fixture
def governor(world, monkeypatch):
    monkeypatch.setattr(sim_governor.qos, 'subscription', lambda *_: None)
    return Governor(None, world, 3.0)


def test_late_commands_slow_the_world_down_but_never_stop_it(governor, world):
    governor.heard(LATE_S * 1.5)
    assert LEAST < world.real_time_factor < 3.0
    for _ in range(100):
        governor.heard(1.0)
    assert world.real_time_factor == LEAST


def test_it_runs_as_fast_as_asked_again_once_commands_come_in_time(governor, world):
    for _ in range(10):
        governor.heard(1.0)
    slow = world.real_time_factor
    governor.heard(0.001)
    assert slow < world.real_time_factor
    for _ in range(200):
        governor.heard(0.001)
    assert world.real_time_factor == 3.0


def test_an_answer_that_is_faster_than_its_note_is_not_thrown_away(monkeypatch):
    taken = []

    async def execute(self, data):
        taken.append((data, dict(self._goal_sequence_number_to_goal_id)))

    monkeypatch.setattr(ActionClient, 'execute', execute)
    client = ThreadedActionClient.__new__(ThreadedActionClient)
    client._goal_sequence_number_to_goal_id = {}
    note = threading.Timer(0.05, client._goal_sequence_number_to_goal_id.update, [{7: 'goal'}])
    note.start()
    asyncio.run(client.execute({'goal': (7, 'accepted')}))
    asyncio.run(client.execute({'result': None}))
    note.join()
    assert taken[0] == ({'goal': (7, 'accepted')}, {7: 'goal'})
    assert len(taken) == 2
