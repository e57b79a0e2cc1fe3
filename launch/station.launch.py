"""
Start a station: the nodes that a parameter file describes, simulated by default.

The same nodes and files as `arena station`, with session:=true console:=true everything that an
evaluator needs; `ros2 launch arena_robot station.launch.py --show-args` lists the arguments.
"""

import sys
import tempfile
from pathlib import Path

from launch.actions import (
    DeclareLaunchArgument,
    ExecuteProcess,
    OpaqueFunction,
    SetLaunchConfiguration,
)
from launch.conditions import IfCondition
from launch.substitutions import LaunchConfiguration, PythonExpression
from launch_ros.actions import Node

from arena_robot.nodes.session_processes import SessionOptions, session_processes
from arena_robot.nodes.supervisor import nodes_in, overrides_file
from arena_robot.safety.robots import ROBOTS
from launch import LaunchContext, LaunchDescription, LaunchDescriptionEntity

PACKAGE = 'arena_robot'
BOOLEAN = ['true', 'false']
SIM = str(Path(__file__).resolve().parent.parent / 'config' / 'stations' / 'sim.yaml')
ARGUMENTS = [
    DeclareLaunchArgument('namespace', default_value='', description='namespace of all nodes'),
    DeclareLaunchArgument('params_file', default_value=SIM,
                          description='station file; the simulated station by default'),
    DeclareLaunchArgument('robot_type', default_value='', choices=['', *ROBOTS],
                          description="which Franka; empty: the station file's"),
    DeclareLaunchArgument('robot_ip', default_value='',
                          description="address of the robot; empty: the station file's"),
    DeclareLaunchArgument('arm_prefix', default_value='',
                          description='what comes before joint and frame names'),
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
    DeclareLaunchArgument('record', default_value='false', choices=BOOLEAN,
                          description='start recorder_node too'),
    DeclareLaunchArgument('session', default_value='false', choices=BOOLEAN,
                          description='start session_node and recorder_node too'),
    DeclareLaunchArgument('session_file', default_value='',
                          description="their parameters; empty: the station file's sections"),
    DeclareLaunchArgument('console', default_value='false', choices=BOOLEAN,
                          description="serve the evaluator's page too, http://localhost:8600/"),
]
REMAPPINGS = [('/tf', 'tf'), ('/tf_static', 'tf_static')]


def _given(context: LaunchContext, *names: str) -> dict[str, str]:
    """Return those launch arguments that are not empty."""
    values = {name: context.launch_configurations[name] for name in names}
    return {name: value for name, value in values.items() if value != ''}


def _arguments(context: LaunchContext, executable: str) -> list[str]:
    """Return a node's ROS arguments: file, log level, and what the command line overrides."""
    shared = _given(context, 'params_file', 'log_level')
    out = ['--ros-args', '--params-file', shared['params_file'],
           '--log-level', shared['log_level']]
    prefix = _given(context, 'arm_prefix')
    if executable == 'sim_station':
        nodes = {'sim_station': _given(context, 'robot_type'), 'arm_node': prefix,
                 'gripper_node': prefix}
        return [*out, '--params-file', str(overrides_file(nodes))]
    overrides = {**_given(context, 'autostart', 'use_sim_time'),
                 **({} if executable == 'camera_node' else prefix)}
    if executable == 'arm_node':
        overrides |= _given(context, 'robot_type', 'robot_ip')
    if context.launch_configurations['use_fake_hardware'] == 'true':
        overrides['use_fake_hardware'] = 'true'
    for name, value in overrides.items():
        out += ['-p', f'{name}:={value}']
    return out


def _nodes(context: LaunchContext) -> list[LaunchDescriptionEntity]:
    respawn = context.launch_configurations['use_respawn'] == 'true'
    out: list[LaunchDescriptionEntity] = []
    session = context.launch_configurations['session'] == 'true'
    for executable, name in nodes_in(context.launch_configurations['params_file'],
                                     parts_needed=not session):
        # The composed station holds several nodes: giving it one name would rename them all.
        naming = {} if executable == 'sim_station' else {'name': name}
        out.append(Node(
            package=PACKAGE, executable=executable, namespace=LaunchConfiguration('namespace'),
            arguments=_arguments(context, executable), remappings=REMAPPINGS, output='screen',
            respawn=respawn, respawn_delay=float(context.launch_configurations['respawn_delay']),
            **naming))
    return out


def _session(context: LaunchContext) -> list[LaunchDescriptionEntity]:
    """Return recorder, session node and page, as `arena station --session` starts them."""
    given = context.launch_configurations
    if given['session'] != 'true':
        return []
    files = [Path(given['params_file']), *map(Path, _given(context, 'session_file').values())]
    nodes = nodes_in(files[0], parts_needed=False)
    found = session_processes(
        Path(tempfile.mkdtemp(prefix='arena-station-')), files,
        SessionOptions(robot_type=_given(context, 'robot_type').get('robot_type')),
        ('--log-level', given['log_level']), simulated=('sim_station', 'sim_station') in nodes,
        fake=given['use_fake_hardware'] == 'true')
    clock = ['-p', f"use_sim_time:={given['use_sim_time']}"]
    return [Node(package=PACKAGE, executable=one.executable, name=one.name, output='screen',
                 namespace=LaunchConfiguration('namespace'), sigterm_timeout='30',
                 arguments=['--ros-args', *one.arguments, *clock],
                 respawn=given['use_respawn'] == 'true',
                 respawn_delay=float(given['respawn_delay'])) for one in found]


def _page(context: LaunchContext) -> list[LaunchDescriptionEntity]:
    command = [sys.executable, '-m', 'arena_robot.cli.main', 'console', '--wait', '120']
    namespace = _given(context, 'namespace').get('namespace')
    return [ExecuteProcess(cmd=[*command, *(['--namespace', namespace] if namespace else [])],
                           name='console', output='screen')]


def generate_launch_description() -> LaunchDescription:
    """Return the arguments, the station's nodes, the session's, and the page."""
    return LaunchDescription([
        *ARGUMENTS,
        SetLaunchConfiguration('use_fake_hardware', 'true',
                               condition=IfCondition(LaunchConfiguration('use_mock_hardware'))),
        OpaqueFunction(function=_nodes),
        OpaqueFunction(function=_session),
        OpaqueFunction(function=_page, condition=IfCondition(LaunchConfiguration('console'))),
        # A bag is finished on SIGINT, which may take longer than launch's own five seconds.
        Node(package=PACKAGE, executable='recorder_node', name='recorder_node',
             namespace=LaunchConfiguration('namespace'), output='screen', sigterm_timeout='30',
             parameters=[{'use_sim_time': LaunchConfiguration('use_sim_time')}],
             condition=IfCondition(PythonExpression([
                 "'", LaunchConfiguration('record'), "' == 'true' and '",
                 LaunchConfiguration('session'), "' == 'false'"]))),
    ])
