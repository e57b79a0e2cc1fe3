"""What is looked at before a Franka is connected: the settings, and what answers there."""

from arena_robot.core.errors import DriverError, NotConnected
from arena_robot.drivers.franka.advice import misfit
from arena_robot.drivers.franka.client import FrankaConfig
from arena_robot.drivers.franka.probe import version_at
from arena_robot.drivers.franka.wire import VERSIONS


def require_settings(library: str, robots: tuple[str, ...], config: FrankaConfig) -> None:
    """Raise NotConnected for settings that the library cannot have."""
    if config.robot_type not in robots:
        raise NotConnected(f'{library} drives {" and ".join(robots)} only, robot_type is '
                           f'{config.robot_type}; use franka_rs or droid_nuc')
    if config.torques and not (config.realtime or config.address.startswith('127.')):
        raise NotConnected('torques need realtime: true and a real-time kernel')


def require_box(config: FrankaConfig) -> None:
    """
    Raise NotConnected within 2 s where no control box of this robot answers.

    The libraries would wait for ever for one that is silent or closes the connection.
    """
    try:
        version = version_at(config.address)
    except DriverError as error:
        raise NotConnected(f'no connection to the robot at {config.address}: '
                           + str(error).replace(': ', '; ', 1)) from error
    require_version(version, config.robot_type)


def require_version(version: int, robot_type: str) -> None:
    """Raise NotConnected when a robot of this type speaks another version of the FCI."""
    if advice := misfit(version, robot_type):
        known = '' if version in VERSIONS.values() else 'incompatible library version as '
        raise NotConnected(f'{known}the robot speaks version {version} of the FCI, a {robot_type} '
                           f'version {VERSIONS[robot_type]}: {advice}')
