"""
A joint_trajectory_controller by the rules of its source, Jazzy's branch; and an arm under it.

The rules: what is refused; a new trajectory replaces the last; where its first point is still to
come it begins at the measured state, or with interpolate_from_desired_state at the last command;
each command is computed a period ahead; after the last point it holds.
"""

import math
from itertools import pairwise
from types import SimpleNamespace

import numpy as np

from arena_robot.drivers.sim.station import SimStation
from arena_robot.nodes.lib.part_params import JTC
from arena_robot.nodes.vendor.controllers import CommandChannel, Joints

TICK_S = 0.004
LATE_S = 0.008      # from the press to the controller: a reading's age, and the way of a message
MOVING, STILL = 0.8, 0.02
STREAM_S = 1 / 15


def seconds(duration):
    return duration.sec + duration.nanosec * 1e-9


class Jtc:
    """The controller; ``update`` is called every ``period_s`` and returns its command."""

    def __init__(self, names, period_s, from_desired=False):
        self.names, self.period_s, self.from_desired = list(names), period_s, from_desired
        self.clear()

    def clear(self):
        """Forget all, as when it is activated."""
        self.refused = []
        self.command = self._message = self._before = None
        self._piece = (0, 0)

    def take(self, message, now_s):
        """Take a message of its topic, or refuse it as validate_trajectory_msg does."""
        words = self._wrong(message, now_s)
        if words:
            self.refused.append(words)
            return
        order = [list(message.joint_names).index(name) for name in self.names]
        stamp_s = seconds_of(message.header.stamp)
        self._message, self._before = [
            (stamp_s + seconds(point.time_from_start), *(
                np.array(values)[order] if len(values) else None
                for values in (point.positions, point.velocities, point.accelerations)))
            for point in message.points], None
        self._piece = (0, 0)
        self._unstamped = stamp_s == 0.0

    def _wrong(self, message, now_s):
        times = [seconds(point.time_from_start) for point in message.points]
        if not times or sorted(message.joint_names) != sorted(self.names):
            return 'joints'
        if np.any(np.abs(message.points[-1].velocities) > np.finfo(np.float32).eps):
            return 'a velocity at the end'
        stamp_s = seconds_of(message.header.stamp)
        if stamp_s and stamp_s + times[-1] < now_s:
            return 'ends in the past'
        if np.any(np.diff(times) <= 0.0):
            return 'times'
        return ''

    def update(self, now_s, q, dq):
        """Return position, velocity and acceleration of the next cycle; None before a message."""
        if self._message is None:
            return None
        if self._before is None:
            if self._unstamped:
                self._message = [(now_s + at, *rest) for at, *rest in self._message]
            start = self.command if self.from_desired and self.command else (q, dq, None)
            zero = np.zeros(len(q))
            self._before = (now_s, start[0], start[1], zero if start[2] is None else start[2])
        self.command = self._sample(now_s + self.period_s)
        return self.command

    def _sample(self, at_s):
        points = self._message if at_s >= self._message[0][0] else [
            self._before, self._message[0]]
        for a, b in pairwise(points):
            if a[0] <= at_s < b[0]:
                return self._between(a, b, at_s - a[0])
        return points[-1][1], *(np.zeros(len(self.names)) if x is None else x
                                for x in points[-1][2:])

    def _between(self, a, b, s):
        """Return the polynomial of the degree that the two points' contents give."""
        if self._piece[:2] != (id(a), id(b)):
            given = 1 + sum(x is not None and y is not None
                            for x, y in zip(a[2:], b[2:], strict=True))
            rows = [_powers(t, order, 2 * given) for t in (0.0, b[0] - a[0])
                    for order in range(given)]
            self._piece = (id(a), id(b), np.linalg.solve(
                rows, np.array([*a[1:1 + given], *b[1:1 + given]])))
        c = self._piece[2]
        return tuple(_powers(s, order, len(c)) @ c for order in range(3))


def seconds_of(stamp):
    return stamp.sec + stamp.nanosec * 1e-9


def _powers(s, order, size):
    """Return the derivative of 1, s, s², … of an order."""
    return np.array([math.perm(n, order) * s ** (n - order) if n >= order else 0.0
                     for n in range(size)])


