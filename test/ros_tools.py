"""
ROS's own command line, launch and control_msgs, for tests that use them as a lab does.

They come with ROS 2, not with the wheels. Where ROS is not installed, ``ARENA_ROS_TOOLS`` may name
an install folder of colcon with launch, launch_ros, ros2launch, ros2cli, ros2action,
ros2bag, rosbag2_storage_mcap and control_msgs.
"""

import functools
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

VARIABLE, NEED = 'ARENA_ROS_TOOLS', 'ARENA_NEED_ROS_TOOLS'
OWN = Path(__file__).parents[1] / 'install' / 'arena_robot'  # as its setup.bash adds it
FOR_CPP = Path('lib/libarena_msgs__rosidl_typesupport_cpp.so')
NEEDED = ('ros2cli', 'ros2launch', 'launch_ros', 'control_msgs')
ROSBAG2 = ('ros2bag', 'rosbag2_py')


def prefixes():
    folder = os.environ.get(VARIABLE, '')
    if not folder:
        return []
    inner = [path for path in sorted(Path(folder).iterdir()) if (path / 'share').is_dir()]
    return inner or [Path(folder)]


def environment():
    """Return the environment of a program that uses the tools."""
    def joined(name, paths):
        return os.pathsep.join([*map(str, paths), *filter(None, [os.environ.get(name, '')])])
    installed = prefixes()
    return {**os.environ, 'PYTHONUNBUFFERED': '1',
            'PATH': joined('PATH', [Path(sys.executable).parent]),
            'AMENT_PREFIX_PATH': joined('AMENT_PREFIX_PATH', installed),
            'PYTHONPATH': joined('PYTHONPATH', (
                folder for path in (*installed, OWN)
                for folder in path.glob('lib/python3*/site-packages'))),
            'LD_LIBRARY_PATH': joined('LD_LIBRARY_PATH', (
                path / 'lib' for path in installed if list(path.glob('lib/*.so'))))}


def ros2():
    """Return the command line of ``ros2``."""
    commands = [path for prefix in prefixes() for path in prefix.glob('bin/ros2')]
    return [sys.executable, str(commands[0])] if commands else ['ros2']


def messages_for_cpp():
    sourced = filter(None, os.environ.get('AMENT_PREFIX_PATH', '').split(os.pathsep))
    return any((prefix / FOR_CPP).exists()
               for prefix in (OWN.parent / 'arena_msgs', *map(Path, sourced)))


@functools.cache
def missing(*more):
    """Return what is not there, as a reason to skip; empty when all is."""
    if VARIABLE not in os.environ and not shutil.which('ros2'):
        return (f'ros2 is missing: it comes with ROS 2 and not from PyPI; {VARIABLE} may name an '
                'install folder that has it (CONTRIBUTING.md)')
    if 'rosbag2_py' in more and not messages_for_cpp():
        return (f'arena_msgs has no {FOR_CPP}, which rosbag2 needs: make setup builds it where '
                f'ros2 is found or {VARIABLE} is set; run it again so')
    code = '\n'.join(f'import {name}' for name in (*NEEDED, *more))
    done = subprocess.run([sys.executable, '-c', code], env=environment(), text=True,
                          capture_output=True, timeout=60, check=False)
    return '' if done.returncode == 0 else f'{done.stderr.strip().splitlines()[-1]} (ros2 tools)'


def need_ros_tools(*more):
    """Skip where the tools are missing; fail there with ``ARENA_NEED_ROS_TOOLS`` set, as in CI."""
    if missing(*more):
        assert not os.environ.get(NEED), missing(*more)
        pytest.skip(missing(*more))
