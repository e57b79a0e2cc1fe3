"""arm_node alone decides what the arm gets: a lab's limits hold, and bags tell of them."""

import dataclasses
import sys
import threading
import time
import uuid

import numpy as np
import pytest
import waiting
from rclpy.lifecycle import TransitionCallbackReturn
from rclpy.parameter import Parameter
from session_rig import Rig, until
from std_srvs.srv import Trigger
from tf2_msgs.msg import TFMessage

from arena_msgs.msg import ArmLimits
from arena_robot.core.action import Action, ActionSpace, ArmCommand, SafeCommand
from arena_robot.core.episode import Slot
from arena_robot.core.errors import DriverError, LateCommand, SafetyError, StaleData
from arena_robot.core.observation import ArmState
from arena_robot.core.tuning import switch_threads_soon
from arena_robot.drivers.part import Opened
from arena_robot.nodes.arm.node import ArmNode, external_wrench
from arena_robot.nodes.lib import qos
from arena_robot.nodes.lib.calls import result
from arena_robot.nodes.lib.listener import Listening
from arena_robot.nodes.lib.spin import Spin
from arena_robot.nodes.remote.robot import RemoteArm
from arena_robot.nodes.simulation.node import compose
from arena_robot.nodes.station.processes import overrides_file
from arena_robot.recording.bag.codec import codec_of
from arena_robot.recording.bag.reader import BagReader
from arena_robot.robots.arms import PANDA, RESET_JOINTS
from arena_robot.safety.bounds import outside
from arena_robot.safety.kinematics import FLANGE, flange_pose, frames
from arena_robot.safety.limits import limits_for, robot_of

COMMANDS = 1_000
FLANGE_AT = frames(np.array(RESET_JOINTS))[FLANGE, :3, 3]
# A lab that allows the flange 2 cm around its reset pose, and small steps.
BOX = {'workspace_lower': (FLANGE_AT - 0.02).tolist(),
       'workspace_upper': (FLANGE_AT + 0.02).tolist(),
       'max_joint_delta': 0.08, 'joint_lower': [-0.1, *PANDA.limits.joint_lower[1:]]}
LAB = {f'limits.{name}': value for name, value in BOX.items()}
LIMITS = limits_for('panda', BOX)


class SpiedDriver:
    """The driver behind arm_node; ``accepted`` are the targets that it was sent."""

    def __init__(self, arm):
        self._arm, self.accepted = arm, []

    def __getattr__(self, name):
        return getattr(self._arm, name)

    def command(self, command):
        sent = self._arm.command(command)
        self.accepted.append(sent.q)
        return sent


class Borrowed(SpiedDriver):
    """The driver for a second node, which neither opens nor closes it."""

    def open(self):
        pass

    def close(self):
        pass


@pytest.fixture(scope='module')
def station():
    """Return (client node, the arm's driver, its node) of a station with the lab's limits."""
    path = overrides_file({
        'sim_station': {'task': 'do_not_move', 'image_width': 64, 'image_height': 36},
        'arm_node': {**LAB, 'max_command_age': 5.0}})
    args = ['test', '--ros-args', '--params-file', str(path), '-r',
            f'__ns:=/lab_{uuid.uuid4().hex[:6]}', '--log-level', 'fatal']
    before_s = sys.getswitchinterval()
    switch_threads_soon()
    with Spin(args) as spin:
        owner = compose(spin)
        node = Listening('client', context=spin.context)
        spin.add(node, threads=3)
        arm_node = owner.parts[0]
        arm_node.guard.arm = SpiedDriver(arm_node.guard.arm)
        yield node, arm_node.guard.arm, arm_node
    sys.setswitchinterval(before_s)
    path.unlink()


@pytest.fixture
def arm(station):
    with RemoteArm(station[0], timeout_s=20.0) as part:
        part.resume()
        time.sleep(0.05)    # what is made before it is refused
        waiting.until(lambda: goes_home(part), 'the reset pose')
        yield part


def goes_home(arm):
    """Return whether the arm is at home; step towards it: a straight way can leave the box."""
    if np.abs(arm.wait_state(10.0).q - RESET_JOINTS).max() < 0.01:
        return True
    home = Action(np.array([*RESET_JOINTS, 0.0]), ActionSpace.JOINT_POSITION)
    arm.act(home, time.time_ns()).exception(5.0)    # or late: the simulation's clock may be set
    return False


