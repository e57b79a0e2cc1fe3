"""Which views a session node works with, and what it tells people, from its parameters."""

from rclpy.node import Node

from arena_robot.core.errors import SessionError
from arena_robot.core.observation import EYES, view
from arena_robot.nodes.calls import parameters_of
from arena_robot.robots.cameras import STYLES

NAMES = ('roles', 'cameras', 'eyes', 'topic_style', 'consent')


def session_views(node: Node, session: str, timeout_s: float) -> tuple[dict[str, str], str]:
    """
    Return the raw image topic of one view of each camera, and the text on consent.

    The view is the left eye's where that is used.

    Blocks the calling thread. Raises SessionError when the session node does not answer.
    """
    values = parameters_of(node, session, NAMES, timeout_s, SessionError)
    roles, cameras, eyes = (list(value.string_array_value) for value in values[:3])
    eye = next((one for one in EYES if one in eyes), EYES[0])
    topic = STYLES[values[3].string_value][0].format(eye=eye, name='').removeprefix('~/')
    return {view(role, eye): f'{camera}/{topic}'
            for role, camera in zip(roles, cameras, strict=False)}, values[4].string_value
