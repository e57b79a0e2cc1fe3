"""The processes of `arena station --session`: which files and values each node gets."""

from collections.abc import Mapping
from itertools import permutations
from pathlib import Path

import pytest
import yaml
from rclpy.node import Node

from arena_robot.core.errors import ConfigError
from arena_robot.nodes.lib.spin import Spin
from arena_robot.nodes.station.files import nodes_in, require_match
from arena_robot.nodes.station.processes import (
    SessionOptions,
    session_processes,
    start_file,
    write_parameters,
)


def parameters(process, namespace=''):
    """Return the parameters that a ROS node gets from the process's arguments."""
    with Spin(['test', '--ros-args', '-r', f'__ns:=/{namespace}', *process.arguments]) as spin:
        node = Node(process.name, context=spin.context, start_parameter_services=False,
                    automatically_declare_parameters_from_overrides=True)
        values = {name: parameter.value
                  for name, parameter in node.get_parameters_by_prefix('').items()}
        node.destroy_node()
    return values


def made(tmp_path, sections, text='', namespace='', **options):
    path = write_parameters(tmp_path / 'station.yaml', sections)
    with path.open('a', encoding='utf-8') as file:
        file.write(text)
    more = {name: options.pop(name) for name in ('simulated', 'fake') if name in options}
    processes = session_processes(tmp_path, [path], SessionOptions(**options),
                                  namespace=namespace, **more)
    return Parameters(processes, namespace)


class Parameters(Mapping):
    """The parameters of each process by its name; read when they are asked for."""

    def __init__(self, processes, namespace):
        self.processes = {process.name: process for process in processes}
        self.namespace = namespace

    def __getitem__(self, name):
        return parameters(self.processes[name], self.namespace)

    def __iter__(self):
        return iter(self.processes)

    def __len__(self):
        return len(self.processes)


KEYS = ['/**/session_node', '/session_node', 'session_node', '/*/session_node',
        '/left/session_node', '/**/left/session_node']


@pytest.mark.parametrize('namespace', ['', 'left'])
def test_the_command_line_wins_under_every_key_of_the_file(tmp_path, namespace):
    for first, second in permutations([k for k in KEYS if fits(k, namespace)], 2):
        text = ''.join(f'{key}:\n  ros__parameters: {{max_steps: {n}, arena: "host:1"}}\n'
                       for n, key in enumerate((first, second)))
        parameters = made(tmp_path, {'sim_station': {}}, text, namespace, max_steps=60,
                     policies=tmp_path / 'pool.yaml')['session_node']
        assert (parameters['max_steps'], parameters['arena']) == (60, 'local'), (first, second)


def fits(key, namespace):
    try:
        require_match('', key, namespace)
    except ConfigError:
        return False
    return True


def test_the_audit_node_is_started_where_a_file_has_its_section(tmp_path):
    parameters = made(tmp_path, {'sim_station': {'publish_clock': True},
                            'audit_node': {'judge': 'oracle'}}, data=tmp_path / 'd',
                 simulated=True)
    assert set(parameters) == {'recorder_node', 'session_node', 'audit_node'}
    audit = parameters['audit_node']
    assert (audit['judge'], audit['data_dir'], audit['use_sim_time']) == (
        'oracle', str(tmp_path / 'd'), True)


def test_a_simulated_station_needs_no_section(tmp_path):
    parameters = made(tmp_path, {'sim_station': {'task': 'lift_cube'}}, simulated=True)
    assert parameters['session_node']['scene'] == 'sim_station'
    pool = Path(parameters['session_node']['arena_file']).read_text(encoding='utf-8')
    assert len(yaml.safe_load(pool)['policies']) == 2
    assert parameters['recorder_node']['output_dir'] == '~/arena/sessions'


def test_a_real_station_without_a_section_says_what_to_copy(tmp_path):
    with pytest.raises(ConfigError, match=r'/\*\*/session_node.*config/session.yaml.*--session-c'):
        made(tmp_path, {'arm_node': {}})


def test_the_stations_file_overrides_defaults_and_the_command_line_overrides_it(tmp_path):
    sections = {'session_node': {'scene': '', 'data_dir': '/lab', 'max_steps': 400},
                'sim_station': {}}
    parameters = made(tmp_path, sections, simulated=True, max_steps=60)
    assert parameters['session_node']['scene'] == ''
    assert parameters['session_node']['max_steps'] == 60
    assert parameters['recorder_node']['output_dir'] == '/lab/sessions'


def test_the_folder_of_the_command_line_holds_for_both_nodes(tmp_path):
    sections = {'session_node': {'data_dir': '/lab'}, 'recorder_node': {'output_dir': '/other'}}
    parameters = made(tmp_path, sections, data=tmp_path / 'here')
    assert parameters['session_node']['data_dir'] == str(tmp_path / 'here')
    assert parameters['recorder_node']['output_dir'] == str(tmp_path / 'here' / 'sessions')


def test_a_pool_of_the_command_line_is_used_instead_of_a_server(tmp_path):
    sections = {'session_node': {'arena': 'arena.example.org:50061'}}
    parameters = made(tmp_path, sections, policies=tmp_path / 'pool.yaml')
    assert parameters['session_node']['arena'] == 'local'
    assert parameters['session_node']['arena_file'] == str(tmp_path / 'pool.yaml')


def test_with_a_published_clock_both_nodes_use_it(tmp_path):
    parameters = made(tmp_path, {'sim_station': {'publish_clock': True}}, simulated=True)
    assert all(values['use_sim_time'] is True for values in parameters.values())


def test_a_station_of_other_packages_parts_has_sessions_only(tmp_path):
    path = write_parameters(tmp_path / 'lab.yaml', {'session_node': {}})
    assert nodes_in(path, parts_needed=False) == []
    with pytest.raises(ConfigError, match='describes no node'):
        nodes_in(path)


def test_a_saved_start_is_kept_beside_the_results_or_where_the_file_says(tmp_path):
    station = tmp_path / 'station.yaml'
    station.write_text(yaml.safe_dump({
        '/**/session_node': {'ros__parameters': {'data_dir': '/results'}}}))
    assert start_file([station]) == '/results/simulation/start.json'
    assert start_file([station], tmp_path) == str(tmp_path / 'simulation' / 'start.json')
    station.write_text(yaml.safe_dump({
        '/**/sim_station': {'ros__parameters': {'start_file': '/run/start.json'}}}))
    assert start_file([station], tmp_path) == '/run/start.json'
