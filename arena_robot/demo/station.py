"""Robot-side processes of the demonstration: station, recorder, session node, console."""

import sys
from pathlib import Path
from typing import Any

import yaml

from arena_robot.core.process import Process
from arena_robot.demo.arena import STATION, arena_command
from arena_robot.nodes.executables import MODULES
from arena_robot.nodes.session_processes import start_file
from arena_robot.nodes.simulation.pace import SessionPace
from arena_robot.nodes.simulation.simulated_station import AS_A_PERSON

WIDTH, HEIGHT = 320, 180
EYES = ['left']
FIND_S = 60.0    # patience of those who look for the station's nodes on a busy machine


class DemoStation:
    """The processes of one station, simulated ``speed`` times as fast as the real one."""

    def __init__(self, folder: Path, logs: Path, speed: float, max_steps: int,
                 size: tuple[int, int] = (WIDTH, HEIGHT)) -> None:
        self._folder = folder
        self._logs = logs
        self._pace = SessionPace(speed)
        self._max_steps = max_steps
        self._size = size

    @property
    def sessions(self) -> Path:
        """Return the folder of all sessions."""
        return self._folder / 'sessions'

    def simulator(self, task: str, seed: int) -> Process:
        """Return the station's parts around one simulated world."""
        nodes = self._pace.station()
        nodes['sim_station'] |= {
            'task': task, 'seed': seed, 'eyes': EYES, 'image_width': self._size[0],
            'image_height': self._size[1], 'start_file': start_file(data=self._folder),
            **AS_A_PERSON}
        return self._node('sim_station', nodes)

    def recorder(self) -> Process:
        """Return the recorder."""
        return self._node('recorder_node', {'recorder_node': {
            'output_dir': str(self.sessions), 'min_free_disk': 0.5, 'derive': False}})

    def session(self, arena: str, token: Path) -> Process:
        """Return the session node, as a client of the server at ``arena``."""
        return self._node('session_node', {'session_node': {
            'station': STATION, 'data_dir': str(self._folder), 'arena': arena,
            'token_file': str(token), 'scene': 'sim_station', 'eyes': EYES,
            'max_steps': self._max_steps, 'min_free_gb': 0.5, **self._pace.session()}})

    def console(self, port: int) -> Process:
        """Return the evaluator's page."""
        return Process('console', arena_command('console', '--port', port, '--wait', FIND_S),
                       self._logs / 'console.log')

    def _node(self, name: str, parameters: dict[str, dict[str, Any]]) -> Process:
        self._logs.mkdir(parents=True, exist_ok=True)
        path = self._logs / f'{name}.yaml'
        everybody = {} if name == 'sim_station' else {'use_sim_time': True}
        path.write_text(yaml.safe_dump({
            f'/**/{node}': {'ros__parameters': {**everybody, **values}}
            for node, values in parameters.items()}), encoding='utf-8')
        return Process(name, [sys.executable, '-m', MODULES[name], '--ros-args',
                              '--params-file', str(path)], self._logs / f'{name}.log')
