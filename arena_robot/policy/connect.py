"""Connect to a policy by address: ``grpc://``, ``grpcs://``, ``openpi://``, ``openpis://``."""

from arena_robot.policy.address import parse_address
from arena_robot.policy.grpc.client import GrpcPolicy
from arena_robot.policy.grpc.server import GrpcPolicyServer
from arena_robot.policy.openpi.client import OpenpiPolicy
from arena_robot.policy.openpi.server import OpenpiPolicyServer
from arena_robot.policy.options import CallOptions
from arena_robot.policy.waiting import Tell, wait_for

SERVERS: dict[str, type[GrpcPolicyServer] | type[OpenpiPolicyServer]] = {
    'grpc': GrpcPolicyServer, 'openpi': OpenpiPolicyServer}


def connect(address: str, options: CallOptions | None = None, wait_s: float = 0.0,
            tell: Tell | None = None) -> GrpcPolicy | OpenpiPolicy:
    """
    Return the open policy at ``address``; use it with ``with``, or close it.

    It sends images without resizing: wrap it in
    ``Resizing`` to pass whole camera frames. An openpi address may have a path and options, such
    as ``openpis://host:443/pi0?action_space=joint_velocity`` for servers that do not report their
    action space. With ``wait_s`` it is tried again for so long while no server answers, and
    ``tell`` gets the seconds waited and the error each time. Raises ConfigError for a bad address,
    PolicyError when no server answers.
    """
    place = parse_address(address)
    kind = OpenpiPolicy if place.is_openpi else GrpcPolicy
    policy = kind(place.target, place.secure, place.applied(options or CallOptions()))

    def opened() -> GrpcPolicy | OpenpiPolicy:
        return policy.open()

    return wait_for(opened, wait_s, tell)
