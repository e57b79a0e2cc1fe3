"""STOP through a session node whose arm does not answer."""

import sys
import threading
import uuid
from pathlib import Path

import pytest
from rclpy.node import Node
from std_srvs.srv import Trigger

sys.path.insert(0, str(Path(__file__).parent.parent / 'session'))

from conducted_station import Station

from arena_msgs.srv import ListSessions
from arena_robot.core.errors import DriverError
from arena_robot.nodes.lib.calls import ServiceClients
from arena_robot.nodes.lib.spin import Spin
from arena_robot.nodes.session.services import RosAudience, SessionServices

KINDS = {'e_stop': Trigger, 'abort': Trigger, 'list_sessions': ListSessions}
THREADS = 2


class HangingArm:
    """Its stop does not answer until the test says how."""

    def __init__(self, station):
        self.arm = station.arm
        self.asked, self.answers, self.error = threading.Semaphore(0), threading.Event(), None
        station.arm.halt = self.stop

    def stop(self):
        self.asked.release()
        assert self.answers.wait(20.0)
        if self.error:
            raise self.error


@pytest.fixture
def served(tmp_path):
    """Return a hanging arm, and clients of a session node with two threads."""
    station = Station(tmp_path)
    name = f'session_{uuid.uuid4().hex[:8]}'
    with Spin() as spin:
        node = Node(name, context=spin.context)
        SessionServices(node, station.conductor, RosAudience(
            node, station.clock, str, {}, station.conductor.shown))
        asks = Node(f'{name}_asks', context=spin.context)
        spin.add(node, threads=THREADS)
        spin.add(asks, threads=2)
        arm = HangingArm(station)
        clients = ServiceClients(asks, name, KINDS, find_s=10.0)
        assert clients.present(10.0)
        yield arm, clients
        arm.answers.set()


def pressed(clients, times, name='e_stop'):
    """Call STOP or abort from threads of their own; return them and where the answers come."""
    answers = []
    threads = [threading.Thread(target=lambda: answers.append(
        clients.call(name, Trigger.Request(), 20.0))) for _ in range(times)]
    for thread in threads:
        thread.start()
    return threads, answers


ENDS = {'e_stop': (True, 'the arm is at rest'), 'abort': (False, 'no session is going on; ')}


@pytest.mark.parametrize('name', ENDS)
def test_calls_that_wait_for_the_arm_leave_the_node_its_threads(served, name):
    arm, clients = served
    threads, answers = pressed(clients, 8, name)
    assert arm.asked.acquire(timeout=10.0)
    for _ in range(4):
        assert clients.call('list_sessions', ListSessions.Request(), 10.0).sessions == []
    assert not answers
    arm.answers.set()
    for thread in threads:
        thread.join(10.0)
    done, words = ENDS[name]
    assert [answer.success for answer in answers] == [done] * 8
    assert all(answer.message.startswith(words) for answer in answers)


def test_all_of_them_hear_that_the_arm_did_not_stop(served):
    arm, clients = served
    arm.error = DriverError('the arm node does not answer')
    threads, answers = pressed(clients, 3)
    assert arm.asked.acquire(timeout=10.0)
    arm.answers.set()
    for thread in threads:
        thread.join(10.0)
    assert [(answer.success, answer.message) for answer in answers] == [
        (False, 'the arm node does not answer')] * 3