def random_action(rng):
    """Return an action of any space: most far outside of what is allowed, some not finite."""
    space = list(ActionSpace)[rng.integers(len(ActionSpace))]
    values = rng.normal(0.0, rng.choice([0.3, 3.0, 1e6]), space.size(7))
    if rng.random() < 0.02:
        values[rng.integers(space.size(7))] = rng.choice([np.nan, np.inf])
    return Action(values, space)


def test_no_random_command_leaves_a_labs_limits_and_each_is_told_as_accepted(station, arm):
    """1000 here; the function that decides has its own tests with any limits and states."""
    driver, rng, taken, reasons = station[1], np.random.default_rng(5), 0, set()
    for number in range(COMMANDS):
        time.sleep(0.004)    # a tick of the simulation, in whose time stamps are compared
        stamp_ns, before = time.time_ns(), len(driver.accepted)
        try:
            if number % 4:
                answer = arm.act(random_action(rng), stamp_ns).result(10.0)
            else:
                q = arm.state(5.0).q + rng.normal(0.0, 1.0, 7)
                answer = SafeCommand(arm.command(ArmCommand(q, stamp_ns)).q)
        except SafetyError as error:
            assert len(driver.accepted) == before, 'what is refused is not sent'
            if 'finite' in str(error):
                reasons.add(str(error).rpartition(' must be')[2].partition(', found')[0])
                time.sleep(0.02)    # it stopped the arm: what was made before that is refused
            continue
        taken += 1
        accepted = driver.accepted[-1]
        np.testing.assert_array_equal(answer.q, accepted)
        assert np.all(accepted >= LIMITS.q_min), accepted
        assert np.all(accepted <= LIMITS.q_max), accepted
        assert outside(accepted, LIMITS) < 1e-9, 'outside the box of the lab'
    assert taken == len(driver.accepted)
    assert taken > 0.9 * COMMANDS
    assert reasons == {' 8 finite numbers', ' 7 finite numbers'}


def test_an_action_is_limited_by_the_labs_step_not_the_robots(arm):
    turned = Action(np.array([1.0, *np.zeros(7)]), ActionSpace.JOINT_VELOCITY)
    answer = arm.act(turned, time.time_ns()).result(5.0)
    assert answer.clamps[0].reason.value == 'step_limit'
    assert answer.clamps[0].detail.endswith('allowed are 0.08')


def test_a_command_that_comes_too_late_or_while_halted_is_told_as_such(arm):
    still = Action(np.zeros(8), ActionSpace.JOINT_VELOCITY)
    with pytest.raises(LateCommand, match='old'):
        arm.act(still, time.time_ns() - 6_000_000_000).result(5.0)
    arm.halt()
    with pytest.raises(SafetyError, match='halted'):
        arm.act(still, time.time_ns()).result(5.0)
    arm.resume()
    time.sleep(0.05)
    arm.act(still, time.time_ns()).result(5.0)


def trigger(station, name):
    """Call a service of the arm node; return its answer."""
    client = station[0].create_client(Trigger, f'arm_node/{name}')
    assert client.wait_for_service(10.0)
    try:
        return result(client.call_async(Trigger.Request()), 10.0, name)
    finally:
        station[0].destroy_client(client)


@pytest.mark.parametrize('busy_s', [0.0, 0.06])
def test_after_stop_in_a_session_no_newer_command_moves_the_arm(station, arm, busy_s, monkeypatch):
    driver, turned = station[1], Action(np.array([1.0, *np.zeros(7)]), ActionSpace.JOINT_VELOCITY)
    command = driver.command

    def blocks(target):
        time.sleep(busy_s)
        return command(target)
    monkeypatch.setattr(driver, 'command', blocks)
    sent = [arm.act(turned, time.time_ns()) for _ in range(3)]
    arm.halt()
    for answer in sent:
        answer.exception(10.0)    # taken or refused: what matters is what comes now
    accepted = len(driver.accepted)
    for _ in range(10):
        with pytest.raises(SafetyError, match='halted: STOP was pressed in a session'):
            arm.act(turned, time.time_ns()).result(10.0)
    arm.wait_state(10.0)    # a motion is refused where the arm is not known; here it is
    with pytest.raises(DriverError, match='STOP was pressed'):
        arm.move_to(np.array(RESET_JOINTS), 0.5)
    assert len(driver.accepted) == accepted
    assert 'STOP was pressed' in trigger(station, 'resume').message, "the lab's releases it not"
    with pytest.raises(SafetyError, match='STOP was pressed'):
        arm.act(turned, time.time_ns()).result(10.0)


