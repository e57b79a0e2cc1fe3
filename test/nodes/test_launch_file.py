"""What station.launch.py gives its nodes, with stand-ins for the modules of ROS's launch."""

import runpy
import sys
from itertools import pairwise
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
import yaml
from station_programs import ROOT, SIM

NAMES = {
    'launch': ('LaunchContext', 'LaunchDescription', 'LaunchDescriptionEntity'),
    'launch.actions': ('DeclareLaunchArgument', 'ExecuteProcess', 'LogInfo', 'OpaqueFunction',
                       'SetLaunchConfiguration', 'TimerAction'),
    'launch.conditions': ('IfCondition',), 'launch.event_handlers': ('OnShutdown',),
    'launch.events': (), 'launch.events.process': ('ProcessExited',),
    'launch.substitutions': ('LaunchConfiguration',),
    'launch_ros': (), 'launch_ros.actions': ('Node',)}


class Made(SimpleNamespace):
    """Any class of launch: keeps what it was made with."""

    def __init__(self, *words, **values):
        super().__init__(words=words, **values)


class Context:
    """A launch context: arguments, and what is done at the end."""

    def __init__(self, **given):
        self.launch_configurations, self.handlers = given, []
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
        nodes = [*launch_file['_nodes'](context), *launch_file['_session'](context),
                 *asked_for(context)]
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
