"""Options of clients and servers of policies; each has a safe default."""

import hmac
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from arena_robot.core.action import ActionSpace

MIB = 1 << 20
AUTH = ('api-key', 'bearer')


@dataclass(frozen=True)
class CallOptions:
    """
    How a client calls a policy server.

    ``token`` is sent as a bearer token, to an openpi server in the way of ``auth``. ``tls_ca`` is
    a PEM file to trust instead of the system's, ``tls_ca_pem`` its text. Deadlines are in seconds
    and always apply. ``stream`` sends gRPC calls over one long stream instead of one call each.
    ``action_space`` is that of a server that does not name one; ``joints`` those of its arm, where
    they are not 7 (0: any number; None: as it says itself), ``layout`` the one of its actions
    where the server does not say it. ``episode_seed`` sends an openpi
    server the seed too. ``open_loop_horizon``, ``pipelined``, ``blend_steps``
    and ``warm_up`` complete a spec. A server of LeRobot is told its ``checkpoint``, with
    ``policy_type`` and ``device``. ``cameras`` pairs a policy's picture with the view it gets,
    ``image_size`` is (height, width), None for the camera's own, and with ``state_gripper`` the
    state ends with the gripper. ``connect_to`` is an IP address to connect to instead
    of looking up the host, whose name is still sent and checked.
    """

    token: str = ''
    tls_ca: Path | None = None
    tls_ca_pem: str = ''
    connect_timeout_s: float = 5.0
    infer_timeout_s: float = 10.0
    reset_timeout_s: float = 5.0
    max_message_bytes: int = 32 * MIB
    stream: bool = False
    action_space: ActionSpace | None = None
    connect_to: str = ''
    auth: str = AUTH[0]
    episode_seed: bool = False
    open_loop_horizon: int = 0
    pipelined: bool = False
    blend_steps: int = 0
    warm_up: int = 0
    joints: int | None = None
    layout: str = ''
    checkpoint: str = ''
    policy_type: str = ''
    device: str = 'cpu'
    cameras: tuple[tuple[str, str], ...] = ()
    image_size: tuple[int, int] | None = None
    state_gripper: bool = True

    def __repr__(self) -> str:
        """Mask the token."""
        return (f'CallOptions(token={"***" if self.token else "none"}, tls_ca={self.tls_ca}, '
                f'infer_timeout_s={self.infer_timeout_s}, stream={self.stream})')


def is_one_of(sent: str, tokens: Iterable[str]) -> bool:
    """Tell whether a token is among those accepted, in a time that does not depend on it."""
    return sum(hmac.compare_digest(sent.encode(), token.encode()) for token in tokens) > 0


@dataclass(frozen=True)
class ServeOptions:
    """
    How a policy is served.

    ``port`` 0 picks a free one. ``token`` is demanded of every caller when it is not empty;
    ``old_tokens`` are taken as well, while it is exchanged.
    ``parallel`` calls the policy from several threads at once; the default is one at a time.
    ``workers`` bounds the gRPC calls at once, ``streams`` the open streams, ``max_call_s`` a call
    that comes without a deadline.
    """

    host: str = '127.0.0.1'
    port: int = 0
    token: str = ''
    old_tokens: tuple[str, ...] = ()
    tls_cert: Path | None = None
    tls_key: Path | None = None
    parallel: bool = False
    workers: int = 64
    streams: int = 192
    max_call_s: float = 120.0
    max_message_bytes: int = 32 * MIB

    def __repr__(self) -> str:
        """Mask the token."""
        return (f'ServeOptions(host={self.host!r}, port={self.port}, '
                f'token={"***" if self.token else "none"}, tls_cert={self.tls_cert}, '
                f'parallel={self.parallel})')
