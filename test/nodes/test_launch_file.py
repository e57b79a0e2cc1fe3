"""What station.launch.py gives its nodes, with stand-ins for the modules of ROS's launch."""

import os
import runpy
import sys
from itertools import pairwise
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
import yaml
from station_programs import ROOT, SIM

from arena_robot.core.errors import ConfigError

LAB = ROOT / 'config' / 'stations' / 'example_lab.yaml'

NAMES = {
    'launch': ('LaunchContext', 'LaunchDescription', 'LaunchDescriptionEntity'),
    'launch.actions': ('DeclareLaunchArgument', 'EmitEvent', 'ExecuteProcess', 'LogInfo',
                       'OpaqueFunction', 'PopLaunchConfigurations', 'PushLaunchConfigurations',
                       'SetLaunchConfiguration', 'TimerAction'),
    'launch.conditions': ('IfCondition',), 'launch.event_handlers': ('OnShutdown',),
    'launch.events': (), 'launch.events.process': ('ProcessExited', 'ShutdownProcess'),
    'launch.substitutions': ('LaunchConfiguration',),
    'launch_ros': (), 'launch_ros.actions': ('Node',)}


class Made(SimpleNamespace):
    """Any class of launch: keeps what it was made with."""

    def __init__(self, *words, **values):
        super().__init__(words=words, **{'name': words[0] if words else '', **values})


class Context:
    """A launch context: arguments, environment, and what is done at the end."""

    def __init__(self, environment=None, **given):
        self.launch_configurations, self.handlers = given, []
        self.environment = environment or {}
        self.register_event_handler = self.handlers.append


@pytest.fixture
def launched(monkeypatch):
    """Return a function that evaluates the file and returns (context, nodes by name)."""
    for name, classes in NAMES.items():
        module = ModuleType(name)
        for kind in classes:
            setattr(module, kind, type(kind, (Made,), {}))
        monkeypatch.setitem(sys.modules, name, module)
    launch_file = runpy.run_path(str(ROOT / 'launch' / 'station.launch.py'))
    defaults = {argument.words[0]: argument.default_value for argument in launch_file['ARGUMENTS']}

    def evaluate(**given):
        context = Context(**{**defaults, 'params_file': str(SIM), 'session': 'true', **given})
        launch_file['_checked'](context)
        nodes = [*launch_file['_nodes'](context), *launch_file['_session'](context),
                 *asked_for(context)]
        context.started = nodes
        return context, {node.executable: node.arguments for node in nodes}

    def asked_for(context):
        return [node for entity in launch_file['generate_launch_description']().words[0]
                if entity.__dict__.get('condition') and 'function' in entity.__dict__
                and context.launch_configurations[entity.condition.words[0].words[0]] == 'true'
                for node in entity.function(context)]
    return evaluate


def files_of(arguments):
    return [Path(path) for word, path in pairwise(arguments)
            if word == '--params-file']


@pytest.mark.parametrize('asked', ['true', 'false'])
def test_sim_time_is_set_only_when_asked(launched, asked):
    _, nodes = launched(use_sim_time=asked)
    for name in ('session_node', 'recorder_node'):
        said = [word for word in nodes[name] if word.startswith('use_sim_time')]
        assert said == (['use_sim_time:=true'] if asked == 'true' else [])


def test_the_prefix_reaches_the_station_and_no_file_stays(launched):
    context, nodes = launched(arm_prefix='left')
    made = [path for arguments in nodes.values() for path in files_of(arguments) if path != SIM]
    assert any('arm_prefix: left' in path.read_text() for path in files_of(nodes['sim_station']))
    for handler in context.handlers:
        handler.on_shutdown(None, context)
    assert not any(path.exists() for path in made if path.name != 'sim.yaml')


@pytest.mark.parametrize('asked', ['true', 'false'])
def test_rviz_is_started_with_the_names_of_the_station_when_asked(launched, asked):
    context, nodes = launched(use_rviz=asked, namespace='lab', robot_type='fr3',
                              arm_prefix='left')
    assert ('rviz2' in nodes) == (asked == 'true')
    if asked == 'true':
        word, path = nodes['rviz2']
        assert word == '-d'
        view = yaml.safe_load(Path(path).read_text())['Visualization Manager']
        assert view['Global Options']['Fixed Frame'] == 'left_fr3_link0'
        assert "'Value': '/lab/robot_description'" in str(view)
        for handler in context.handlers:
            handler.on_shutdown(None, context)
        assert not Path(path).exists()


@pytest.mark.parametrize(('given', 'added'), [
    ({}, {'ROS_AUTOMATIC_DISCOVERY_RANGE': 'LOCALHOST'}), ({'ROS_STATIC_PEERS': '10.0.0.2'}, {})])
def test_each_node_hears_this_machine_only_unless_the_environment_chooses(launched, given, added):
    before = dict(os.environ)
    context, _ = launched(environment=given, use_rviz='true')
    assert [node.additional_env for node in context.started] == [added] * len(context.started)
    assert dict(os.environ) == before


@pytest.mark.parametrize(('name', 'value', 'words'), [
    ('respawn_delay', 'soon', "respawn_delay must be a number of 0 or more, found 'soon'"),
    ('joint_state_rate', '-5', "joint_state_rate must be a number of 0 or more, found '-5'"),
    ('arm_prefix', 'left/', "arm_prefix 'left/' cannot begin the names of joints and frames")])
def test_an_argument_that_means_nothing_is_refused_in_words(launched, name, value, words):
    with pytest.raises(ConfigError, match=words):
        launched(**{name: value})


def test_python_writes_true_with_a_capital(launched):
    context, nodes = launched(params_file=str(LAB), session='false', use_fake_hardware='True',
                              load_gripper='False')
    assert "gripper_type:=''" in nodes['arm_node']
    assert 'use_fake_hardware:=true' in nodes['arm_node']
    assert context.launch_configurations['use_fake_hardware'] == 'true'


def test_a_parents_namespace_is_that_of_the_files_sections(launched, tmp_path):
    path = tmp_path / 'lab.yaml'
    path.write_text('/left/lab/arm_node: {ros__parameters: {}}\n')
    _, nodes = launched(params_file=str(path), session='false', ros_namespace='/left',
                        namespace='lab')
    assert list(nodes) == ['arm_node']
    with pytest.raises(ConfigError, match="in the namespace '/right/lab'"):
        launched(params_file=str(path), session='false', ros_namespace='right', namespace='lab')


@pytest.mark.parametrize(('gripper', 'names'), [
    ('true', ['arm_node', 'gripper_node', 'wrist_camera']),
    ('false', ['arm_node', 'wrist_camera'])])
def test_parts_of_one_robot_are_one_program_that_is_told_their_names(launched, tmp_path, gripper,
                                                                     names):
    path = tmp_path / 'station.yaml'
    path.write_text(yaml.safe_dump({f'/**/{name}': {'ros__parameters': {
        'backend': 'lerobot:so101_follower'}} for name in (
            'arm_node', 'gripper_node', 'wrist_camera')}))
    context, nodes = launched(params_file=str(path), session='false', arm_prefix='left',
                              load_gripper=gripper, use_fake_hardware='true')
    [program] = context.started
    assert (program.executable, list(nodes)) == ('part_nodes', ['part_nodes'])
    assert nodes['part_nodes'][:len(names) + 1] == [*names, '--ros-args']
    assert {'arm_prefix:=left', 'use_fake_hardware:=true'} <= set(nodes['part_nodes'])
    assert not any(word.startswith('__node') for word in nodes['part_nodes'])
    assert 'name' not in program.__dict__ or program.name == ''
