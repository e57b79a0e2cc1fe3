"""A station of other packages' nodes with arm_node, gripper_node, recorder and session node."""

import sys
import uuid
from pathlib import Path

import yaml
from session_rig import EXAMPLES
from station_programs import ROOT

from arena_robot.nodes.remote.desk import RemoteDesk
from arena_robot.nodes.session_processes import SessionOptions, session_processes
from arena_robot.nodes.station_file import nodes_in
from arena_robot.nodes.supervisor import NodeProcess, namespace_words

LAB = str(Path(__file__).with_name('fake_lab.py'))
SMALL = {'session_node': {'min_free_gb': 0.1}, 'recorder_node': {'min_free_disk': 0.1}}


class VendorRig:
    """Processes of a lab under a namespace, and of a station from a station file."""

    def __init__(self, processes, folder, config, lab=(), max_steps=90, changes=SMALL,
                 environment=None):
        self.processes, self.folder = processes, folder
        self.namespace = f'lab_{uuid.uuid4().hex[:6]}'
        self.data = folder / 'data'
        pool = folder / 'pool.yaml'
        pool.write_text(yaml.safe_dump({'policies': [
            {'name': name, 'address': address} for name, address in EXAMPLES.items()]}))
        path = folder / 'station.yaml'
        path.write_text(changed((ROOT / 'config' / 'stations' / config).read_text(), changes))
        words = ('--log-level', 'info', *namespace_words(self.namespace))
        options = SessionOptions(pool, self.data, max_steps)
        shared = ('--params-file', str(path), *words)
        self.environment = {'ROS_LOG_DIR': str(folder / 'log'), **(environment or {})}
        self.commands = {'lab': (LAB, '--namespace', self.namespace, *map(str, lab))}
        for executable, name in nodes_in(path):
            self.commands[name] = NodeProcess(executable, name, shared).command()[1:]
        for one in session_processes(folder, [path], options, words, namespace=self.namespace):
            self.commands[one.name] = tuple(one.command()[1:])
        self.running = {name: self.start(name) for name in self.commands}

    def start(self, name):
        return self.processes(*self.commands[name], **self.environment)

    def kill(self, name):
        self.running[name].kill()

    def again(self, name):
        self.running[name] = self.start(name)

    def desk(self, patience_s=60.0):
        return RemoteDesk(namespace=self.namespace, patience_s=patience_s)

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        said = self.said()
        if kind is not None:
            sys.stdout.write(said[-20_000:])

    def said(self):
        """End every process and return all that they wrote to their terminals."""
        for process in reversed(self.running.values()):
            if process.popen.poll() is None:
                process.end(timeout_s=20.0)
        return ''.join(f'-- {name}\n{process.log}' for name, process in self.running.items())


def changed(text, changes):
    """Return a station file with further parameters by node name."""
    content = yaml.safe_load(text)
    for node, values in changes.items():
        content[f'/**/{node}']['ros__parameters'] |= values
    return yaml.safe_dump(content)