def channel_to(jtc, robot):
    """Return the driver's channel with a publisher whose messages are in ``sent``."""
    channel = CommandChannel(None, JTC, 'topic', jtc.names, robot)
    sent = []
    channel._publisher = SimpleNamespace(publish=sent.append, sent=sent)
    return channel, sent


def hardest(robot, seed, from_desired, stream_s, send=CommandChannel.send):
    """
    Return the peaks of speed and acceleration of a command at 1 kHz, as shares of the maker's.

    Random chunks of targets at about 15 Hz, each up to 8 ms under way, to an arm that is 20 ms
    late and is read with noise; at the end a stop. The controller's clock is off by up to 45 ms.
    """
    rng = np.random.default_rng(seed)
    off_s = rng.uniform(-0.045, 0.045)
    ahead_ns = max(0, round(off_s * 1e9))
    jtc = Jtc(robot.joint_names(), 1e-3, from_desired)
    channel, sent = channel_to(jtc, robot)
    q, dq, commands, due = np.array(robot.reset_joints), np.zeros(7), [], []
    next_s, left, way = 0.0, 0, np.zeros(7)
    for step in range(round(stream_s * 1e3)):
        now_s = 1.0 + step * 1e-3
        read = Joints(0, q + rng.normal(0.0, 1e-4, 7), dq, np.zeros(7))
        if step * 1e-3 >= next_s or step == round(stream_s * 900):
            if not left:
                left = int(rng.integers(1, 11))
                way = rng.uniform(-1.0, 1.0, 7) * rng.choice([0.02, 0.1, 0.2])
            if step * 1e-3 < next_s:
                channel.stop(read, round(now_s * 1e9))
                next_s = stream_s
            else:
                target = np.clip(read.q + way + rng.normal(0.0, 0.01, 7), robot.limits.q_min,
                                 robot.limits.q_max)
                send(channel, target, read, round(now_s * 1e9), ahead_ns)
                next_s, left = next_s + STREAM_S * rng.uniform(0.7, 1.3), left - 1
            due.append((now_s + rng.uniform(0.0, 0.008), sent.pop()))
        while due and due[0][0] <= now_s:
            jtc.take(due.pop(0)[1], now_s + off_s)
        if command := jtc.update(now_s + off_s, read.q, read.dq):
            commands.append(command[0])
            before, q = q, q + (command[0] - q) * 1e-3 / 0.02
            dq = (q - before) / 1e-3
    assert not jtc.refused
    steps = np.diff(commands, axis=0) / 1e-3
    return (np.max(np.abs(steps) / robot.joint_velocity),
            np.max(np.abs(np.diff(steps, axis=0)) / 1e-3 / robot.joint_acceleration))


def stopped(robot, joint, speed, from_desired=False):
    """
    Return the time (s) from a press of STOP to rest, and how far (rad) the arm went on.

    The arm follows targets of 15 Hz that go on at ``speed`` (rad/s), through the driver's channel.
    """
    with SimStation.make('do_not_move', 0, robot=robot.name, cameras=()) as station:
        jtc = Jtc(robot.joint_names(), TICK_S, from_desired)
        channel, sent = channel_to(jtc, robot)
        state = station.arm.state()
        start, pressed, next_s, due = state.q, None, 0.0, []
        turn = -np.sign(start[joint] or 1.0) * speed * np.eye(7)[joint]
        for step in range(1000):
            now_s, state = 1.0 + step * TICK_S, station.arm.state()
            at = Joints(0, state.q, state.dq, state.tau)
            if pressed is None and step * TICK_S >= next_s:
                channel.send(start + turn * (next_s + STREAM_S), at, round(now_s * 1e9))
                next_s += STREAM_S
            if pressed is None and step * TICK_S > 0.6 and abs(state.dq[joint]) > MOVING * speed:
                pressed = (now_s, state)
                channel.stop(at, round(now_s * 1e9))
            elif pressed and np.max(np.abs(state.dq)) < STILL:
                return now_s - pressed[0], float(np.max(np.abs(state.q - pressed[1].q)))
            due += [(now_s + LATE_S, message) for message in sent]
            sent.clear()
            while due and due[0][0] <= now_s:
                jtc.take(due.pop(0)[1], now_s)
            if command := jtc.update(now_s, state.q, state.dq):
                station.world.arm.follow(*command[:2])
            station.step(TICK_S)
        raise AssertionError('the arm does not rest')
