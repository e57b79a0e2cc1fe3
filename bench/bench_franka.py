"""
The drivers of a directly wired Franka, with the real libraries, on an emulated control box.

For each installed library: a minute of targets at 15 Hz against a box that is paced at 1 kHz, with
the box's late cycles beside those of an empty loop on the same machine; and how a step of 0.1 rad
of each joint settles, beside the simulated station's own controller.
"""

import argparse
import contextlib
import importlib.util
import os
import subprocess
import sys
import time

import numpy as np

from arena_robot.core.action import ArmCommand
from arena_robot.core.errors import DriverError
from arena_robot.drivers.emulators.fr3 import Fr3Emulator
from arena_robot.drivers.franka.arm import FrankaRsArm, LibfrankaArm
from arena_robot.drivers.sim.station import SimStation

HOST = '127.17.44.2'
PERIOD_S = 1 / 15
STEP_RAD, WATCH_S = 0.1, 2.0
ARMS = {'franka_rs': (FrankaRsArm, {}), 'libfranka': (LibfrankaArm, {}),
        'libfranka with torques': (LibfrankaArm, {'torques': True})}


def empty_loop(seconds):
    """Return the share of ticks of an empty 1 kHz loop that came more than 1 ms late."""
    late, due, ticks = 0, time.monotonic(), round(seconds * 1000)
    for _ in range(ticks):
        due += 0.001
        wait_s = due - time.monotonic()
        if wait_s > 0.0:
            time.sleep(wait_s)
        elif wait_s < -0.001:
            late += 1
            due = due if wait_s > -0.1 else time.monotonic()
    return late / ticks


def box_alone():
    """Be a paced control box; for each line that comes, say its cycles and the late ones."""
    with Fr3Emulator(HOST) as box:
        print('ready', flush=True)
        for _ in sys.stdin:
            print(box.ticks, box.late_ticks, flush=True)


@contextlib.contextmanager
def paced_box():
    """Run a paced box in a process of its own; hand over what asks for its cycles, late ones."""
    with subprocess.Popen([sys.executable, __file__, '--box'], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, text=True) as process:
        process.stdout.readline()

        def cycles():
            process.stdin.write('\n')
            process.stdin.flush()
            return np.array([int(one) for one in process.stdout.readline().split()])
        yield cycles
        process.stdin.close()


def paced(arm_class, seconds, options):
    """Track targets at 15 Hz; print the late cycles."""
    with paced_box() as cycles, arm_class(HOST, **options) as arm:
        start = arm.wait_state(5.0).q
        before, rates, trouble = cycles(), [], ''
        begin_s = time.monotonic()
        while (passed_s := time.monotonic() - begin_s) < seconds and not trouble:
            try:
                arm.command(ArmCommand(start + 0.1 * np.sin(2.0 * passed_s) * np.eye(7)[6], 0))
                rates.append(arm.state(1.0).control_success_rate)
            except Exception as error:
                trouble = f'; ended after {passed_s:.0f} s: {error}'
            time.sleep(PERIOD_S)
        ticks, late = cycles() - before
    rates = rates[10:] or [0.0]
    answered = '' if arm_class is LibfrankaArm and not options else (
        f', success rate {np.mean(rates):.3f} mean, {min(rates):.2f} least')
    print(f'  paced {seconds:g} s: {100 * late / max(1, ticks):.2f} % of cycles late'
          f'{answered}{trouble}')
    print(f'  an empty loop: {100 * empty_loop(min(seconds, 10.0)):.2f} % late; load '
          f'{os.getloadavg()[0]:.1f}')


@contextlib.contextmanager
def recorded(world):
    """Collect the simulated arm's time in s and joints after each of its steps."""
    path = []

    def take():
        path.append((world.now_ns() * 1e-9, world.data.qpos[world.arm.impedance.qpos].copy()))
    world.on_tick.append(take)
    yield path
    world.on_tick.remove(take)


