"""
Play every episode below a folder with `ros2 bag play` into a live station, which must not move.

    python bench/play_bags.py arena-demo/sessions

Each bag is played twice: onto the very topics of the station, and with the remaps of
`arena episode replay DIR --remaps`. A simulated station of the bag's namespace runs here; its
messages are told from the played ones by their stamps. Needs rosbag2 (ROS 2, or ARENA_ROS_TOOLS);
with --stand-in, bench/bag_player.py plays in its place.
"""

import argparse
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / 'test'), str(ROOT / 'test' / 'nodes')]
os.environ.setdefault('ROS_DOMAIN_ID', '86')
os.environ.setdefault('ROS_AUTOMATIC_DISCOVERY_RANGE', 'LOCALHOST')
os.environ.setdefault('MUJOCO_GL', 'egl')

from ros_tools import ROSBAG2, environment, missing, ros2  # noqa: E402
from station_programs import Process, sim_command  # noqa: E402

ARM, NOW_S = '/arm_node/arm_state', 5.0
MOVED_RAD, MOVED_GRIPPER = 0.003, 0.01
COMMANDS = ('/target_joint', '/policy_action', '/joint_trajectory', '/command', '/commands',
            '/target')


class Watch:
    """How far a live station's arm (rad) and gripper (0 to 1) have been from where they were."""

    def __init__(self, node, space):
        from arena_msgs.msg import ArmState, GripperState
        from arena_robot.nodes.lib import qos
        self.arm, self.gripper, self._guard = [], [], threading.Lock()
        qos.subscription(node, ArmState, f'{space}{ARM}',
                         lambda m: self._keep(self.arm, m, np.asarray(m.q)), qos.SENSOR)
        qos.subscription(node, GripperState, f'{space}/gripper_node/gripper_state',
                         lambda m: self._keep(self.gripper, m, m.position), qos.SENSOR)

    def _keep(self, kept, message, value):
        stamp = message.header.stamp
        if abs(time.time() - stamp.sec) < NOW_S:
            with self._guard:
                kept.append(value)

    def begin(self):
        """Wait for both parts, and forget what was before."""
        with self._guard:
            self.arm.clear()
            self.gripper.clear()
        end_s = time.monotonic() + 60.0
        while min(len(self.arm), len(self.gripper)) < 5:
            if time.monotonic() > end_s:
                raise SystemExit('the station does not publish its state')
            time.sleep(0.05)

    def moved(self):
        """Return the largest deviations since :meth:`begin`, and the count of arm states."""
        with self._guard:
            arm, gripper = np.array(self.arm), np.array(self.gripper)
        return (float(np.max(np.abs(arm - arm[0]))), float(np.max(np.abs(gripper - gripper[0]))),
                len(arm))


def player(stand_in):
    """Return the command line of rosbag2's player, or of the one in its place."""
    if stand_in:
        print('played by bench/bag_player.py, not by rosbag2', flush=True)
        return [sys.executable, str(ROOT / 'bench' / 'bag_player.py')]
    if missing(*ROSBAG2):
        raise SystemExit(f'{missing(*ROSBAG2)}; --stand-in plays without rosbag2')
    return [*ros2(), 'bag', 'play']


def play(command, folder, *words, timeout_s):
    """Play a bag to its end."""
    done = subprocess.run([*command, str(folder), *words], text=True, check=False,
                          capture_output=True, timeout=timeout_s, env=environment())
    if done.returncode:
        raise SystemExit(f'playing {folder} failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}')


def remaps(folder):
    """Return the words that `arena episode replay DIR --remaps` prints."""
    said = subprocess.run([sys.executable, '-m', 'arena_robot.cli.main', 'episode', 'replay',
                           str(folder),
                           '--remaps'], text=True, check=True, capture_output=True, timeout=60)
    return ['--remap', *said.stdout.split()]


def spaces(folders):
    """Return the folders of the bags by the namespace of their station."""
    from arena_robot.recording.bag.reader import BagReader
    found = {}
    for folder in folders:
        with BagReader(folder) as bag:
            arm = next((name for name in bag.topics if name.endswith(ARM)), None)
            sent = sorted(name for name in bag.topics if name.endswith(COMMANDS))
            length_s = bag.metadata.duration_ns * 1e-9
        if arm is not None:
            found.setdefault(arm.removesuffix(ARM), []).append((folder, sent, length_s))
    return found


def watched(watch, command, rate, folder, sent, length_s):
    """Play a bag in both ways and print what moved; return whether nothing did."""
    good = True
    for how, words in (('live topics', []), ('remapped', remaps(folder))):
        watch.begin()
        play(command, folder, '--rate', str(rate), *words, timeout_s=60.0 + length_s / rate)
        arm, gripper, count = watch.moved()
        still = arm <= MOVED_RAD and gripper <= MOVED_GRIPPER
        good &= still
        print(f'{folder}  {how:<11}  {len(sent)} command topics  {count} arm states  '
              f'arm {arm:.4f} rad  gripper {gripper:.3f}  {"" if still else "MOVED"}', flush=True)
    return good


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('folder', type=Path)
    parser.add_argument('--rate', type=float, default=1.0)
    parser.add_argument('--stand-in', action='store_true', help='play without rosbag2')
    given = parser.parse_args()
    command = player(given.stand_in)
    from arena_robot.nodes.lib.listener import Listening
    from arena_robot.nodes.lib.spin import Spin
    found = spaces(sorted(path.parent for path in given.folder.rglob('metadata.yaml')))
    if not found:
        raise SystemExit(f'there is no episode below {given.folder}')
    good = True
    for space, bags in found.items():
        station = Process(*sim_command(space.strip('/'))) if space else Process(
            *[word for word in sim_command('x') if word not in ('-r', '__ns:=/x')])
        try:
            with Spin() as spin:
                node = Listening('watch', context=spin.context)
                spin.add(node, threads=2)
                watch = Watch(node, space)
                for one in bags:
                    good &= watched(watch, command, given.rate, *one)
        except SystemExit:
            print(station.log[-4000:])
            raise
        finally:
            station.end(timeout_s=20.0)
            station.close()
    print('nothing moved' if good else 'A PLAYED BAG MOVED A LIVE STATION')
    return 0 if good else 1


if __name__ == '__main__':
    sys.exit(main())
