"""
From STOP to the arm at rest, by backend, in the robot's own time, at random moments.

A busy machine hardly counts, and what a station's own processes take not at all: bench_stop.py
measures from the page. At rest: every joint below 0.02 rad/s. `simulation`: velocity actions at
15 Hz through the safety layer. `jtc`: test/nodes/jtc_model.py, a joint_trajectory_controller over
stiff position control, 8 ms after the press, in targets that go on at up to 1 rad/s; `jtc from
desired` is its interpolate_from_desired_state. `franka_rs` and `libfranka`: the emulated control
box in lock step, in a motion of joint 7. For `droid_nuc`: bench_stop_nuc.py.
"""

import argparse
import os
import sys
import time
from contextlib import suppress
from functools import partial
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent / 'test' / 'nodes'))

from jtc_model import stopped

from arena_robot.core.action import Action, ActionSpace
from arena_robot.core.errors import DriverError
from arena_robot.drivers.emulators.fr3 import Fr3Emulator
from arena_robot.drivers.franka.arm import FrankaRsArm, LibfrankaArm
from arena_robot.drivers.guarded import guarded
from arena_robot.drivers.sim.station import SimStation
from arena_robot.robots.arms import FR3, PANDA

PRESSES, SEED, STILL, TICK_S, STEP_TICKS = 100, 0, 0.02, 0.004, 17
HOST, TIMEOUT_S = '127.17.44.9', 20.0
BACKENDS = ('simulation', 'jtc', 'jtc from desired', 'franka_rs', 'libfranka')


def simulation(rng):
    """Return (s, rad) from a press in a stream of actions to rest."""
    with SimStation.make('do_not_move', 0, cameras=()) as station:
        guard = guarded(station.arm, PANDA, station.clock)
        way = rng.uniform(-1.0, 1.0, 7)
        way[1], way[3] = -abs(way[1]), abs(way[3])      # away from the table
        for tick in range(int(rng.integers(100, 200))):
            if tick % STEP_TICKS == 0:
                action = Action(np.append(way, 0.0), ActionSpace.JOINT_VELOCITY)
                guard.act(action, station.clock.now_ns()).result()
            station.step(TICK_S)
        before = station.arm.state()
        guard.halt('bench')
        while np.max(np.abs((state := station.arm.state()).dq)) >= STILL:
            station.step(TICK_S)
        return ((state.stamp_ns - before.stamp_ns) * 1e-9,
                float(np.max(np.abs(state.q - before.q))))


def jtc(rng, from_desired):
    """Return (s, rad) from a press while points are followed to rest."""
    return stopped(FR3, int(rng.choice([0, 2, 4, 6])), rng.uniform(0.2, 1.0), from_desired)


def boxed(arm, box, rng):
    """Return (s, rad) from a press in a motion to rest, by the box's clock."""
    start = arm.wait_state(TIMEOUT_S).q
    arm.move_to(start + np.eye(7)[6] * (0.6 if start[6] < 0.0 else -0.6), 1.2)
    until_s, wait_ms = time.monotonic() + TIMEOUT_S, int(rng.integers(300, 800))
    begin = box.ticks
    while box.ticks < begin + wait_ms and time.monotonic() < until_s:
        time.sleep(0.001)
    before, pressed = arm.wait_state(TIMEOUT_S).q, box.ticks
    arm.stop()
    while time.monotonic() < until_s:
        rest = [ms for ms, words in list(box.events) if ms >= pressed and words == 'at rest']
        if rest:
            on = float(np.max(np.abs(arm.wait_state(TIMEOUT_S).q - before)))
            return (rest[0] - pressed) * 1e-3, on
        time.sleep(0.001)
    return float('inf'), float('inf')


def boxed_again(arm, box, rng):
    """Return what :func:`boxed` does, once more where a busy machine ended the motion before."""
    until_s = time.monotonic() + 6 * TIMEOUT_S
    while True:
        try:
            return boxed(arm, box, rng)
        except DriverError as error:
            if time.monotonic() > until_s:
                raise
            print(f'  {error}; again')
            time.sleep(1.0)
            with suppress(DriverError):
                arm.recover()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--presses', type=int, default=PRESSES)
    parser.add_argument('--backends', nargs='*', default=BACKENDS, choices=BACKENDS)
    args = parser.parse_args()
    presses, wanted = args.presses, args.backends
    print(f'{os.cpu_count()} cores, load average {os.getloadavg()[0]:.1f} before this bench')
    for name, once in (('simulation', simulation), ('jtc', partial(jtc, from_desired=False)),
                       ('jtc from desired', partial(jtc, from_desired=True))):
        if name in wanted:
            rng = np.random.default_rng(SEED)
            report(name, [once(rng) for _ in range(presses)])
    for name, kind in (('franka_rs', FrankaRsArm), ('libfranka', LibfrankaArm)):
        if name not in wanted:
            continue
        rng = np.random.default_rng(SEED)
        with Fr3Emulator(HOST, lock_step=True) as box, kind(HOST) as arm:
            report(name, [boxed_again(arm, box, rng) for _ in range(presses)])


def report(name, found):
    """Print how long the arm took after the presses, and how far it went on."""
    (p50, p99), most = 1e3 * np.percentile([s for s, _ in found], (50, 99)), max(found)
    print(f'  {name:<17} {len(found):>4} presses   p50 {p50:>4.0f} ms   p99 {p99:>4.0f} ms   '
          f'max {1e3 * most[0]:>4.0f} ms   on by {max(rad for _, rad in found):.3f} rad at most',
          flush=True)


if __name__ == '__main__':
    main()