def settling(path, begin_s, joint, goal_rad):
    """
    Return the delay until a joint moves, and from then the time until it stays near its goal.

    It moves when it has gone a hundredth of the step, and is near within two: no joint overshoots
    by nearly so much or so little that a small difference decides whether its second swing counts.
    """
    times_s = np.array([at for at, _ in path]) - begin_s
    away = np.array([q[joint] for _, q in path]) - goal_rad
    times_s, away = times_s[times_s >= 0.0], away[times_s >= 0.0]
    gone = np.flatnonzero(np.abs(away - away[0]) > STEP_RAD / 100)
    outside = np.flatnonzero(np.abs(away) > STEP_RAD / 50)
    moved_s = float(times_s[gone[0]])
    return moved_s, float(times_s[min(outside[-1] + 1, len(times_s) - 1)]) - moved_s


def driven(arm_class, joints=range(7), **options):
    """
    Return delay and settling of a step of each joint through the driver.

    On a busy machine the box's time is slower than the driver's, whose commands then must last.
    """
    out = []
    patient = {'command_timeout': 10.0, **options}
    with Fr3Emulator(HOST, lock_step=True) as box, arm_class(HOST, **patient) as arm:
        world, home = box.station.world, arm.wait_state(5.0).q
        for joint in joints:
            arm.move_to(home, 1.0)
            wait(box, 1.6)
            goal = home + STEP_RAD * np.eye(7)[joint]
            hold(box, arm, home, 0.5)
            with recorded(world) as path:
                begin_s = world.now_ns() * 1e-9
                hold(box, arm, goal, WATCH_S)
            out.append(settling(path, begin_s, joint, goal[joint]))
            arm.stop()
    return out


def wait(box, seconds):
    """Wait for the box's own time."""
    end = box.ticks + round(seconds * 1000)
    while box.ticks < end:
        time.sleep(0.002)


def hold(box, arm, goal, seconds):
    """Track one target, at 15 Hz, for the box's own time."""
    end = box.ticks + round(seconds * 1000)
    while box.ticks < end:
        arm.command(ArmCommand(goal, 0))
        wait(box, 0.066)


def simulated(joints=range(7)):
    """Return delay and settling of the same steps of the simulated station."""
    out = []
    with SimStation.make('do_not_move', robot='fr3', cameras=()) as station:
        world, home = station.world, station.arm.state(1.0).q.copy()
        for joint in joints:
            station.arm.move_to(home, 1.0)
            station.step(1.6)
            goal = home + STEP_RAD * np.eye(7)[joint]
            for target, seconds in ((home, 0.5), (goal, WATCH_S)):
                with recorded(world) as path:
                    begin_s = world.now_ns() * 1e-9
                    for _ in range(round(seconds / 0.066)):
                        station.arm.command(ArmCommand(target, 0))
                        for _ in range(66):     # by milliseconds, as the emulator does
                            station.step(0.001)
            out.append(settling(path, begin_s, joint, goal[joint]))
    return out


def shown(found):
    """Return times as words, and the delays."""
    delays = [1e3 * delay for delay, _ in found]
    return (' '.join(f'{settled:.3f}' for _, settled in found)
            + f'; begins after {min(delays):.0f} to {max(delays):.0f} ms')


def main():
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--seconds', type=float, default=60.0, help='0: only the settling')
    parser.add_argument('--box', action='store_true', help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.box:
        box_alone()
        return
    seconds = arguments.seconds
    station = simulated()
    print(f'settling of a step of {STEP_RAD} rad within a fiftieth of it, s, joints 1 to 7')
    print('  simulated station:', shown(station))
    for name, (arm_class, options) in ARMS.items():
        if importlib.util.find_spec(arm_class.MODULE) is None:
            print(f'{name}: {arm_class.INSTALL} is not installed')
            continue
        print(name)
        if seconds > 0.0:
            paced(arm_class, seconds, options)
        try:
            found = driven(arm_class, **options)
        except DriverError as error:
            print(f'  settling: not measured: {error}; load {os.getloadavg()[0]:.1f}')
            continue
        print('  settling:', shown(found))
        print("  as a share of the simulated station's:", ' '.join(
            f'{mine / theirs:.2f}' for (_, mine), (_, theirs) in zip(found, station, strict=True)))


if __name__ == '__main__':
    main()