def test_a_session_never_releases_a_stop_of_the_lab(station, arm):
    still = Action(np.zeros(8), ActionSpace.JOINT_VELOCITY)
    assert trigger(station, 'stop').success
    arm.halt()
    arm.resume()
    with pytest.raises(SafetyError, match=r'halted: ~/stop was called; ~/resume releases it$'):
        arm.act(still, time.time_ns()).result(5.0)
    assert trigger(station, 'resume').message == 'commands are accepted again'
    time.sleep(0.05)
    arm.act(still, time.time_ns()).result(5.0)


def test_stop_does_not_wait_for_a_recovery(station, arm, monkeypatch):
    begun, ends = threading.Event(), threading.Event()

    def recover():
        begun.set()
        assert ends.wait(20.0)
    monkeypatch.setattr(station[1], 'recover', recover, raising=False)
    recovery = threading.Thread(target=arm.recover)
    recovery.start()
    try:
        assert begun.wait(10.0)
        arm.halt()
        assert station[2].guard.watchdog.halted
        assert recovery.is_alive()
    finally:
        ends.set()
        recovery.join()


def test_commands_of_one_stamp_are_each_told(arm):
    """Simulated time stands still between two messages on /clock."""
    still, stamp_ns = Action(np.zeros(8), ActionSpace.JOINT_VELOCITY), time.time_ns()
    sent = [arm.act(still, stamp_ns), arm.act(still, stamp_ns)]
    arm.act(still, stamp_ns + 1).exception(5.0)    # or late: the simulation's clock may be set
    assert [answer.done() for answer in sent] == [True, True]


def test_a_driver_that_fails_is_told_as_a_driver(station, arm, monkeypatch):
    def fail(command):
        raise DriverError('no route to the robot')
    monkeypatch.setattr(station[1], 'command', fail)
    still = Action(np.zeros(8), ActionSpace.JOINT_VELOCITY)
    with pytest.raises(DriverError, match='no route to the robot'):
        arm.act(still, time.time_ns()).result(5.0)

    def stall(command):
        raise StaleData('newest arm state is 0.2 s old')
    monkeypatch.setattr(station[1], 'command', stall)

    def refusal():    # again where the simulation set its clock back just now
        with pytest.raises(LateCommand) as refused:    # for a moment; a rollout goes on
            arm.act(still, time.time_ns()).result(5.0)
        return 'older than one already accepted' not in str(refused.value) and str(refused.value)
    assert '0.2 s old' in waiting.until(refusal, 'an answer of the driver')


def test_a_lost_action_is_known_from_the_answer_to_the_next(arm, monkeypatch):
    still, now_ns = Action(np.zeros(8), ActionSpace.JOINT_VELOCITY), time.time_ns()
    publish = arm._action.publish
    monkeypatch.setattr(arm._action, 'publish', lambda message: None)
    lost = arm.act(still, now_ns)
    monkeypatch.setattr(arm._action, 'publish', publish)
    arm.act(still, now_ns + 1000).result(5.0)
    with pytest.raises(LateCommand, match='did not get'):
        lost.result(5.0)


def test_the_limits_are_published_for_who_comes_later(station):
    node, _, arm_node = station
    heard = []
    subscription = qos.subscription(node, ArmLimits, 'arm_node/limits', heard.append, qos.LATCHED)
    waiting.until(lambda: heard, 'the limits')
    node.destroy_subscription(subscription)
    assert heard[0].robot_type == 'panda'
    assert list(heard[0].joint_names) == PANDA.joint_names()
    assert heard[0].max_joint_delta == 0.08
    np.testing.assert_allclose(heard[0].workspace_upper, BOX['workspace_upper'])
    np.testing.assert_allclose(heard[0].joint_lower, arm_node.limits.q_min)


def test_an_arm_that_is_not_the_robot_of_the_station_file_stays_unconfigured(station):
    """Its driver gives seven joints, as a Panda's, and a flange 10 cm above a Panda's."""
    node, driver, _ = station

    class OtherArm(Borrowed):
        def state(self, max_age_s=0.1):
            state = self._arm.state(max_age_s)
            return dataclasses.replace(state, pose=state.pose + np.array([0, 0, 0.1, 0, 0, 0]))
    wrong = ArmNode('other_arm', make_part=lambda: OtherArm(driver), context=node.context,
                    parameter_overrides=[Parameter('autostart', value=False)])
    assert wrong.trigger_configure() is TransitionCallbackReturn.FAILURE
    assert "driver's flange is 100 mm and 0 degrees from where that of a Franka P" in wrong._reason
    wrong.destroy_node()


