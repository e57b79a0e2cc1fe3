"""The parameters of audit_node."""

from dataclasses import dataclass

from arena_robot.core.observation import ROLES
from arena_robot.nodes.lib.parameters import Parameters, param
from arena_robot.nodes.remote.transports import RAW, TRANSPORTS
from arena_robot.robots.cameras import STYLES


@dataclass(frozen=True, kw_only=True)
class AuditParams(Parameters):
    """The parameters of audit_node."""

    data_dir: str = param('~/arena', 'data_dir of the session node, whose sessions are audited')
    session: str = param('session_node', 'name of the session node')
    judge: str = param('local', 'who judges: a name of `arena judge list`, or module:Class')
    judge_settings: tuple[str, ...] = param((), 'settings of the judge, each KEY=VALUE')
    period: float = param(2.0, 'time between two looks for finished sessions', 0.1, 3600.0,
                          unit='s')
    live: bool = param(False, 'publish ~/progress while a rollout runs; an evaluator who sees it '
                       'is not blind any more')
    live_rate: float = param(2.5, 'values of ~/progress per second', 2.0, 10.0, unit='Hz')
    cameras: tuple[str, ...] = param(
        tuple(f'{role}_camera' for role in ROLES), 'camera nodes, in the order of roles')
    roles: tuple[str, ...] = param(ROLES, 'role of each camera node')
    topic_style: str = param(
        'zed5', 'topic names of the camera nodes', choices=tuple(STYLES))
    image_transport: str = param(
        RAW, 'how the camera nodes send images, as for the session node',
        choices=tuple(TRANSPORTS))
