"""The arm comes to rest: on stop, on silence, on nonsense, and when its commander is killed."""

import threading
import time

import numpy as np
import pytest
from station_programs import speed, states_until
from std_srvs.srv import Trigger
from waiting import until

from arena_msgs.msg import PolicyAction
from arena_robot.core.action import Action, ActionSpace, ArmCommand
from arena_robot.core.errors import DriverError, SafetyError
from arena_robot.nodes.lib import convert, qos
from arena_robot.nodes.lib.calls import result

pytestmark = pytest.mark.alone
STILL = 0.02
TIMEOUT_S = 0.5

# The bound is what the arm must keep, from the caller's clock to the arm's; beside other programs
# the machine may not let caller, network or arm run for as long.
within_its_bound = pytest.mark.flaky(reruns=2, reruns_delay=1.0)


class Stream:
    """Commands a joint to turn at 15 Hz from a thread."""

    def __init__(self, arm, speed=0.8):
        self.arm, self.speed = arm, speed
        self.error = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join()

    def _run(self):
        while not self._stop.is_set():
            state = self.arm.state(5.0)
            q = state.q.copy()
            q[0] += 0.2 * self.speed
            try:
                self.arm.command(ArmCommand(q, time.time_ns()))
            except (DriverError, SafetyError) as error:
                self.error = error
            self._stop.wait(1 / 15)


def wait_moving(arm, at_least=0.2, timeout_s=20.0):
    return states_until(arm, lambda state: speed(state) >= at_least, timeout_s)[-1]


def time_to_rest(arm, begin_ns, timeout_s=3.0):
    """Return the seconds from ``begin_ns`` to the stamp of the first state at rest."""
    end_s = time.monotonic() + timeout_s
    while True:
        state = arm.wait_state(5.0)
        if speed(state) < STILL:
            return (state.stamp_ns - begin_ns) * 1e-9
        assert time.monotonic() < end_s, f'still moving at {speed(state):.2f} rad/s'


@within_its_bound
def test_stop_brings_the_arm_to_rest_and_latches(arm):
    with Stream(arm) as stream:
        wait_moving(arm)
        begin_ns = time.time_ns()
        arm.halt()
        assert time_to_rest(arm, begin_ns) < 0.150
        at = arm.wait_state(5.0).q
        time.sleep(0.5)
        assert np.max(np.abs(arm.wait_state(5.0).q - at)) < 0.02
        arm.resume()
        wait_moving(arm)
    assert 'halted' in str(stream.error), 'what it sent meanwhile was refused'


@within_its_bound
def test_hold_stops_but_does_not_latch(arm):
    with Stream(arm):
        wait_moving(arm)
    begin_ns = time.time_ns()
    arm.stop()
    assert time_to_rest(arm, begin_ns) < 0.150
    with Stream(arm):
        wait_moving(arm)


@within_its_bound
def test_silence_stops_the_arm(arm):
    with Stream(arm):
        wait_moving(arm)
    q = arm.wait_state(5.0).q.copy()
    q[0] += 0.25
    arm.command(ArmCommand(q, time.time_ns()))
    last_ns = time.time_ns()
    assert time_to_rest(arm, last_ns) < TIMEOUT_S + 0.1


COMMANDER = """
import sys, time
from rclpy.node import Node
from arena_robot.core.action import ArmCommand
from arena_robot.nodes.remote.robot import RemoteArm
from arena_robot.nodes.lib.spin import Spin
with Spin() as spin:
    node = Node('commander', namespace=sys.argv[1], context=spin.context)
    spin.add(node)
    with RemoteArm(node, timeout_s=20.0) as arm:
        while True:
            q = arm.wait_state(5.0).q.copy()
            q[1] += 0.12
            arm.command(ArmCommand(q, time.time_ns()))
            time.sleep(1 / 15)
"""


@within_its_bound
def test_a_killed_commander_leaves_the_arm_at_rest(arm, station_namespace, processes):
    commander = processes('-c', COMMANDER, station_namespace)
    wait_moving(arm, 0.1, timeout_s=40.0)
    begin_ns = time.time_ns()
    commander.kill()
    assert time_to_rest(arm, begin_ns) < TIMEOUT_S + 0.2
    at = arm.wait_state(5.0).q
    time.sleep(0.3)
    assert np.max(np.abs(arm.wait_state(5.0).q - at)) < 0.02


@pytest.fixture
def send(client):
    """Return a function that sends a policy action with a fresh stamp, or an older one."""
    publisher = qos.publisher(client, PolicyAction, 'arm_node/policy_action', qos.COMMAND)
    until(lambda: publisher.get_subscription_count() == 2, 'arm and gripper as listeners')
    count = 0

    def publish(values, space='joint_velocity', age_s=0.0):
        nonlocal count
        count += 1
        message = convert.action_message(
            Action(np.asarray(values, float), ActionSpace('joint_velocity')),
            time.time_ns() - round(age_s * 1e9), '', count)
        message.action_space = space
        publisher.publish(message)
    yield publish
    client.destroy_publisher(publisher)


def drive(send, arm, seconds=0.6, values=(0.6, 0, 0, 0, 0, 0, 0, 0)):
    fastest = 0.0
    for _ in range(round(seconds * 15)):
        send(values)
        time.sleep(1 / 15)
        fastest = max(fastest, speed(arm.wait_state(5.0)))
    assert fastest > 0.1


@within_its_bound
@pytest.mark.parametrize(('values', 'space'), [
    ([np.nan] * 8, 'joint_velocity'),
    ([0.5] * 7, 'joint_velocity'),
    ([0.5] * 8, 'cartesian_velocity'),
    ([0.5] * 8, 'joint_speed'),
])
def test_an_action_without_meaning_makes_the_arm_hold(arm, send, values, space):
    drive(send, arm)
    begin_ns = time.time_ns()
    send(values, space)
    assert time_to_rest(arm, begin_ns) < 0.3


def test_a_stale_action_is_refused(arm, send):
    # The arm still settles from the motion of the test before.
    at = states_until(arm, lambda state: speed(state) < 0.1 * STILL)[-1].q
    for _ in range(8):
        send([1, 0, 0, 0, 0, 0, 0, 0], age_s=0.5)
        time.sleep(1 / 15)
    assert np.max(np.abs(arm.wait_state(5.0).q - at)) < 0.005


def test_a_policy_action_moves_arm_and_gripper(arm, gripper, send):
    at = arm.wait_state(5.0).q
    drive(send, arm, 0.8, (0.6, 0, 0, 0, 0, 0, 0, 1.0))
    assert arm.wait_state(5.0).q[0] > at[0] + 0.1
    states_until(gripper, lambda state: state.requested_position > 0.9)
    send([0, 0, 0, 0, 0, 0, 0, 0.0])


def test_a_reflex_is_reported_and_recovered(arm, client):
    arm.halt()
    with pytest.raises(DriverError, match='halted'):
        arm.move_to(np.array([0.3, -0.6, 0, -2.5, 0, 1.9, 0]))
    arm.resume()


def test_services_answer_in_words(client, arm):
    for name in ('stop', 'session_stop', 'session_resume', 'resume', 'hold', 'error_recovery'):
        service = client.create_client(Trigger, f'arm_node/{name}')
        assert service.wait_for_service(5.0)
        reply = result(service.call_async(Trigger.Request()), 3.0, name)
        assert reply.success
        assert reply.message
        client.destroy_client(service)