SIX = """<mujoco><worldbody><body name="foot">{}<site name="hand" pos=".1 0 0"/>{}</body>
</worldbody></mujoco>"""
SIX_YAML = """
name: six
title: Six-axis arm
arms: {arm: {model: six.xml, joints: [j0, j1, j2, j3, j4, j5], base: foot, tool: hand,
             velocity: [2, 2, 2, 2, 2, 2], acceleration: [5, 5, 5, 5, 5, 5],
             reset: [0, 0.3, -0.6, 0.3, 0.2, 0]}}
grippers: {}
cameras: {}
layouts: {}
"""


class SixJoints(Opened):
    """An arm that nobody here wrote for, which is at once where it is sent."""

    def __init__(self, robot):
        self.robot, self.q = robot, np.array(robot.reset_joints)

    def state(self, max_age_s=0.1):
        zero = np.zeros(6)
        pose = flange_pose(self.q, self.robot.limits.chain)
        return ArmState(time.time_ns(), self.q, zero, zero, zero, pose, self.q)

    def wait_state(self, timeout_s):
        time.sleep(0.005)
        return self.state()

    def command(self, command):
        self.q = command.q
        return command

    def stop(self):
        pass


def six_axis(folder):
    bodies = ''.join(
        f'<body name="b{i}" pos="0 0 .15"><joint name="j{i}" axis="{axis}" range="-150 150" '
        f'actuatorfrcrange="-60 60"/>' for i, axis in enumerate(['0 0 1', '0 1 0'] * 3))
    (folder / 'six.xml').write_text(SIX.format(bodies, '</body>' * 6), encoding='utf-8')
    (folder / 'six.yaml').write_text(SIX_YAML, encoding='utf-8')
    return str(folder / 'six.yaml')


def test_an_arm_of_an_embodiment_is_driven_and_held_as_a_franka_is(station, tmp_path):
    node, file = station[0], six_axis(tmp_path)
    robot = robot_of(file)
    driver = SixJoints(robot)
    arm = ArmNode('six', make_part=lambda: driver, context=node.context, parameter_overrides=[
        Parameter('autostart', value=False), Parameter('robot_type', value=file)])
    heard, links = [], []
    kept = [qos.subscription(node, kind, f'six/{topic}', into.append, qos.LATCHED)
            for kind, topic, into in ((ArmLimits, 'limits', heard),)]
    kept.append(qos.subscription(node, TFMessage, 'tf', links.append, qos.STREAM))
    try:
        assert arm.trigger_configure() is TransitionCallbackReturn.SUCCESS, arm._reason
        assert arm.joint_names == [f'j{i}' for i in range(6)]
        assert (arm.base_frame, arm.ee_frame) == ('foot', 'hand')
        assert arm.params.home == robot.reset_joints
        sent = arm.guard.decide(Action(np.ones(7), ActionSpace.JOINT_VELOCITY), time.time_ns())
        assert np.array_equal(driver.q, sent.q)
        assert np.all(np.abs(sent.q - robot.reset_joints) <= 0.2 + 1e-9)
        arm.guard.halt('pressed')
        with pytest.raises(SafetyError, match='halted'):
            arm.guard.decide(Action(np.ones(7), ActionSpace.JOINT_VELOCITY), time.time_ns())
        assert external_wrench(driver.state(), robot).shape == (6,)
        waiting.until(lambda: heard, 'the limits')
        assert list(heard[0].joint_names) == arm.joint_names
        np.testing.assert_allclose(heard[0].joint_upper, robot.limits.q_max)
        arm._transforms.publish(driver.q, 1)
        waiting.until(lambda: any(
            frame.child_frame_id == 'b5' for message in links for frame in message.transforms),
            'the links')
    finally:
        for subscription in kept:
            node.destroy_subscription(subscription)
        arm.trigger_cleanup()
        arm.destroy_node()


