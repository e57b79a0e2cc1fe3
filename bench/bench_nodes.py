"""
Measure the simulated station: speed, rates, drops, latencies, processor time.

    python bench/bench_nodes.py [--seconds 20]

Prints three tables. A line that misses its target says so; the exit code stays 0, because the
figures of a busy machine prove nothing.
"""

import argparse
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
os.environ.setdefault('MUJOCO_GL', 'egl')
os.environ.setdefault('ROS_AUTOMATIC_DISCOVERY_RANGE', 'LOCALHOST')
os.environ.setdefault('ROS_DOMAIN_ID', str(os.getpid() % 100 + 1))

from diagnostic_msgs.msg import DiagnosticArray  # noqa: E402
from rclpy.node import Node  # noqa: E402
from rclpy.parameter import Parameter  # noqa: E402
from rclpy.qos import QoSProfile  # noqa: E402
from sensor_msgs.msg import Image, JointState  # noqa: E402

from arena_msgs.msg import ArmState, GripperState  # noqa: E402
from arena_robot.core.action import Action, ActionSpace, ArmCommand  # noqa: E402
from arena_robot.core.observation import EYES, ROLES  # noqa: E402
from arena_robot.drivers.guarded import guarded  # noqa: E402
from arena_robot.drivers.sim.station import SimStation  # noqa: E402
from arena_robot.nodes.lib import convert  # noqa: E402
from arena_robot.nodes.lib.spin import Spin  # noqa: E402
from arena_robot.nodes.remote.robot import RemoteArm  # noqa: E402
from arena_robot.nodes.station.processes import overrides_file  # noqa: E402
from arena_robot.robots.arms import PANDA  # noqa: E402

DEEP = QoSProfile(depth=100)
SMALL = {'image_width': 320, 'image_height': 180, 'eyes': ['left'], 'publish_clock': True}


