"""Processes of a station, and parameter files for them."""

import logging
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import yaml

from arena_robot.core.process import Process, end_all
from arena_robot.nodes.executables import MODULES
from arena_robot.nodes.station_file import override_keys

log = logging.getLogger(__name__)
INTERRUPT_S, TERMINATE_S = 2.0, 0.5
SESSION = 'session_node'


@dataclass(frozen=True)
class NodeProcess:
    """One process: ``executable`` is a module of this room, ``name`` the node's."""

    executable: str
    name: str
    arguments: tuple[str, ...] = ()

    def command(self) -> list[str]:
        """Return the command line."""
        rename = [] if self.executable == 'sim_station' else ['-r', f'__node:={self.name}']
        return [sys.executable, '-m', MODULES[self.executable], '--ros-args',
                *rename, *self.arguments]


class Startable(Protocol):
    """A process of a station: its name in messages, and its command line."""

    @property
    def name(self) -> str:
        """Return the name in messages."""

    def command(self) -> list[str]:
        """Return the command line."""


def namespace_words(namespace: str) -> tuple[str, ...]:
    """Return the ROS arguments that put a node into a namespace."""
    return ('-r', f"__ns:=/{namespace.strip('/')}") if namespace else ()


def write_parameters(path: Path, values: Mapping[str, Mapping[str, object]],
                     namespace: str = '', over: Sequence[Path] = ()) -> Path:
    """
    Write parameters by node name to a file for ``--params-file``, and return its path.

    They override what the files ``over`` say about the nodes in ``namespace``.
    """
    content = {key: {'ros__parameters': dict(parameters)}
               for node, parameters in values.items()
               for key in (override_keys(node, namespace, over) if over else [f'/**/{node}'])}
    path.write_text(yaml.safe_dump(content), encoding='utf-8')
    return path


def overrides_file(values: Mapping[str, Mapping[str, object]], namespace: str = '',
                   over: Sequence[Path] = ()) -> Path:
    """
    Write parameters by node name to a new temporary file, and return its path.

    On the command line itself, ``-p node:name:=value`` does not reach a node in a namespace.
    """
    with tempfile.NamedTemporaryFile(prefix='arena_station_', suffix='.yaml',
                                     delete=False) as file:
        return write_parameters(Path(file.name), values, namespace, over)


@dataclass
class Supervisor:
    """
    Runs processes, restarts a process that exits, and ends all: the session node, then the others.

    ``interrupt_s`` is how long they may take to end: a recorder finishes its bag.
    """

    processes: Sequence[Startable]
    respawn: bool = True
    respawn_delay_s: float = 2.0
    interrupt_s: float = INTERRUPT_S
    stopped: threading.Event = field(default_factory=threading.Event)

    def run(self) -> int:
        """Run until :attr:`stopped` is set or all have ended; return the first bad exit code."""
        running = {node: self._start(node) for node in self.processes}
        due: dict[Startable, float] = {}
        worst = 0
        try:
            while not self.stopped.wait(0.05) and (running or due):
                for node, process in list(running.items()):
                    code = process.code
                    if code is None:
                        continue
                    del running[node]
                    worst = worst or code
                    if self.respawn and code not in (0, 2):
                        log.error('%s ended with %s; starting it again in %g s', node.name, code,
                                  self.respawn_delay_s)
                        due[node] = time.monotonic() + self.respawn_delay_s
                    elif code:
                        log.error('%s ended with %s', node.name, code)
                for node in [n for n, at_s in due.items() if time.monotonic() >= at_s]:
                    del due[node]
                    running[node] = self._start(node)
        finally:
            # A rollout ends at the arm and is recorded while both still answer.
            for name in (SESSION, ''):
                end_all([process for node, process in running.items()
                         if name in ('', node.name)], self.interrupt_s, TERMINATE_S)
        return 0 if self.stopped.is_set() else worst

    @staticmethod
    def _start(node: Startable) -> Process:
        process = Process(node.name, node.command())
        process.start()
        return process
