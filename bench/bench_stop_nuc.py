"""
From STOP to the arm at rest behind an emulated NUC, with its latencies and a gripper beside it.

The NUC is a process of its own. The arm is driven at up to 1.5 rad/s by targets at 15 Hz, as a
policy does; then `stop` is called, as arm_node does it. At rest: every joint below 0.02 rad/s, by
the robot's own stamps. Prints too how often arm and gripper are read meanwhile.
"""

import argparse
import os
import sys
import time

import numpy as np

from arena_robot.core.action import ArmCommand
from arena_robot.core.process import Process
from arena_robot.drivers.droid_nuc.arm import DroidNucArm
from arena_robot.drivers.droid_nuc.client import ServerLost, ZerorpcClient
from arena_robot.drivers.droid_nuc.gripper import DroidNucGripper

PORT, PRESSES, SEED = 4299, 100, 0
STILL = 0.02        # rad/s of the fastest joint
LONGEST_S = 1.0
HOME = np.array([0.0, -0.6283, 0.0, -2.5133, 0.0, 1.885, 0.0])


def press(arm, rng):
    """Move the arm, stop it; return (ms until rest, rad on the way there, its speed before)."""
    way = rng.normal(size=7)
    way[1], way[3] = -abs(way[1]), abs(way[3])      # away from the table
    way /= np.max(np.abs(way))
    start, speed, begin_s = arm.wait_state(1.0).q, rng.uniform(0.5, 1.5), time.monotonic()
    while (passed_s := time.monotonic() - begin_s) < 0.5:
        arm.command(ArmCommand(start + way * speed * passed_s, 0))
        time.sleep(1 / 15)
    time.sleep(rng.uniform(0.0, 1 / 15))
    pressed_ns = arm._clock.now_ns()
    before = arm.state(1.0)
    here = before.q + before.dq * (pressed_ns - before.stamp_ns) * 1e-9
    arm.stop()
    states = []
    while arm._clock.now_ns() - pressed_ns < LONGEST_S * 1e9:
        states.append(arm.wait_state(1.0))
    moving = [s for s in states if np.max(np.abs(s.dq)) >= STILL]
    rest = next((s for s in states if not moving or s.stamp_ns > moving[-1].stamp_ns), None)
    way_on = max(float(np.max(np.abs(s.q - here))) for s in states)
    arm.move_to(HOME, 1.0)
    time.sleep(1.2)
    return ((rest.stamp_ns - pressed_ns) * 1e-6 if rest else float('inf'), way_on,
            float(np.max(np.abs(before.dq))))


def rates(arm, gripper, seconds=3.0):
    """Return how many states of the arm and of the gripper came a second."""
    before, end_s = (arm._count, gripper._count), time.monotonic() + seconds
    time.sleep(end_s - time.monotonic())
    return [(part._count - count) / seconds
            for part, count in zip((arm, gripper), before, strict=True)]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--presses', type=int, default=PRESSES)
    presses = parser.parse_args().presses
    load, rng = os.getloadavg()[0], np.random.default_rng(SEED)
    nuc = Process('nuc', [sys.executable, '-m', 'arena_robot.cli.main', 'emulate', 'droid-nuc',
                          '--port', str(PORT)])
    nuc.start()
    try:
        asker = ZerorpcClient('127.0.0.1', PORT)
        for _ in range(100):
            try:
                asker.connect()
                break
            except ServerLost:
                time.sleep(0.2)
        asker.close()
        with DroidNucArm('127.0.0.1', port=PORT) as arm, \
                DroidNucGripper('127.0.0.1', port=PORT) as gripper:
            arm_hz, gripper_hz = rates(arm, gripper)
            found = np.array([press(arm, rng) for _ in range(presses)])
    finally:
        nuc.end()
    print(f'{os.cpu_count()} cores, load average {load:.1f} before this bench')
    print(f'  states a second: arm {arm_hz:.0f}, gripper {gripper_hz:.0f}')
    p50, p99 = np.percentile(found[:, 0], (50, 99))
    print(f'  stop to rest, {presses} presses at {np.median(found[:, 2]):.2f} rad/s   p50 '
          f'{p50:.0f} ms   p99 {p99:.0f} ms   max {found[:, 0].max():.0f} ms   at most '
          f'{found[:, 1].max():.3f} rad on')


if __name__ == '__main__':
    main()
