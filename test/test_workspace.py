"""The packages in a colcon workspace, as a lab has them beside others."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
BIN = Path(sys.executable).parent
BUILT = ('setup.py', 'setup.cfg', 'package.xml', 'resource', 'launch', 'config', 'arena_robot')

# What package.xml may name: released for Jazzy, or keys of rosdep's index for Ubuntu 24.04. Each
# was looked up there (rosdistro of August 2026).
JAZZY = {
    'action_msgs', 'ament_cmake', 'ament_copyright', 'ament_flake8', 'ament_pep257',
    'ament_xmllint', 'builtin_interfaces', 'control_msgs', 'diagnostic_msgs', 'geometry_msgs',
    'launch', 'launch_ros', 'launch_testing', 'launch_testing_ros', 'lifecycle_msgs',
    'rcl_interfaces', 'rclpy', 'ros2action', 'ros2bag', 'ros2cli', 'ros2launch', 'ros2node',
    'ros2param', 'ros2service', 'ros2topic', 'rosbag2_storage_mcap', 'rosgraph_msgs',
    'rosidl_default_generators', 'rosidl_default_runtime', 'sensor_msgs', 'std_msgs', 'std_srvs',
    'tf2_msgs', 'trajectory_msgs'}
ROSDEP = {'mcap-ros2-support', 'python3-grpcio', 'python3-numpy', 'python3-opencv',
          'python3-protobuf', 'python3-pytest', 'python3-scipy', 'python3-serial',
          'python3-typing-extensions', 'python3-yaml'}


def keys_of(file):
    return set(re.findall(r'depend(?: [^>]*)?>([a-z0-9_-]+)<',
                          (ROOT / file).read_text(encoding='utf-8')))


def test_rosdep_knows_every_key():
    own = keys_of('package.xml')
    assert (own | keys_of('arena_msgs/package.xml')) - JAZZY - ROSDEP == {'arena_msgs'}
    assert own >= ROSDEP


def test_what_the_package_imports_of_ros_is_a_key():
    """A message package, or ROS's Python libraries; those with vendors' actions are optional."""
    packages = set()
    for path in [*(ROOT / 'arena_robot').rglob('*.py'), *(ROOT / 'launch').glob('*.py')]:
        packages |= set(re.findall(
            r'^\s*(?:from|import) ([a-z0-9_]+_(?:msgs|srvs|interfaces)|rclpy|launch|launch_ros)\b',
            path.read_text(encoding='utf-8'), re.MULTILINE))
    assert packages - keys_of('package.xml') - {'action_msgs'} == set()


@pytest.fixture(scope='module')
def workspace(tmp_path_factory):
    if not (BIN / 'colcon').exists():
        pytest.skip('colcon is missing: it comes with `make setup`, or with ROS 2')
    folder = tmp_path_factory.mktemp('workspace')
    source = folder / 'src' / 'arena_robot'
    source.mkdir(parents=True)
    for name in BUILT:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, source / name)
    shutil.copytree(ROOT / 'arena_msgs', source / 'arena_msgs')
    (folder / 'src' / 'arena_msgs').symlink_to('arena_robot/arena_msgs')
    return folder


def colcon(folder, *words):
    done = subprocess.run([BIN / 'colcon', *words], cwd=folder, text=True, capture_output=True,
                          timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_workspace_has_both_packages(workspace):
    packages = [line.split()[0] for line in colcon(workspace, 'list').splitlines()]
    assert sorted(packages) == ['arena_msgs', 'arena_robot']


def test_an_executable_that_colcon_built_uses_a_virtual_environment(workspace):
    """Only this package is built here; building the messages takes a minute."""
    colcon(workspace, 'build', '--packages-select', 'arena_robot')
    built = workspace / 'install' / 'arena_robot'
    program = built / 'lib' / 'arena_robot' / 'replay_node'
    assert program.read_text().splitlines()[0] == '#!/usr/bin/env python3'
    path = os.pathsep.join([str(BIN), os.environ['PATH']])
    packages = next(built.glob('lib/python3*/site-packages'))  # as its setup.bash has it
    done = subprocess.run(
        [program], env={**os.environ, 'PATH': path, 'PYTHONPATH': str(packages)}, text=True,
        capture_output=True, timeout=60, check=False)
    assert done.returncode == 2, done.stderr  # found rclpy, and then says what it lacks
    assert 'needs the parameter folder' in done.stderr
    share = built / 'share' / 'arena_robot'
    for name in ('launch/station.launch.py', 'config/station.rviz', 'config/stations/sim.yaml'):
        assert (share / name).is_file()
