"""
Start the session node and the recorder beside a station's nodes.

`ros2 launch arena_robot session.launch.py --show-args` lists the arguments; `arena console` serves
the evaluator's page.
"""

from pathlib import Path

from launch.actions import DeclareLaunchArgument
from launch.conditions import IfCondition
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import Node

from launch import LaunchDescription

PACKAGE = 'arena_robot'
BOOLEAN = ['true', 'false']
PARAMS = str(Path(__file__).resolve().parent.parent / 'config' / 'session.yaml')
ARGUMENTS = [
    DeclareLaunchArgument('namespace', default_value='', description='namespace of the station'),
    DeclareLaunchArgument('params_file', default_value=PARAMS,
                          description='parameters of session_node and recorder_node'),
    DeclareLaunchArgument('record', default_value='true', choices=BOOLEAN,
                          description='start recorder_node too'),
    DeclareLaunchArgument('use_respawn', default_value='true', choices=BOOLEAN,
                          description='start a node again that dies; a session goes on then'),
    DeclareLaunchArgument('log_level', default_value='info', description='debug, info, warn …'),
    DeclareLaunchArgument('use_sim_time', default_value='false', choices=BOOLEAN,
                          description='take time from /clock'),
]


def _node(name: str, **more: object) -> Node:
    # A recorder needs time to finish its bag.
    return Node(package=PACKAGE, executable=name, namespace=LaunchConfiguration('namespace'),
                parameters=[LaunchConfiguration('params_file'),
                            {'use_sim_time': LaunchConfiguration('use_sim_time')}],
                arguments=['--ros-args', '--log-level', LaunchConfiguration('log_level')],
                respawn=LaunchConfiguration('use_respawn'),
                respawn_delay=2.0, sigterm_timeout='30', output='screen', **more)


def generate_launch_description() -> LaunchDescription:
    """Return the description."""
    return LaunchDescription([
        *ARGUMENTS, _node('session_node'),
        _node('recorder_node', condition=IfCondition(LaunchConfiguration('record')))])