def test_limits_become_tighter_while_the_arm_runs_and_never_wider(station):
    node, driver, owner = station
    arm = ArmNode('tightened', make_part=lambda: Borrowed(driver), context=node.context,
                  timeline=owner.timeline,
                  parameter_overrides=[Parameter('autostart', value=False)])
    heard = []
    subscription = qos.subscription(node, ArmLimits, 'tightened/limits', heard.append, qos.LATCHED)
    try:
        assert arm.trigger_configure() is TransitionCallbackReturn.SUCCESS
        for name, value in {'limits.max_joint_delta': 0.05, 'command_timeout': 0.1,
                            'max_command_age': 0.05, 'limits.velocity': [0.5] * 7}.items():
            assert arm.set_parameters([Parameter(name, value=value)])[0].successful, name
        watchdog = arm.guard.watchdog
        assert (watchdog.timeout_s, watchdog.max_age_s) == (0.1, 0.05)
        assert arm.guard.safety.limits.velocity == (0.5,) * 7
        sent = arm.guard.safety.check(Action(np.ones(8), ActionSpace.JOINT_VELOCITY),
                                      driver.state())
        assert np.abs(sent.q - driver.state().q).max() == pytest.approx(0.05, abs=1e-3)
        waiting.until(lambda: heard and list(heard[-1].velocity) == [0.5] * 7, 'the new limits')
        reset_out = [*RESET_JOINTS[:1], -1.0, *PANDA.limits.joint_upper[2:]]
        for name, value, why in (
                ('limits.max_joint_delta', 0.06, 'may only be lowered while running'),
                ('limits.joint_upper', reset_out, 'reset_joints: joint 2 is'),
                ('limits.velocity', [-1.0] * 7, 'must be positive')):
            answer = arm.set_parameters([Parameter(name, value=value)])[0]
            assert not answer.successful
            assert why in answer.reason
        assert arm.guard.safety.limits.max_joint_delta == 0.05
        assert arm.set_parameters([Parameter('joint_state_rate', value=10.0)])[0].successful
        assert arm.rate.target_hz == 10.0
    finally:
        node.destroy_subscription(subscription)
        arm.destroy_node()


@pytest.mark.alone
def test_what_a_bag_says_was_sent_is_what_the_driver_accepted(processes, tmp_path):
    with Rig(processes, tmp_path, {'one': 'example:random_walk', 'two': 'example:random_walk'},
             parts={'arm_node': LAB}, max_steps=45) as rig, rig.desk() as desk:
        desk.take('page')
        until(desk, lambda s: s.ready or (desk.press('check') and desk.state().ready),
              'the station is not ready', 60.0)
        desk.open_session('ada', 'put the yellow cube in the bowl')
        desk.press('photograph')
        desk.start(Slot.A)
        until(desk, lambda s: not s.state.running and s.slots, 'it does not end', 60.0)
        episode = next((rig.data / 'sessions').glob('*/A'))
        until(desk, lambda s: (episode / 'metadata.yaml').exists(), 'no bag', 60.0)
        ended = desk.state().slots[0]
    steps, decisions, states, limits = recorded(episode)
    assert len(steps) >= 40, ended
    clamped = [step for step in steps if any(c.reason == 'workspace' for c in step.clamps)]
    assert len(clamped) > 5, 'the box of the lab was never met'
    taken = [step for step in steps if all(c.reason != 'not_taken' for c in step.clamps)]
    targets = [np.array(decision.q) for decision in decisions
               if decision.outcome == decision.TAKEN]
    for step, target in zip(taken, targets, strict=True):
        np.testing.assert_array_equal(step.q_sent, target)
        assert outside(np.array(step.q_sent), LIMITS) < 1e-9
    # The driver's own report at 50 Hz: a target is in force for three or four of them, and for
    # none where a step came late and the next one in time.
    reported = [any(np.array_equal(step.q_sent, state.q_desired) for state in states)
                for step in taken]
    assert sum(reported) > 0.9 * len(taken)
    np.testing.assert_allclose(limits[0].workspace_lower, BOX['workspace_lower'])


def recorded(episode):
    """Return the steps, decisions, states and limits in a bag."""
    contents = {'step': [], 'decision': [], 'arm_state': [], 'limits': []}
    with BagReader(episode) as bag:
        names = {topic: topic.rpartition('/')[2] for topic in bag.topics
                 if topic.endswith(('session_node/step',
                                    *(f'arm_node/{name}' for name in contents)))}
        for message, content in bag.decoded(codec_of(bag.topics.values()), names):
            contents[names[message.topic]].append(content)
    return contents.values()
