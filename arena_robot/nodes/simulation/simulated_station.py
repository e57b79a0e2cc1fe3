"""A simulated station with session and recorder, as separate processes."""

import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

from typing_extensions import Self

from arena_robot.nodes.station.processes import (
    DATA,
    NodeProcess,
    SessionOptions,
    Supervisor,
    namespace_words,
    session_processes,
    start_file,
    write_parameters,
)

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
        self._data = data or DATA.expanduser()
        self._namespace = namespace
        self._record = record
        self._sim = {**AS_A_PERSON, 'task': task, 'seed': seed,
                     'start_file': start_file(data=self._data), **(sim or {})}
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
        words = ('--log-level', 'warn', *namespace_words(self._namespace))
        options = SessionOptions(self._policies, self._data, self._max_steps, record=self._record)
        given = {key: value for key, value in self._sim.items() if value is not None}
        sim = write_parameters(folder / 'sim_station.yaml', {'sim_station': given})
        station = NodeProcess('sim_station', 'sim_station', ('--params-file', str(sim), *words))
        return [station, *session_processes(folder, (), options, words, simulated=True,
                                            namespace=self._namespace)]
