"""
From STOP to the arm at rest behind an emulated NUC, with its latencies and a gripper beside it.

The arm is driven at up to 1.5 rad/s by targets at 15 Hz, as a policy does; then `stop` is called,
as arm_node does it. At rest: every joint below 0.02 rad/s, by the robot's own stamps. The emulator
runs in lock step, at half speed: time passes while calls are answered and in short waits, so that
a busy machine hardly counts. 100 presses take ten minutes.
"""

import argparse
import time

import numpy as np

from arena_robot.core.action import ArmCommand
from arena_robot.core.observation import STILL_RAD_S
from arena_robot.drivers.droid_nuc.arm import DroidNucArm
from arena_robot.drivers.droid_nuc.gripper import DroidNucGripper
from arena_robot.drivers.emulators.droid_nuc import ARM_READ_S, DroidNucEmulator

PRESSES, SEED, FACTOR = 100, 0, 0.5
DRIVEN_S, WATCHED_S, HOMEWARD_S = 0.5, 0.8, 0.7
HOME = np.array([0.0, -0.6283, 0.0, -2.5133, 0.0, 1.885, 0.0])
TIMEOUT_S = 10.0


def sleep(clock, seconds):
    """Wait so long by the robot's time, which the drivers' calls let pass."""
    until_ns = clock.now_ns() + round(seconds * 1e9)
    while clock.now_ns() < until_ns:
        time.sleep(0.0005)


def press(arm, clock, rng):
    """Move the arm, stop it; return (ms until rest, rad on the way there, its speed before)."""
    way = rng.normal(size=7)
    way[1], way[3] = -abs(way[1]), abs(way[3])      # away from the table
    way /= np.max(np.abs(way))
    start, speed, begin_ns = arm.wait_state(TIMEOUT_S).q, rng.uniform(0.5, 1.5), clock.now_ns()
    while (passed_s := (clock.now_ns() - begin_ns) * 1e-9) < DRIVEN_S:
        arm.command(ArmCommand(start + way * speed * passed_s, 0))
        sleep(clock, 1 / 15)
    sleep(clock, rng.uniform(0.0, 1 / 15))
    before, pressed_ns = arm.state(TIMEOUT_S), clock.now_ns()
    here = before.q + before.dq * (pressed_ns - before.stamp_ns) * 1e-9
    arm.stop()
    states = []
    while clock.now_ns() - pressed_ns < WATCHED_S * 1e9:
        states.append(arm.wait_state(TIMEOUT_S))
    moving = [s.stamp_ns for s in states if np.max(np.abs(s.dq)) >= STILL_RAD_S]
    rest = next((s.stamp_ns for s in states if s.stamp_ns > max(moving, default=0)), None)
    arm.move_to(HOME, HOMEWARD_S)
    sleep(clock, HOMEWARD_S + 0.1)
    return ((rest - pressed_ns) * 1e-6 if rest else float('inf'),
            max(float(np.max(np.abs(s.q - here))) for s in states),
            float(np.max(np.abs(before.dq))))


def rates(arm, gripper, clock):
    """Return how many states of the arm and of the gripper come a second."""
    before, begin_ns = (arm._count, gripper._count), clock.now_ns()
    sleep(clock, 4.0)
    passed_s = (clock.now_ns() - begin_ns) * 1e-9
    return [(part._count - count) / passed_s
            for part, count in zip((arm, gripper), before, strict=True)]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--presses', type=int, default=PRESSES)
    parser.add_argument('--arm-read-ms', type=float, default=1e3 * ARM_READ_S,
                        help="what a read of the arm's state takes (%(default)g)")
    args = parser.parse_args()
    presses, read_s = args.presses, args.arm_read_ms * 1e-3
    rng = np.random.default_rng(SEED)
    with DroidNucEmulator(port=0, lock_step=True, real_time_factor=FACTOR,
                          arm_read_s=read_s) as nuc:
        clock, where = nuc.station.clock, {'robot_ip': '127.0.0.1', 'port': nuc.server.port}
        with DroidNucArm(**where, clock=clock) as arm, \
                DroidNucGripper(**where, clock=clock) as gripper:
            arm_hz, gripper_hz = rates(arm, gripper, clock)
            found = [press(arm, clock, rng) for _ in range(presses)]
    print(f'states a second: arm {arm_hz:.0f}, gripper {gripper_hz:.0f}')
    rest, way, speed = np.array(found).T
    p50, p99 = np.percentile(rest, (50, 99))
    print(f'  stop to rest, {presses} presses at {np.median(speed):.2f} '
          f'rad/s   p50 {p50:.0f} ms   p99 {p99:.0f} ms   max {rest.max():.0f} ms   '
          f'p50 {np.median(way):.3f} rad on, at most {way.max():.3f}')


if __name__ == '__main__':
    main()
