"""
Start a station: the nodes that a parameter file describes, simulated by default.

The same nodes and files as `arena station`, with session:=true console:=true everything that an
evaluator needs; `ros2 launch arena_robot station.launch.py --show-args` lists the arguments.
A launch file that includes this one keeps its own launch configurations and environment.
"""

import re
import shutil
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from launch.actions import (
    DeclareLaunchArgument,
    EmitEvent,
    ExecuteProcess,
    LogInfo,
    OpaqueFunction,
    PopLaunchConfigurations,
    PushLaunchConfigurations,
    SetLaunchConfiguration,
    TimerAction,
)
from launch.conditions import IfCondition
from launch.event_handlers import OnShutdown
from launch.events.process import ProcessExited, ShutdownProcess
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import Node

from arena_robot.core.config import read_yaml
from arena_robot.core.errors import ConfigError
from arena_robot.core.observation import ROLES
from arena_robot.nodes.executables import PARTS
from arena_robot.nodes.lib.parameters import require_prefix
from arena_robot.nodes.lib.spin import SAID, local_only
from arena_robot.nodes.station.files import (
    CONFIGURATION_ERROR,
    names_in,
    nodes_in,
    part_names,
    refuse_unknown_arguments,
    require_matches,
    rviz_file,
)
from arena_robot.nodes.station.processes import (
    SessionOptions,
    overrides_file,
    session_processes,
    start_file,
)
from launch import LaunchContext, LaunchDescription, LaunchDescriptionEntity

PACKAGE = 'arena_robot'
BOOLEAN = ['true', 'false', 'True', 'False']
SIM = str(Path(__file__).resolve().parent.parent / 'config' / 'stations' / 'sim.yaml')
ARGUMENTS = [
    DeclareLaunchArgument('namespace', default_value='', description='namespace of all nodes'),
    DeclareLaunchArgument('params_file', default_value=SIM,
                          description='station file; the simulated station by default'),
    DeclareLaunchArgument('robot_type', default_value='',
                          description="panda, fr3, an embodiment or its YAML file; empty: the "
                                      "station file's"),
    DeclareLaunchArgument('robot_ip', default_value='',
                          description="address of the robot; empty: the station file's"),
    DeclareLaunchArgument('arm_prefix', default_value='',
                          description='what comes before joint and frame names'),
    DeclareLaunchArgument('ee_frame', default_value='',
                          description="frame at the arm's end; empty: the station file's"),
    DeclareLaunchArgument('joint_state_rate', default_value='',
                          description="Hz of joint_states; empty: the station file's"),
    DeclareLaunchArgument('load_gripper', default_value='true', choices=BOOLEAN,
                          description='false: no gripper_node, and none in the description'),
    DeclareLaunchArgument('use_rviz', default_value='false', choices=BOOLEAN,
                          description='start rviz2 too, with the names of this station'),
    DeclareLaunchArgument('use_fake_hardware', default_value='false', choices=BOOLEAN,
                          description='simulated parts in the place of those in the file'),
    DeclareLaunchArgument('use_mock_hardware', default_value='false', choices=BOOLEAN,
                          description='the same under its newer name'),
    DeclareLaunchArgument('autostart', default_value='true', choices=BOOLEAN,
                          description='configure and activate the nodes'),
    DeclareLaunchArgument('use_respawn', default_value='true', choices=BOOLEAN,
                          description='start a node again that dies'),
    DeclareLaunchArgument('respawn_delay', default_value='2.0',
                          description='seconds before that'),
    DeclareLaunchArgument('log_level', default_value='info', description='debug, info, warn …'),
    DeclareLaunchArgument('use_sim_time', default_value='false', choices=BOOLEAN,
                          description='take time from /clock'),
    DeclareLaunchArgument('record', default_value='', choices=['', *BOOLEAN],
                          description='start recorder_node too; empty: with session:=true'),
    DeclareLaunchArgument('session', default_value='false', choices=BOOLEAN,
                          description='start session_node and recorder_node too'),
    DeclareLaunchArgument('session_file', default_value='',
                          description="their parameters; empty: the station file's sections"),
    DeclareLaunchArgument('console', default_value='false', choices=BOOLEAN,
                          description="serve the evaluator's page too, http://localhost:8600/"),
]
NUMBERS = ('joint_state_rate', 'respawn_delay')
PREFIXED = ('arm_node', 'gripper_node', 'camera_node', PARTS)
BAD = '{name} has ended with a configuration error: the station ends'
QUOTED_NOTHING = "''"    # rcl does not parse a value without any character
REMAPPINGS = [('/tf', 'tf'), ('/tf_static', 'tf_static')]


@dataclass
class Started:
    """What the station has started; ``over`` once a node has ended with a configuration error."""

    processes: list[ExecuteProcess] = field(default_factory=list)
    over: bool = False


# Of one inclusion: launch loads this file anew for each.
STARTED = Started()