class Station:
    """A sim_station process and a node that looks at it."""

    def __init__(self, spin, namespace, **parameters):
        path = overrides_file({'sim_station': parameters})
        self.process = subprocess.Popen(
            [sys.executable, '-m', 'arena_robot.nodes.simulation.node', '--ros-args', '-r',
             f'__ns:=/{namespace}', '--params-file', str(path), '--log-level', 'error'], cwd=ROOT)
        sim_time = bool(parameters.get('publish_clock'))
        self.node = Node('bench', namespace=namespace, context=spin.context,
                         parameter_overrides=[Parameter('use_sim_time', value=sim_time)])
        self.got = {}
        spin.add(self.node, threads=1)

    def hear(self, kind, topic, keep):
        """Collect ``keep(message)`` of a topic."""
        seen = self.got.setdefault(topic, [])
        self.node.create_subscription(kind, topic, lambda m: seen.append(keep(m)), DEEP)
        return seen

    def cpu_s(self):
        """Return the processor seconds the station has used."""
        fields = Path(f'/proc/{self.process.pid}/stat').read_text().rsplit(')', 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf('SC_CLK_TCK')

    def end(self):
        """Stop the process as Ctrl-C does; return the seconds it took."""
        begin_s = time.monotonic()
        self.process.send_signal(signal.SIGINT)
        self.process.wait(10.0)
        return time.monotonic() - begin_s


def stamp(message):
    return convert.stamp_of(message.header.stamp)


def aged(message):
    """Return (stamp, age at arrival), both ns."""
    return stamp(message), time.time_ns() - stamp(message)


def topic_of(role, eye):
    return f'{role}_camera/{eye}/color/rect/image'


def headless_speed(seconds):
    """Return simulated per real second without ROS: control, states and three images a step."""
    with SimStation.make(eyes=('left',), size=(320, 180)) as station:
        guard = guarded(station.arm, PANDA, station.clock)
        rng = np.random.default_rng(0)
        begin_s, steps = time.perf_counter(), 0
        while time.perf_counter() - begin_s < seconds:
            values = np.append(rng.uniform(-0.3, 0.3, 7), 0.0)
            guard.act(Action(values, ActionSpace.JOINT_VELOCITY), station.clock.now_ns())
            for camera in station.cameras.values():
                camera.frame()
            station.step(1 / 15)
            steps += 1
        return steps / 15 / (time.perf_counter() - begin_s)


def speed_with_nodes(spin, seconds, asked):
    """
    Return simulated per real second with all nodes, and images taken and lost by role.

    ``asked`` is the real_time_factor, 0 for as fast as possible.
    """
    station = Station(spin, f'bench_speed_{asked:.0f}', **SMALL, real_time_factor=asked)
    joints = station.hear(JointState, 'joint_states', stamp)
    for role in ROLES:
        station.hear(Image, topic_of(role, 'left'), stamp)
    wait(lambda: all(station.got.values()))
    time.sleep(1.0)
    for seen in station.got.values():
        seen.clear()
    time.sleep(0.2)
    first, begin_s = joints[-1], time.perf_counter()
    time.sleep(seconds)
    speed = (joints[-1] - first) * 1e-9 / (time.perf_counter() - begin_s)
    images = {role: list(station.got[topic_of(role, 'left')]) for role in ROLES}
    station.end()
    return speed, {role: (len(stamps), lost_of(stamps)) for role, stamps in images.items()}


def lost_of(stamps):
    """Return how many 15 Hz periods between sorted stamps have no image."""
    return int(np.sum(np.maximum(np.round(np.diff(sorted(stamps)) * 15e-9) - 1, 0)))


def real_time(spin, seconds):
    """Return the rows of rates and the cost of a station at real time with six streams."""
    station = Station(spin, 'bench_real')
    station.hear(JointState, 'joint_states',
                 lambda m: aged(m) if len(m.name) == 7 else (0, 0))
    station.hear(ArmState, 'arm_node/arm_state', aged)
    station.hear(GripperState, 'gripper_node/gripper_state', aged)
    reports = station.hear(DiagnosticArray, '/diagnostics', lambda m: list(m.status))
    for role in ROLES:
        for eye in EYES:
            station.hear(Image, topic_of(role, eye), aged)
    wait(lambda: all(station.got.values()))
    time.sleep(3.0)
    for seen in station.got.values():
        seen.clear()
    cpu_s, begin_s = station.cpu_s(), time.monotonic()
    time.sleep(seconds)
    cores = (station.cpu_s() - cpu_s) / (time.monotonic() - begin_s)
    got = {topic: list(seen) for topic, seen in station.got.items()}
    latencies = command_latencies(station)
    return got, cores, list(reports), latencies, station.end()


def command_latencies(station):
    """Return seconds from sending a target to the state that tracks it, and to rest on stop."""
    tracked, rest = [], []
    with RemoteArm(station.node, timeout_s=10.0) as arm:
        for i in range(20):
            q = arm.state(1.0).q.copy()
            q[0] += 0.1 if i % 2 else -0.1
            begin_s, begin_ns = time.perf_counter(), time.time_ns()
            arm.command(ArmCommand(q, begin_ns))
            while np.max(np.abs(arm.wait_state(1.0).q_desired - q)) > 1e-9:
                if time.perf_counter() - begin_s > 1.0:
                    break
            tracked.append(time.perf_counter() - begin_s)
            time.sleep(0.15)
            if i % 4 == 3:
                begin_ns = time.time_ns()
                arm.stop()
                while np.max(np.abs((state := arm.wait_state(1.0)).dq)) > 0.02:
                    pass
                rest.append((state.stamp_ns - begin_ns) * 1e-9)
    return tracked, rest


def wait(condition, timeout_s=30.0):
    end_s = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > end_s:
            raise SystemExit('the station did not start')
        time.sleep(0.05)


def verdict(good):
    return 'ok' if good else 'MISSED'


def print_speeds(headless, paced, free):
    print('\nSimulation speed, three left images 320x180 at 15 Hz')
    print(f'  without ROS                  {headless:6.1f} x real time   target  6.0   '
          f'{verdict(headless >= 6.0)}')
    (speed, images), (fastest, _) = paced, free
    print(f'  with the nodes, 3.2 asked    {speed:6.1f} x real time   target  3.0   '
          f'{verdict(speed >= 3.0)}')
    print('      images taken, lost       '
          + ', '.join(f'{role} {taken}, {lost}' for role, (taken, lost) in images.items()))
    print(f'  with the nodes, unbounded    {fastest:6.1f} x real time   (images may be lost)')


def print_rates(got):
    print(f"\n{'topic':36} {'Hz':>7} {'target':>8} {'lost':>5} {'age p50':>9} {'p99':>7} ms")
    targets = {'joint_states': 100.0, 'arm_node/arm_state': 45.0,
               'gripper_node/gripper_state': 30.0}
    for topic, pairs in got.items():
        pairs = [pair for pair in pairs if pair[0]] if topic != '/diagnostics' else []
        if len(pairs) < 2:
            continue
        stamps = np.array(sorted(pair[0] for pair in pairs))
        ages_ms = np.array([pair[1] for pair in pairs]) * 1e-6
        rate = (len(stamps) - 1) * 1e9 / (stamps[-1] - stamps[0])
        is_image = topic.endswith('image')
        lost = lost_of(stamps) if is_image else 0
        good = (abs(rate / 15.0 - 1.0) <= 0.02 and lost == 0 if is_image
                else rate >= targets[topic])
        target = '15 ± 2%' if is_image else f'>= {targets[topic]:.0f}'
        print(f'{topic:36} {rate:7.2f} {target:>8} {lost:5d} {np.median(ages_ms):9.1f} '
              f'{np.percentile(ages_ms, 99):7.1f}    {verdict(good)}')
    for role in ROLES:
        left, right = ({s for s, _ in got[topic_of(role, eye)]} for eye in EYES)
        print(f'{role + " camera: stereo stamps":36} {len(left & right)} pairs identical, '
              f'{len(left ^ right)} single')


def print_costs(cores, reports, latencies, end_s):
    tracked, rest = latencies
    print(f"\n{'processor time':36} {'cores':>7}")
    print(f"{'whole station, six 512x288 streams':36} {cores:7.2f}   target 1.50   "
          f'{verdict(cores <= 1.5)}')
    shares = {}
    for statuses in reports:
        for status in statuses:
            for value in status.values:
                if value.key.startswith('streaming CPU'):
                    shares.setdefault(status.name.split(':')[0], []).append(float(value.value))
    for name, values in sorted(shares.items()):
        print(f'  {name:34} {np.mean(values):7.3f}')
    if shares:
        rest_of = cores - sum(float(np.mean(v)) for v in shares.values())
        print(f"  {'physics, rendering, executors':34} {rest_of:7.3f}")
    print(f"\n{'latency':36} {'p50':>7} {'max':>7} ms")
    print(f"{'target sent to state that tracks it':36} {np.median(tracked) * 1e3:7.1f} "
          f'{np.max(tracked) * 1e3:7.1f}')
    print(f"{'stop called to rest':36} {np.median(rest) * 1e3:7.1f} {np.max(rest) * 1e3:7.1f}"
          f'   target 150   {verdict(max(rest) <= 0.15)}')
    print(f"{'Ctrl-C to the end of the process':36} {end_s * 1e3:7.0f} {'':7}   target 3000  "
          f'{verdict(end_s <= 3.0)}')


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[1])
    parser.add_argument('--seconds', type=float, default=20.0, help='length of each measurement')
    args = parser.parse_args()
    headless = headless_speed(min(args.seconds, 10.0))
    with Spin() as spin:
        paced, free = (speed_with_nodes(spin, min(args.seconds, 10.0), asked)
                       for asked in (3.2, 0.0))
        print_speeds(headless, paced, free)
        got, cores, reports, latencies, end_s = real_time(spin, args.seconds)
    print_rates(got)
    print_costs(cores, reports, latencies, end_s)
    return 0


if __name__ == '__main__':
    sys.exit(main())
