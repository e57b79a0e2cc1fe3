"""
The 15 Hz control loop over a 27 s episode, as a station runs it.

Everything at once on this machine: simulated station with six image streams, recorder, session
node, evaluator's page with a reader of three views, and a policy that answers at once. Measured
from the published StepRecords: time between steps against 1/15 s, what was late, how old the
observations were. The targets are those of the session's acceptance tests.
"""

import os
import tempfile
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

import numpy as np
import yaml

from arena_msgs.msg import StepRecord
from arena_robot.core.episode import CONTROL_RATE_HZ, Slot
from arena_robot.nodes.remote.desk import RemoteDesk
from arena_robot.nodes.station.processes import SimulatedStation
from arena_robot.web.console.app import ConsoleServer

STEPS = 405
POOL = {'policies': [{'name': 'one', 'address': 'example:echo'},
                     {'name': 'two', 'address': 'example:echo'}]}


def look(url, over):
    """Fetch three views as fast as the page does, once there are pictures."""
    while not over.wait(0.15):
        for view in ('left_left', 'right_left', 'wrist_left'):
            try:
                with urllib.request.urlopen(f'{url}api/frame/{view}', timeout=5.0) as answer:
                    answer.read()
            except urllib.error.HTTPError as error:
                if error.code != 404:
                    raise


def episode(desk):
    """Run A and return the records of its steps."""
    steps = []
    desk.hear(StepRecord, 'session_node/step', steps.append)
    desk.take('bench')
    desk.press('check')
    desk.open_session('bench', 'hold still for a while', repeat=True)
    desk.press('photograph')
    desk.start(Slot.A)
    state = desk.state()
    while state.state.running:
        state = desk.wait_change(state, 1.0)
    time.sleep(0.5)
    return steps, desk.state().slots[0]


def rows(steps, slot):
    """Return (what, measured, wanted, good) of the steps."""
    loops = np.array([s.loop_s for s in steps[1:]])
    error = np.abs(loops - 1.0 / CONTROL_RATE_HZ) * 1e3
    late = np.array([s.late_s for s in steps[1:]])
    slow = int(np.sum(loops > 1.25 / CONTROL_RATE_HZ))
    told = int(np.sum((loops > 1.25 / CONTROL_RATE_HZ) & (late > 0.0)))
    age = np.array([s.observation_age_s for s in steps]) * 1e3
    skew = np.array([s.skew_s for s in steps]) * 1e3
    # The times of a step are whole milliseconds until the reveal: their mean is no rate.
    first, last = (one.header.stamp for one in (steps[0], steps[-1]))
    spent_s = last.sec - first.sec + (last.nanosec - first.nanosec) * 1e-9
    p = np.percentile
    return [
        ('steps', f'{len(steps)} ({slot.end})', f'{STEPS}', len(steps) == STEPS),
        ('tick error p50', f'{p(error, 50):.2f} ms', '1 ms', p(error, 50) <= 1.0),
        ('tick error p99', f'{p(error, 99):.2f} ms', '8 ms', p(error, 99) <= 8.0),
        ('tick error max', f'{error.max():.1f} ms', '', True),
        ('steps late by a quarter period', f'{slow}, {told} reported', 'all reported',
         slow == told),
        ('rate', f'{(len(steps) - 1) / spent_s:.3f} Hz', '15 Hz', True),
        ('observation age p50', f'{p(age, 50):.0f} ms', '', True),
        ('observation age p99', f'{p(age, 99):.0f} ms', '80 ms', p(age, 99) <= 80.0),
        ('camera to arm skew p99', f'{p(skew, 99):.0f} ms', 'recorded per step', True),
    ]


def main():
    os.environ.setdefault('MUJOCO_GL', 'egl')
    os.environ.setdefault('ROS_DOMAIN_ID', '84')
    over = threading.Event()
    with tempfile.TemporaryDirectory() as folder:
        pool = Path(folder, 'pool.yaml')
        pool.write_text(yaml.safe_dump(POOL))
        station = SimulatedStation(pool, Path(folder, 'data'), max_steps=STEPS)
        with station, RemoteDesk(patience_s=60.0) as desk:
            desk.watch_views()
            with ConsoleServer(desk, port=0) as console:
                time.sleep(3.0)
                reader = threading.Thread(target=look, args=(console.url, over), daemon=True)
                reader.start()
                steps, slot = episode(desk)
                over.set()
                reader.join(5.0)
    load = os.getloadavg()[0]
    print(f'{os.cpu_count()} cores, load average {load:.1f} (with this bench)')
    for what, measured, wanted, good in rows(steps, slot):
        print(f'  {what:<32} {measured:>22}   {wanted:<18} {"" if good else "MISSED"}')


if __name__ == '__main__':
    main()
