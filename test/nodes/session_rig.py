"""A station in simulation with its session node, and an evaluator's desk, for tests."""

import time
import uuid

import yaml
from process_rig import ProcessRig

from arena_robot.nodes.station.processes import SimulatedStation, overrides_file

EXAMPLES = {'walker': 'example:random_walk', 'sleeper': 'example:frozen'}


class Rig(ProcessRig):
    """
    Processes of a station under a namespace; the session node can be killed and started.

    ``parts`` are parameters of the simulated parts by node name.
    """

    def __init__(self, processes, folder, pool=EXAMPLES, max_steps=4000, record=True, session=(),
                 parts=None, **options):
        self.folder = folder
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
        commands = {node.name: (*node.command()[1:], '--log-level', 'info')
                    for node in station.processes(files)}
        if parts:
            commands['sim_station'] += ('--params-file', str(overrides_file(parts)))
        # A test machine with other work shows pictures late; how late is another test's question.
        for value in ('max_image_age:=2.0', *session):
            commands['session_node'] += ('-p', value)
        super().__init__(processes, self.namespace, commands,
                         {'ROS_LOG_DIR': str(folder / 'log')})


def until(desk, look, what, timeout_s=30.0):
    end_s = time.monotonic() + timeout_s
    while not look(desk.state()):
        assert time.monotonic() < end_s, f'{what}: {desk.state()}'
        desk.wait_change(desk.state(), 0.2)
    return desk.state()