def _given(context: LaunchContext, *names: str) -> dict[str, str]:
    """Return those launch arguments that are not empty."""
    values = {name: context.launch_configurations[name] for name in names}
    return {name: value for name, value in values.items() if value != ''}


def _namespace(context: LaunchContext) -> str:
    """Return the nodes' namespace: the argument, below what a parent's PushRosNamespace says."""
    own = context.launch_configurations['namespace']
    outer = context.launch_configurations.get('ros_namespace', '')
    spaces = [own] if own.startswith('/') else [outer, own]
    return '/'.join(space.strip('/') for space in spaces if space.strip('/'))


def _sim_time(context: LaunchContext) -> dict[str, str]:
    """Return use_sim_time where it is true; a false one would override the station file's."""
    given = _given(context, 'use_sim_time')
    return given if given['use_sim_time'] == 'true' else {}


def _file_of(context: LaunchContext, values: Mapping[str, Mapping[str, object]]) -> Path:
    """Write parameters by node name that override the station file, until the launch ends."""
    given = context.launch_configurations
    path = overrides_file(values, _namespace(context), [Path(given['params_file'])])
    context.register_event_handler(OnShutdown(
        on_shutdown=lambda *_: path.unlink(missing_ok=True)))
    return path


def _arm(context: LaunchContext) -> dict[str, object]:
    """Return the launch arguments that are parameters of arm_node in every station."""
    given = _given(context, 'ee_frame', 'joint_state_rate')
    out: dict[str, object] = {**given}
    if 'joint_state_rate' in given:
        out['joint_state_rate'] = float(given['joint_state_rate'])
    if context.launch_configurations['load_gripper'] == 'false':
        out['gripper_type'] = ''
    return out


def _start_file(context: LaunchContext) -> dict[str, object]:
    """Return where the simulation of a station with sessions keeps its saved start."""
    given = _given(context, 'params_file', 'session_file')
    wanted = context.launch_configurations['session'] == 'true'
    return {'start_file': start_file([*map(Path, given.values())])} if wanted else {}


def _arguments(context: LaunchContext, executable: str) -> list[str]:
    """Return a node's ROS arguments: file, log level, and what the command line overrides."""
    shared = _given(context, 'params_file', 'log_level')
    out = ['--ros-args', '--params-file', shared['params_file'],
           '--log-level', shared['log_level']]
    prefix = _given(context, 'arm_prefix')
    if executable == 'sim_station':
        nodes = {'sim_station': _given(context, 'robot_type') | _start_file(context),
                 'arm_node': prefix | _arm(context), 'gripper_node': prefix,
                 **{f'{role}_camera': prefix for role in ROLES}}
        return [*out, '--params-file', str(_file_of(context, nodes))]
    overrides: dict[str, object] = {
        **_sim_time(context),
        **(_given(context, 'autostart') if executable != 'recorder_node' else {}),
        **(prefix if executable in PREFIXED else {})}
    if executable == 'arm_node':
        overrides |= _given(context, 'robot_type', 'robot_ip') | _arm(context)
    if executable in PREFIXED and context.launch_configurations[
            'use_fake_hardware'] == 'true':
        overrides['use_fake_hardware'] = 'true'
    for name, value in overrides.items():
        out += ['-p', f"{name}:={'' if value else QUOTED_NOTHING}{value}"]
    return out


def _node(context: LaunchContext, executable: str, name: str, arguments: list[str],
          sigterm_timeout: str = '5') -> Node:
    """Return a node that is started again when it dies; a configuration error ends the station."""
    given = context.launch_configurations

    def again(event: ProcessExited, now: LaunchContext) -> list[LaunchDescriptionEntity]:
        if now.is_shutdown or STARTED.over or event.returncode == 0:
            return []
        if event.returncode == CONFIGURATION_ERROR:
            return _end(now, name)
        if given['use_respawn'] != 'true':
            return []
        return [TimerAction(period=float(given['respawn_delay']), actions=[
            OpaqueFunction(function=lambda _: [] if STARTED.over else [start()])])]

    def start() -> Node:
        # A process of several nodes: giving it one name would rename them all.
        naming = {} if executable in ('sim_station', PARTS) else {'name': name}
        node = Node(package=PACKAGE, executable=executable, namespace=given['namespace'],
                    arguments=[*part_names(executable, name), *arguments],
                    remappings=REMAPPINGS, output='screen', on_exit=again,
                    sigterm_timeout=sigterm_timeout, **naming,
                    additional_env=local_only(context.environment))
        STARTED.processes.append(node)
        return node
    return start()


def _end(context: LaunchContext, name: str) -> list[LaunchDescriptionEntity]:
    """End what the station has started; the launch will return 1, and its other nodes go on."""
    STARTED.over = True
    # What launch itself counts as an error of a run that goes on.
    context.asyncio_loop.call_exception_handler({'message': BAD.format(name=name)})
    return [EmitEvent(event=ShutdownProcess(
        process_matcher=lambda process: process in STARTED.processes))]


