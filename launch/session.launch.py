"""
Start the session node and the recorder beside a station's nodes.

`ros2 launch arena_robot session.launch.py --show-args` lists the arguments; `arena console` serves
the evaluator's page.
"""

import sys
from pathlib import Path

from launch.actions import (
    DeclareLaunchArgument,
    IncludeLaunchDescription,
    OpaqueFunction,
    PopLaunchConfigurations,
    PushLaunchConfigurations,
)
from launch.launch_description_sources import PythonLaunchDescriptionSource
from launch.substitutions import LaunchConfiguration

from arena_robot.nodes.station.files import refuse_unknown_arguments
from launch import LaunchContext, LaunchDescription, LaunchDescriptionEntity

HERE = Path(__file__).resolve().parent
BOOLEAN = ['true', 'false', 'True', 'False']
ARGUMENTS = [
    DeclareLaunchArgument('namespace', default_value='', description='namespace of the station'),
    DeclareLaunchArgument('params_file',
                          default_value=str(HERE.parent / 'config' / 'session.yaml'),
                          description='parameters of session_node and recorder_node'),
    DeclareLaunchArgument('record', default_value='true', choices=BOOLEAN,
                          description='start recorder_node too'),
    DeclareLaunchArgument('use_respawn', default_value='true', choices=BOOLEAN,
                          description='start a node again that dies; a session goes on then'),
    DeclareLaunchArgument('log_level', default_value='info', description='debug, info, warn …'),
    DeclareLaunchArgument('use_sim_time', default_value='false', choices=BOOLEAN,
                          description='take time from /clock'),
]


def _checked(_: LaunchContext) -> list[LaunchDescriptionEntity]:
    refuse_unknown_arguments(__file__, sys.argv, [one.name for one in ARGUMENTS])
    return []


def generate_launch_description() -> LaunchDescription:
    """Return the description: station.launch.py with a file that has no parts."""
    given = {name: LaunchConfiguration(name) for name in (
        'namespace', 'params_file', 'use_respawn', 'log_level', 'use_sim_time')}
    return LaunchDescription([
        PushLaunchConfigurations(), *ARGUMENTS, OpaqueFunction(function=_checked),
        IncludeLaunchDescription(
            PythonLaunchDescriptionSource(str(HERE / 'station.launch.py')),
            launch_arguments={**given, 'session': 'true',
                              'record': LaunchConfiguration('record')}.items()),
        PopLaunchConfigurations()])
