"""A simulated station with session and recorder, as separate processes."""

import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

import yaml
from typing_extensions import Self

from arena_robot.nodes.supervisor import NodeProcess, Supervisor

EXAMPLE_POOL = {'policies': [
    {'name': 'random-walk', 'address': 'example:random_walk'},
    {'name': 'frozen', 'address': 'example:frozen'},
]}
AS_A_PERSON = {'restore_mm': 3.0, 'restore_deg': 2.0}


class SimulatedStation:
    """
    Runs ``sim_station``, ``recorder_node`` and ``session_node`` while it is open.

    ``policies`` is a pool file (None: two example policies), ``data`` where sessions are kept
    (None: ~/arena). Between A and B the scene is restored with errors of 3 mm and 2 degrees, as by
    a person.
    """

    def __init__(self, policies: Path | None = None, data: Path | None = None, *,
                 task: str | None = None, seed: int | None = None, max_steps: int | None = None,
                 namespace: str = '', record: bool = True,
                 sim: Mapping[str, object] | None = None) -> None:
        self._policies = policies
        self._data = data or Path('~/arena').expanduser()
        self._namespace = namespace
        self._record = record
        self._sim = {**AS_A_PERSON, 'task': task, 'seed': seed, **(sim or {})}
        self._max_steps = max_steps
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._supervisor: Supervisor | None = None
        self._thread: threading.Thread | None = None

    def open(self) -> None:
        """Start the processes; they take some seconds to answer."""
        self._folder = tempfile.TemporaryDirectory(prefix='arena-station-')
        self._supervisor = Supervisor(self.processes(Path(self._folder.name)))
        self._thread = threading.Thread(target=self._supervisor.run, name='station', daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the processes; can be called twice."""
        if self._supervisor is not None and self._thread is not None:
            self._supervisor.stopped.set()
            self._thread.join(timeout=15.0)
            self._supervisor = None
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()

    def processes(self, folder: Path) -> list[NodeProcess]:
        """Return the processes, after writing the parameter files into ``folder``."""
        pool = self._policies
        if pool is None:
            pool = folder / 'policies.yaml'
            pool.write_text(yaml.safe_dump(EXAMPLE_POOL), encoding='utf-8')
        session = {'arena_file': str(pool), 'data_dir': str(self._data), 'scene': 'sim_station',
                   'max_steps': self._max_steps, 'min_free_gb': 1.0,
                   'recorder': 'recorder_node' if self._record else ''}
        recorder = {'output_dir': str(self._data / 'sessions'), 'min_free_disk': 1.0}
        found = [self._node('sim_station', self._sim, folder)]
        if self._record:
            found.append(self._node('recorder_node', recorder, folder))
        return [*found, self._node('session_node', session, folder)]

    def _node(self, name: str, values: Mapping[str, object], folder: Path) -> NodeProcess:
        given = {key: value for key, value in values.items() if value is not None}
        path = folder / f'{name}.yaml'
        path.write_text(yaml.safe_dump({f'/**/{name}': {'ros__parameters': given}}),
                        encoding='utf-8')
        words = ['--params-file', str(path), '--log-level', 'warn']
        if self._namespace:
            words += ['-r', f"__ns:=/{self._namespace.strip('/')}"]
        return NodeProcess(name, name, tuple(words))