def _local(context: LaunchContext) -> list[LaunchDescriptionEntity]:
    """Say that the nodes hear this machine only, unless the environment chooses."""
    return [LogInfo(msg=SAID)] if local_only(context.environment) else []


def _checked(context: LaunchContext) -> list[LaunchDescriptionEntity]:
    """Refuse arguments that mean nothing, and have those of BOOLEAN in small letters."""
    refuse_unknown_arguments(__file__, sys.argv, [one.name for one in ARGUMENTS])
    given = context.launch_configurations
    require_prefix(given['arm_prefix'])
    for name in NUMBERS:
        if given[name] and not re.fullmatch(r'\d+(\.\d*)?', given[name]):
            raise ConfigError(f"{name} must be a number of 0 or more, found '{given[name]}'")
    for name, value in given.items():
        if value in BOOLEAN:
            given[name] = value.lower()
    return []


def _nodes(context: LaunchContext) -> list[LaunchDescriptionEntity]:
    given = context.launch_configurations
    session, record = given['session'] == 'true', given['record'] == 'true'
    found = nodes_in(given['params_file'], parts_needed=not session,
                     namespace=_namespace(context))
    if given['load_gripper'] == 'false':
        if ('sim_station', 'sim_station') in found:
            raise ConfigError('load_gripper:=false is for a station whose file has no sim_station:'
                              ' the simulated station always has its gripper')
        found = [(program, kept) for program, name in found if (kept := ','.join(
            node for node in name.split(',') if node != 'gripper_node'))]
    out = [_node(context, executable, name, _arguments(context, executable))
           for executable, name in found]
    if record and not session:
        # A bag is finished on SIGINT, which may take longer than launch's own five seconds.
        out.append(_node(context, 'recorder_node', 'recorder_node',
                         _arguments(context, 'recorder_node'), '30'))
    return out


def _session(context: LaunchContext) -> list[LaunchDescriptionEntity]:
    """Return recorder, session node and page, as `arena station --session` starts them."""
    given = context.launch_configurations
    if given['session'] != 'true':
        return []
    files = [Path(given['params_file']), *map(Path, _given(context, 'session_file').values())]
    for path in files[1:]:
        require_matches(path, _namespace(context))
    nodes = nodes_in(files[0], parts_needed=False, namespace=_namespace(context))
    folder = Path(tempfile.mkdtemp(prefix='arena-station-'))
    context.register_event_handler(OnShutdown(
        on_shutdown=lambda *_: shutil.rmtree(folder, ignore_errors=True)))
    found = session_processes(
        folder, files,
        SessionOptions(record=given['record'] != 'false'),
        ('--log-level', given['log_level']), simulated=('sim_station', 'sim_station') in nodes,
        namespace=_namespace(context))
    clock = [word for name, value in _sim_time(context).items()
             for word in ('-p', f'{name}:={value}')]
    return [_node(context, one.executable, one.name, ['--ros-args', *one.arguments, *clock], '30')
            for one in found]


def _page(context: LaunchContext) -> list[LaunchDescriptionEntity]:
    command = [sys.executable, '-m', 'arena_robot.cli.main', 'console', '--wait', '120']
    namespace = _namespace(context)
    page = ExecuteProcess(cmd=[*command, *(['--namespace', namespace] if namespace else [])],
                          name='console', output='screen',
                          additional_env=local_only(context.environment))
    STARTED.processes.append(page)
    return [page]


def _rviz(context: LaunchContext) -> list[LaunchDescriptionEntity]:
    given = context.launch_configurations
    names = names_in(read_yaml(given['params_file']), _namespace(context))
    names = replace(names, **_given(context, 'robot_type', 'arm_prefix'))
    folder = Path(tempfile.mkdtemp(prefix='arena-rviz-'))
    context.register_event_handler(OnShutdown(
        on_shutdown=lambda *_: shutil.rmtree(folder, ignore_errors=True)))
    path = folder / 'station.rviz'
    path.write_text(rviz_file(names), encoding='utf-8')
    return [Node(package='rviz2', executable='rviz2', namespace=given['namespace'],
                 arguments=['-d', str(path)], remappings=REMAPPINGS, output='screen',
                 additional_env=local_only(context.environment))]


def generate_launch_description() -> LaunchDescription:
    """Return the arguments, the station's nodes, the session's, and the page."""
    return LaunchDescription([
        PushLaunchConfigurations(),
        *ARGUMENTS, OpaqueFunction(function=_checked), OpaqueFunction(function=_local),
        SetLaunchConfiguration('use_fake_hardware', 'true',
                               condition=IfCondition(LaunchConfiguration('use_mock_hardware'))),
        OpaqueFunction(function=_nodes),
        OpaqueFunction(function=_session),
        OpaqueFunction(function=_rviz, condition=IfCondition(LaunchConfiguration('use_rviz'))),
        OpaqueFunction(function=_page, condition=IfCondition(LaunchConfiguration('console'))),
        PopLaunchConfigurations(),
    ])
