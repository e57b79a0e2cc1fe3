"""A station of other packages' nodes with arm_node, gripper_node, recorder and session node."""

import uuid
from pathlib import Path

import yaml
from process_rig import ProcessRig
from session_rig import EXAMPLES
from station_programs import ROOT

from arena_robot.nodes.station.files import nodes_in
from arena_robot.nodes.station.processes import (
    NodeProcess,
    SessionOptions,
    namespace_words,
    session_processes,
)

LAB = str(Path(__file__).with_name('fake_lab.py'))
SMALL = {'session_node': {'min_free_gb': 0.1}, 'recorder_node': {'min_free_disk': 0.1}}


class VendorRig(ProcessRig):
    """
    Processes of a lab under a namespace, and of a station from a station file.

    ``lab`` are options of the fake lab, ``program`` another program to run in its place.
    """

    def __init__(self, processes, folder, config, lab=(), max_steps=90, changes=SMALL,
                 environment=None, program=()):
        self.folder = folder
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
        commands = {'lab': tuple(program) or (
            LAB, '--namespace', self.namespace, *map(str, lab))}
        for executable, name in nodes_in(path):
            commands[name] = NodeProcess(executable, name, shared).command()[1:]
        for process in session_processes(folder, [path], options, words, namespace=self.namespace):
            commands[process.name] = tuple(process.command()[1:])
        # How late a test machine shows pictures is another test's question.
        commands['session_node'] += ('-p', 'max_image_age:=2.0')
        super().__init__(processes, self.namespace, commands,
                         {'ROS_LOG_DIR': str(folder / 'log'), **(environment or {})})


def changed(text, changes):
    """Return a station file with further parameters by node name."""
    content = yaml.safe_load(text)
    for node, values in changes.items():
        content[f'/**/{node}']['ros__parameters'] |= values
    return yaml.safe_dump(content)
