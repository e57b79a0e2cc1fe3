"""
The drivers of a directly wired Franka, with the real libraries, on an emulated control box.

For each installed library: a minute of targets at 15 Hz against a box that is paced at 1 kHz, with
the box's late cycles beside those of an empty loop on the same machine; and how a step of 0.1 rad
of each joint settles, beside the simulated station's own controller.
"""

import argparse
import importlib.util
import threading
import time

import numpy as np

from arena_robot.core.action import ArmCommand
from arena_robot.drivers.emulators.fr3 import Fr3Emulator
from arena_robot.drivers.franka.arm import FrankaRsArm, LibfrankaArm
from arena_robot.drivers.sim.station import SimStation

HOST = '127.17.44.2'
PERIOD_S = 1 / 15
STEP_RAD, SETTLED_RAD, WATCH_S = 0.1, 0.01, 2.0
ARMS = {'franka_rs': FrankaRsArm, 'libfranka': LibfrankaArm}


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


def paced(arm_class, seconds):
    """Track targets at 15 Hz; print the late cycles."""
    with Fr3Emulator(HOST) as box, arm_class(HOST) as arm:
        start = arm.wait_state(5.0).q
        ticks, late, rates, trouble = box.ticks, box.late_ticks, [], ''
        end_s = time.monotonic() + seconds
        while time.monotonic() < end_s and not trouble:
            phase = (end_s - time.monotonic()) * 2.0
            try:
                arm.command(ArmCommand(start + 0.1 * np.sin(phase) * np.eye(7)[6], 0))
                rates.append(arm.state(1.0).control_success_rate)
            except Exception as error:
                trouble = f'; ended: {error}'
            time.sleep(PERIOD_S)
        share = (box.late_ticks - late) / max(1, box.ticks - ticks)
        print(f'  paced {seconds:g} s: {100 * share:.2f} % of cycles late, success rate '
              f'{np.mean(rates[10:] or [0]):.3f} mean, {min(rates[10:] or [0]):.2f} '
              f'least{trouble}')
    print(f'  an empty loop: {100 * empty_loop(min(seconds, 10.0)):.2f} % late')


def settling(times_s, path):
    """Return when a path was last further than SETTLED_RAD from its end."""
    outside = np.flatnonzero(np.abs(path) > SETTLED_RAD)
    return float(times_s[min(outside[-1] + 1, len(times_s) - 1)]) if len(outside) else 0.0


def driven(arm_class):
    """Return the settling time of a step of each joint through the driver."""
    out = []
    with Fr3Emulator(HOST, lock_step=True) as box, arm_class(HOST) as arm:
        home = arm.wait_state(5.0).q
        for joint in range(7):
            arm.move_to(home, 1.0)
            wait(box, 1.6)
            goal = home + STEP_RAD * np.eye(7)[joint]
            hold(box, arm, home, 0.5)
            out.append(settling(*stepped(box, arm, goal, joint)))
            arm.stop()
    return out


def wait(box, seconds):
    """Wait for the box's own time."""
    end = box.ticks + round(seconds * 1000)
    while box.ticks < end:
        time.sleep(0.002)


def hold(box, arm, goal, seconds):
    """Track one target for the box's own time."""
    end = box.ticks + round(seconds * 1000)
    while box.ticks < end:
        arm.command(ArmCommand(goal, 0))
        wait(box, 0.066)


def stepped(box, arm, goal, joint):
    """Return times and distances of a joint from its goal after a step."""
    over, times, away = threading.Event(), [], []
    thread = threading.Thread(target=lambda: (hold(box, arm, goal, WATCH_S), over.set()))
    begin = box.ticks
    thread.start()
    while not over.is_set():
        times.append((box.ticks - begin) * 1e-3)
        away.append(box.station.world.data.qpos[box.station.world.arm.impedance.qpos][joint]
                    - goal[joint])
        time.sleep(0.001)
    thread.join()
    return np.array(times), np.array(away)


def simulated():
    """Return the settling time of the same steps of the simulated station."""
    out = []
    with SimStation.make('do_not_move', robot='fr3', cameras=()) as station:
        home = station.arm.state(1.0).q.copy()
        for joint in range(7):
            station.arm.move_to(home, 1.0)
            station.step(1.6)
            goal, away, times = home + STEP_RAD * np.eye(7)[joint], [], []
            for tick in range(round((0.5 + WATCH_S) / 0.004)):
                now_s = tick * 0.004 - 0.5
                station.arm.command(ArmCommand(home if now_s < 0.0 else goal, 0))
                station.step(0.004)
                if now_s >= 0.0:
                    times.append(now_s)
                    away.append(station.arm.state(1.0).q[joint] - goal[joint])
            out.append(settling(np.array(times), np.array(away)))
    return out


def main():
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--seconds', type=float, default=60.0)
    seconds = parser.parse_args().seconds
    print('settling of a step of 0.1 rad within 0.01 rad, s, joints 1 to 7')
    print('  simulated station:', ' '.join(f'{one:.2f}' for one in simulated()))
    for name, arm_class in ARMS.items():
        if importlib.util.find_spec(arm_class.MODULE) is None:
            print(f'{name}: {arm_class.INSTALL} is not installed')
            continue
        print(name)
        print('  settling:', ' '.join(f'{one:.2f}' for one in driven(arm_class)))
        paced(arm_class, seconds)


if __name__ == '__main__':
    main()
