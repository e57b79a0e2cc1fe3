"""Simulated time gives way to a busy machine, and comes back."""

import asyncio
import threading
import types

import pytest

pytest.importorskip('rclpy', reason='ROS 2 is not installed')

from rclpy.action import ActionClient

from arena_msgs.msg import PolicyAction, StepRecord
from arena_robot.nodes.lib.calls import ThreadedActionClient
from arena_robot.nodes.lib.convert import header
from arena_robot.nodes.simulation import governor as sim_governor
from arena_robot.nodes.simulation.governor import LATE_S, LEAST, OLD_S, Governor


@pytest.fixture
def world():
    return types.SimpleNamespace(real_time_factor=3.0, now_ns=lambda: 0)


@pytest.fixture
def hear(world, monkeypatch):
    """Return what a governor hears with, by message type."""
    heard = {}
    monkeypatch.setattr(sim_governor.qos, 'subscription',
                        lambda node, kind, topic, hear, *_: heard.setdefault(kind, hear))
    Governor(None, world, 3.0)
    return heard


def test_late_commands_slow_the_world_down_but_never_stop_it(hear, world):
    hear[PolicyAction](PolicyAction(header=header(-round(1.5e9 * LATE_S), '')))
    assert LEAST < world.real_time_factor < 3.0
    for _ in range(100):
        hear[PolicyAction](PolicyAction(header=header(-10**9, '')))
    assert world.real_time_factor == LEAST


def test_it_runs_as_fast_as_asked_again_once_steps_see_fresh_pictures(hear, world):
    for _ in range(10):
        hear[StepRecord](StepRecord(observation_age_s=1.0))
    slow = world.real_time_factor
    hear[StepRecord](StepRecord(observation_age_s=0.5 * OLD_S))
    assert slow < world.real_time_factor
    for _ in range(200):
        hear[StepRecord](StepRecord(observation_age_s=0.5 * OLD_S))
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
