"""A station in simulation with its session node, and an evaluator's desk, for tests."""

import sys
import time
import uuid

import yaml

from arena_robot.nodes.remote.desk import RemoteDesk
from arena_robot.nodes.simulation.simulated_station import SimulatedStation

EXAMPLES = {'walker': 'example:random_walk', 'sleeper': 'example:frozen'}


class Rig:
    """Processes of a station under a namespace; the session node can be killed and started."""

    def __init__(self, processes, folder, pool=EXAMPLES, max_steps=4000, record=True, **options):
        self.processes, self.folder = processes, folder
        self.namespace = f'test_{uuid.uuid4().hex[:6]}'
        self.pool = folder / 'pool.yaml'
        self.pool.write_text(yaml.safe_dump({'policies': [
            {'name': name, 'address': address} for name, address in pool.items()]}))
        self.data = folder / 'data'
        options = {'sim': {'image_width': 128, 'image_height': 72}, **options}
        station = SimulatedStation(self.pool, self.data, max_steps=max_steps, record=record,
                                   namespace=self.namespace, **options)
        files = folder / 'parameters'
        files.mkdir()
        self.commands = {node.name: (*node.command()[1:], '--log-level', 'info')
                         for node in station.processes(files)}
        # A test machine with other work shows pictures late; how late is another test's question.
        self.commands['session_node'] += ('-p', 'max_image_age:=2.0')
        self.logs = {'ROS_LOG_DIR': str(folder / 'log')}
        self.running = {name: self.start(name) for name in self.commands}

    def start(self, name):
        return self.processes(*self.commands[name], **self.logs)

    def kill(self, name='session_node'):
        self.running[name].kill()

    def again(self, name='session_node'):
        self.running[name] = self.start(name)

    def desk(self, patience_s=60.0):
        return RemoteDesk(namespace=self.namespace, patience_s=patience_s)

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        said = self.said()
        if kind is not None:
            sys.stdout.write(said[-20_000:])  # pytest shows it with the failure

    def said(self):
        """End every process and return all that they wrote to their terminals."""
        for process in self.running.values():
            if process.popen.poll() is None:
                process.end(timeout_s=15.0)
        return ''.join(process.log for process in self.running.values())


def until(desk, look, what, timeout_s=30.0):
    end_s = time.monotonic() + timeout_s
    while not look(desk.state()):
        assert time.monotonic() < end_s, f'{what}: {desk.state()}'
        desk.wait_change(desk.state(), 0.2)
    return desk.state()
