"""The processes of `arena station --session`: which files and values each node gets."""

from itertools import pairwise
from pathlib import Path

import pytest
import yaml

from arena_robot.core.errors import ConfigError
from arena_robot.nodes.session_processes import SessionOptions, session_processes
from arena_robot.nodes.station_file import nodes_in
from arena_robot.nodes.supervisor import write_parameters


def parameters(process):
    """Return what a node gets: of several files a later one overrides an earlier one."""
    found = {}
    words = process.arguments
    for word, path in pairwise(words):
        if word == '--params-file':
            for key, values in yaml.safe_load(Path(path).read_text(encoding='utf-8')).items():
                if key.endswith(f'/{process.name}'):
                    found |= values['ros__parameters'] or {}
    return found


def made(tmp_path, sections, **options):
    path = write_parameters(tmp_path / 'station.yaml', sections)
    more = {name: options.pop(name) for name in ('simulated', 'fake') if name in options}
    processes = session_processes(tmp_path, [path], SessionOptions(**options), **more)
    return {process.name: parameters(process) for process in processes}


def test_a_simulated_station_needs_no_section(tmp_path):
    found = made(tmp_path, {'sim_station': {'task': 'lift_cube'}}, simulated=True)
    assert found['session_node']['scene'] == 'sim_station'
    pool = Path(found['session_node']['arena_file']).read_text(encoding='utf-8')
    assert len(yaml.safe_load(pool)['policies']) == 2
    assert found['recorder_node']['output_dir'] == '~/arena/sessions'


def test_a_real_station_without_a_section_says_what_to_copy(tmp_path):
    with pytest.raises(ConfigError, match=r'/\*\*/session_node.*config/session.yaml.*--session-c'):
        made(tmp_path, {'arm_node': {}})


def test_the_stations_file_overrides_defaults_and_the_command_line_overrides_it(tmp_path):
    sections = {'session_node': {'scene': '', 'data_dir': '/lab', 'max_steps': 400},
                'sim_station': {}}
    found = made(tmp_path, sections, simulated=True, max_steps=60)
    assert found['session_node']['scene'] == ''
    assert found['session_node']['max_steps'] == 60
    assert found['recorder_node']['output_dir'] == '/lab/sessions'


def test_the_folder_of_the_command_line_holds_for_both_nodes(tmp_path):
    sections = {'session_node': {'data_dir': '/lab'}, 'recorder_node': {'output_dir': '/other'}}
    found = made(tmp_path, sections, data=tmp_path / 'here')
    assert found['session_node']['data_dir'] == str(tmp_path / 'here')
    assert found['recorder_node']['output_dir'] == str(tmp_path / 'here' / 'sessions')


def test_a_pool_of_the_command_line_is_used_instead_of_a_server(tmp_path):
    sections = {'session_node': {'arena': 'arena.example.org:50061'}}
    found = made(tmp_path, sections, policies=tmp_path / 'pool.yaml')
    assert found['session_node']['arena'] == 'local'
    assert found['session_node']['arena_file'] == str(tmp_path / 'pool.yaml')


def test_simulated_parts_are_stored_as_such(tmp_path):
    found = made(tmp_path, {'session_node': {'backend': 'my_lab.arm:Arm'}}, fake=True)
    assert found['session_node']['backend'] == 'sim'


def test_with_a_published_clock_both_nodes_use_it(tmp_path):
    found = made(tmp_path, {'sim_station': {'publish_clock': True}}, simulated=True)
    assert all(values['use_sim_time'] is True for values in found.values())


def test_a_station_of_other_packages_parts_has_sessions_only(tmp_path):
    path = write_parameters(tmp_path / 'lab.yaml', {'session_node': {}})
    assert nodes_in(path, parts_needed=False) == []
    with pytest.raises(ConfigError, match='describes no node'):
        nodes_in(path)
