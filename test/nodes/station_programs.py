"""Programs under test, a simulated station among them, and waiting for what its arm does."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
SIM = ROOT / 'config' / 'stations' / 'sim.yaml'


class Process:
    """
    A program under test; ``end`` returns its exit code and how long it took.

    What it says goes to a file: a pipe that nobody reads would stop it once it is full.
    """

    def __init__(self, *command, **environment):
        self._said = tempfile.TemporaryFile('a+')  # noqa: SIM115
        self.popen = subprocess.Popen(
            [sys.executable, *command], cwd=ROOT, stdout=self._said,
            env={**os.environ, 'PYTHONFAULTHANDLER': '1', **environment},
            stderr=subprocess.STDOUT, text=True)

    @property
    def log(self):
        self._said.seek(0)
        return self._said.read()

    def end(self, number=signal.SIGINT, timeout_s=10.0):
        begin_s = time.monotonic()
        if self.popen.poll() is None:
            self.popen.send_signal(number)
        try:
            self.popen.wait(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            self.popen.send_signal(signal.SIGABRT)    # it prints where each thread is
            self.popen.wait(timeout=timeout_s)
            pytest.fail(f'it did not end within {timeout_s:g} s: {self.log[-10_000:]}')
        return self.popen.returncode, time.monotonic() - begin_s

    def kill(self):
        if self.popen.poll() is None:
            self.popen.kill()
        self.popen.wait(timeout=20.0)

    def close(self):
        """Kill it, and forget what it said."""
        self.kill()
        self._said.close()


def sim_command(namespace, parameters=None, config=SIM):
    """Return the command of a simulated station with ``parameters`` by node name."""
    from arena_robot.nodes.station.processes import overrides_file
    extra = ('--params-file', str(overrides_file(parameters))) if parameters else ()
    return ('-m', 'arena_robot.nodes.simulation.node', '--ros-args', '-r', f'__ns:=/{namespace}',
            '--params-file', str(config), *extra, '--log-level', 'warn')


def speed(state):
    """Return the fastest joint's speed in rad/s."""
    return float(np.max(np.abs(state.dq)))


def at_rest_at(q, state, within=0.03):
    """Tell whether the arm stands still within ``within`` rad of the joints ``q``."""
    return np.max(np.abs(state.q - q)) < within and speed(state) < 0.02


def states_until(arm, condition, timeout_s=10.0):
    """Return the arm's new states up to the first that fulfils a condition."""
    states = [arm.wait_state(5.0)]
    end_s = time.monotonic() + timeout_s
    while not condition(states[-1]):
        assert time.monotonic() < end_s, states[-1]
        states.append(arm.wait_state(5.0))
    return states
