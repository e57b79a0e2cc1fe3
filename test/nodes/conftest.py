"""A simulated station in a process of its own, and this process's end of the topics."""

import os
import uuid
import warnings
from pathlib import Path

import pytest
from station_programs import Process, at_rest_at, sim_command, states_until

try:
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')  # of the parser that ROS's generator imports
        import rclpy  # noqa: F401
        import rosidl_generator_py  # noqa: F401

    from arena_msgs.msg import ArmState  # noqa: F401
    MISSING = ''
except ImportError as error:
    MISSING = f'needs rclpy and arena_msgs (make setup): {error}'
    collect_ignore_glob = ['test_*.py']

os.environ.setdefault('MUJOCO_GL', 'egl')
os.environ.setdefault('ROS_AUTOMATIC_DISCOVERY_RANGE', 'LOCALHOST')


@pytest.fixture
def processes():
    """Start programs that are surely dead after the test."""
    started = []

    def start(*command, **environment):
        started.append(Process(*command, **environment))
        return started[-1]
    yield start
    for process in started:
        process.close()


stations = []


def station_scope(fixture_name, config):
    """
    One station for all tests that are alone, else one for each file.

    It takes most of a core, which the tests beside it need.
    """
    return 'session' if config.option.markexpr == 'alone' else 'module'


def end_stations():
    while stations:
        station = stations.pop()
        station.end()
        station.close()


@pytest.fixture(autouse=True)
def the_shared_station_lives():
    yield
    for station in stations:
        assert station.popen.poll() is None, (
            f'the station ended with {station.popen.returncode}:\n{station.log[-5000:]}')


@pytest.hookimpl(trylast=True)  # once the test's own fixtures are gone
def pytest_runtest_teardown(item, nextitem):
    """End the shared station with the last test here: it takes most of a core."""
    if nextitem is None or Path(__file__).parent not in nextitem.path.parents:
        end_stations()


@pytest.fixture(scope='session')
def spin():
    from arena_robot.nodes.lib.spin import Spin
    with Spin() as spinning:
        yield spinning


@pytest.fixture(scope=station_scope)
def station_namespace():
    return f'test_{uuid.uuid4().hex[:6]}'


@pytest.fixture(scope=station_scope)
def station_process(station_namespace):
    process = Process(*sim_command(station_namespace))
    stations.append(process)
    yield process
    end_stations()


@pytest.fixture(scope='session')
def observer(spin):
    """Return a node that spins, for tests with stations of their own."""
    from arena_robot.nodes.lib.listener import Listening
    node = Listening('observer', context=spin.context)
    spin.add(node, threads=3)
    return node


@pytest.fixture(scope=station_scope)
def client(station_namespace, station_process):
    """Return a node in the station's namespace, spinning."""
    from arena_robot.nodes.lib.listener import Listening
    from arena_robot.nodes.lib.spin import Spin
    with Spin() as spinning:
        node = Listening('tester', namespace=station_namespace, context=spinning.context)
        spinning.add(node, threads=3)
        yield node


@pytest.fixture(scope=station_scope)
def arm_session(client):
    from arena_robot.nodes.remote.robot import RemoteArm
    with RemoteArm(client, timeout_s=20.0) as arm:
        yield arm


@pytest.fixture
def arm(arm_session):
    """Return the station's arm at rest in its reset pose."""
    from arena_robot.robots.arms import RESET_JOINTS
    arm_session.resume()
    arm_session.recover()
    if not at_rest_at(RESET_JOINTS, arm_session.wait_state(5.0)):
        arm_session.move_to(RESET_JOINTS, 0.6)
        states_until(arm_session, lambda state: at_rest_at(RESET_JOINTS, state))
    yield arm_session
    arm_session.resume()
    arm_session.stop()


@pytest.fixture(scope=station_scope)
def gripper(client):
    from arena_robot.nodes.remote.robot import RemoteGripper
    with RemoteGripper(client, timeout_s=20.0) as part:
        yield part
