"""Before ROS starts: its range of discovery, and whether SROS2 can do as its variables ask."""

import os
from collections.abc import Sequence

import rclpy
from rclpy.context import Context
from rclpy.impl.implementation_singleton import rclpy_implementation
from rclpy.signals import SignalHandlerOptions

from arena_robot.core.errors import ConfigError

RCLError = rclpy_implementation.RCLError
RANGE = 'ROS_AUTOMATIC_DISCOVERY_RANGE'
# Whoever sets one of these has chosen the range.
CHOSEN = (RANGE, 'ROS_STATIC_PEERS', 'ROS_DISCOVERY_SERVER', 'ROS_LOCALHOST_ONLY')
LOCAL = 'LOCALHOST'
SAID = (f'ROS hears this machine only; when parts of the station run on other machines, set '
        f'{RANGE}=SUBNET for all of them')


def start_ros(context: Context, args: Sequence[str] | None) -> None:
    """
    Start rclpy in a context.

    ConfigError when ROS_SECURITY_ENABLE asks for protected nodes and none can be made.
    """
    asked = os.environ.get('ROS_SECURITY_ENABLE') == 'true'
    try:
        rclpy.init(args=None if args is None else list(args), context=context,
                   signal_handler_options=SignalHandlerOptions.NO)
        if asked:
            rclpy.create_node('security_check', context=context, start_parameter_services=False,
                              enable_rosout=False).destroy_node()
    except RCLError as error:
        context.try_shutdown()
        if not asked:
            raise
        raise ConfigError(_sentence(str(error))) from error


def _sentence(said: str) -> str:
    enclave = os.environ.get('ROS_SECURITY_ENCLAVE_OVERRIDE', '')
    if 'security libraries' in said:
        return ('ROS_SECURITY_ENABLE is true, but this ROS was built without security, as the '
                'Python wheels are: use the ROS packages of Ubuntu, or unset ROS_SECURITY_ENABLE '
                'and keep ROS on this machine (ROS_AUTOMATIC_DISCOVERY_RANGE=LOCALHOST)')
    return (f'ROS_SECURITY_ENABLE is true, but no protected node can be made with the enclave '
            f'{enclave or "/"} of ROS_SECURITY_KEYSTORE='
            f'{os.environ.get("ROS_SECURITY_KEYSTORE", "")}: {said.splitlines()[0]}. Make the '
            'enclave as docs/operations.md says, and set both variables')


def stay_local() -> str:
    """Limit discovery to this machine; return a sentence about it, '' where a range was chosen."""
    if any(name in os.environ for name in CHOSEN):
        return ''
    os.environ[RANGE] = LOCAL
    return SAID
