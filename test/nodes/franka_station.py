"""A whole station over an emulated Franka, whose control box is the test's own, for its log."""

import os
import signal
import subprocess
import sys
import time
import uuid
from contextlib import ExitStack
from pathlib import Path

import yaml
from station_programs import ROOT
from vendor_rig import SMALL, changed

from arena_robot.cli.station.emulated import emulated
from arena_robot.drivers.emulators.fr3 import Fr3Emulator
from arena_robot.nodes.remote.desk import RemoteDesk

sys.path.insert(0, str(Path(__file__).parents[1] / 'drivers'))

from franka_rig import logged, until

HOST = '127.17.44.6'
ARENA = ('-m', 'arena_robot.cli.main')
WALKERS = {'walker': 'example:random_walk', 'wanderer': 'example:random_walk'}
ENDED = 'preempted|reflex|success|aborted'      # of a motion, by the box


class FrankaStation:
    """
    `arena station --session` with a shipped station file; ``box`` is the robot, ``desk`` the page.

    Used as a context; it ends all of it, and shows with a failure what the station wrote.
    """

    def __init__(self, processes, folder, name, max_steps=400):
        self.namespace = f'lab_{uuid.uuid4().hex[:6]}'
        text = (ROOT / 'config' / 'stations' / f'{name}.yaml').read_text(encoding='utf-8')
        path, pool = folder / 'station.yaml', folder / 'pool.yaml'
        path.write_text(changed(text.replace('127.0.0.1', HOST).replace('/tmp/', f'{folder}/'),
                                SMALL))
        pool.write_text(yaml.safe_dump({'policies': [
            {'name': name, 'address': address} for name, address in WALKERS.items()]}))
        self.data = folder / 'data'
        self.box = Fr3Emulator(HOST, lock_step=True)
        self.desk = RemoteDesk(namespace=self.namespace, patience_s=120.0)
        self.running, self._held = None, ExitStack()    # the cameras' stand-ins, and the box
        self._processes, self._path, self._log = processes, path, folder / 'log'
        self._words = ('--session', '--policies', str(pool), '--data', str(self.data),
                       '--max-steps', str(max_steps), '--namespace', self.namespace)

    def __enter__(self):
        self._held.enter_context(self.box)
        try:
            self._start()
        except BaseException:
            self._end()
            raise
        return self

    def _start(self):
        for emulator in self._held.enter_context(emulated(self._path)):
            if emulator.arguments[0] != 'fr3':
                self._processes(*emulator.command()[1:])
        self.running = self._processes(*ARENA, 'station', '--config', str(self._path),
                                       *self._words, ROS_LOG_DIR=str(self._log))
        self.desk.open()

    def __exit__(self, *_):
        self.desk.close()
        self._end()

    def _end(self):
        if self.running is not None:
            self.running.end(timeout_s=40.0)
            sys.stdout.write(self.running.log[-20_000:])    # pytest shows it with a failure
        self._held.close()

    def kill(self, node):
        """Kill a node's process; return the box's time, and this machine's."""
        pids = subprocess.run(['pgrep', '-f', f'__node:={node} .*{self.namespace}'], text=True,
                               check=True, capture_output=True).stdout.split()
        begin, begin_s = self.box.ticks, time.monotonic()
        for pid in pids:
            os.kill(int(pid), signal.SIGKILL)
        return begin, begin_s

    def told(self, look, timeout_s=60.0):
        """Return the first state of the desk of which ``look`` says yes."""
        end_s = time.monotonic() + timeout_s
        state = self.desk.state()
        while not look(state):
            assert time.monotonic() < end_s, state
            state = self.desk.wait_change(state, 0.2)
        return state

    def rested(self, begin):
        """Return how long after ``begin`` the arm was at rest for good, in ms of the box."""
        until(lambda: logged(self.box, begin, ENDED), 'the end of the motion')
        until(lambda: self.box._motion is None and not self.box._moving, 'rest')
        return max(logged(self.box, begin, f'at rest|{ENDED}')) - begin
