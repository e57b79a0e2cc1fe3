"""Which views a session node works with, and what it tells people, from its parameters."""

from rcl_interfaces.msg import ParameterValue
from rcl_interfaces.srv import GetParameters
from rclpy.node import Node

from arena_robot.core.errors import SessionError
from arena_robot.core.observation import EYES, view
from arena_robot.nodes.calls import ServiceClients
from arena_robot.robots.cameras import STYLES

NAMES = ('roles', 'cameras', 'eyes', 'topic_style', 'consent')
ATTEMPTS = 3


def session_views(node: Node, session: str, timeout_s: float) -> tuple[dict[str, str], str]:
    """
    Return the raw image topic of one view of each camera, and the text on consent.

    The view is the left eye's where that is used.

    Blocks the calling thread. Raises SessionError when the session node does not answer; one that
    has just started can lose a first answer, so it is asked ``ATTEMPTS`` times.
    """
    client = ServiceClients(node, session, {'get_parameters': GetParameters}, error=SessionError)
    try:
        values = _values(client, timeout_s)
    finally:
        client.close()
    roles, cameras, eyes = (list(value.string_array_value) for value in values[:3])
    eye = next((one for one in EYES if one in eyes), EYES[0])
    topic = STYLES[values[3].string_value][0].format(eye=eye, name='').removeprefix('~/')
    return {view(role, eye): f'{camera}/{topic}'
            for role, camera in zip(roles, cameras, strict=False)}, values[4].string_value


def _values(client: ServiceClients, timeout_s: float) -> list[ParameterValue]:
    request = GetParameters.Request(names=list(NAMES))
    for left in reversed(range(ATTEMPTS)):
        try:
            return list(client.call('get_parameters', request, timeout_s / 2).values)
        except SessionError:
            if not left or not client.present(0.0):
                raise
    raise AssertionError('the last attempt returns or raises')
