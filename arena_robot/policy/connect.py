"""
Get a policy: by its address, or from ``module:Class`` and keyword arguments.

Addresses are ``grpc://``, ``grpcs://``, ``openpi://``, ``openpis://``, ``lerobot://``, ``gr00t://``;
a server that is still loading its model is waited for.
"""

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, TypeVar

import yaml

from arena_robot.core.errors import ConfigError, PolicyTimeout, PolicyUnavailable
from arena_robot.core.extensions import broken_members
from arena_robot.policy.address import NEEDED, parse_address
from arena_robot.policy.base import Policy
from arena_robot.policy.checkpoints import LOADERS
from arena_robot.policy.examples import EXAMPLES
from arena_robot.policy.gr00t_client import Gr00tPolicy
from arena_robot.policy.grpc.client import GrpcPolicy
from arena_robot.policy.grpc.server import GrpcPolicyServer
from arena_robot.policy.lerobot_client import LerobotPolicy
from arena_robot.policy.openpi.client import OpenpiPolicy
from arena_robot.policy.openpi.server import OpenpiPolicyServer
from arena_robot.policy.options import CallOptions

SERVERS: dict[str, type[GrpcPolicyServer] | type[OpenpiPolicyServer]] = {
    'grpc': GrpcPolicyServer, 'openpi': OpenpiPolicyServer}
log = logging.getLogger(__name__)
PAUSE_S = 1.0    # between two attempts
Opened = TypeVar('Opened')
TRANSLATED: dict[str, type[LerobotPolicy] | type[Gr00tPolicy]] = {
    'lerobot': LerobotPolicy, 'gr00t': Gr00tPolicy}
Remote = GrpcPolicy | OpenpiPolicy | LerobotPolicy | Gr00tPolicy
Tell = Callable[[float, str], None]


def connect(address: str, options: CallOptions | None = None, wait_s: float = 0.0,
            tell: Tell | None = None) -> Remote:
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
    given = place.applied(options or CallOptions())
    policy: Remote
    if place.is_translated:
        policy = TRANSLATED[place.scheme](place.target, given)
    else:
        kind = OpenpiPolicy if place.is_openpi else GrpcPolicy
        policy = kind(place.target, place.secure, given)

    def opened() -> Remote:
        return policy.open()

    return wait_for(opened, wait_s, tell)


def load_policy(name: str, kwargs: Mapping[str, Any] | None = None) -> Policy:
    """
    Return the policy that ``name`` makes.

    ``name`` is an example such as ``echo``, one that an installed package adds, a checkpoint
    such as ``lerobot:/data/act``, a generated skill such as ``skill:box.json``, the address of a
    server of another protocol such as ``lerobot://host:8080?…``, or ``module:Class``; modules in
    the working directory are found too. Raises ConfigError saying what is missing.
    """
    loader, mark, place = name.partition(':')
    if loader in NEEDED and place.startswith('//'):
        if kwargs:
            raise ConfigError(f'{name}: options stand in the address, found {dict(kwargs)}')
        return connect(name)
    is_checkpoint = bool(mark) and loader in LOADERS.names()
    if place[:1].isdigit() and not is_checkpoint:    # host:port
        parse_address(name)
    made_by = partial(LOADERS.find(loader), place) if is_checkpoint else EXAMPLES.find(name)
    try:
        policy = made_by(**(kwargs or {}))
    except TypeError as error:
        raise ConfigError(f'{name} cannot be made with {dict(kwargs or {})}: {error}') from error
    return _policy_like(policy, name)


def parse_kwargs(pairs: Iterable[str]) -> dict[str, Any]:
    """Return ``['speed=0.5', 'name=x']`` as a dictionary; values are read as YAML."""
    result = {}
    for pair in pairs:
        key, mark, value = pair.partition('=')
        if not mark or not key.isidentifier():
            raise ConfigError(f"'{pair}' is not key=value")
        try:
            result[key] = yaml.safe_load(value)
        except yaml.YAMLError as error:
            raise ConfigError(f"the value in '{pair}' is not YAML: {error}") from error
    return result


def _policy_like(policy: Any, name: str) -> Policy:
    if broken := broken_members(policy, Policy):
        raise ConfigError(f"{name} is not a policy: it lacks {', '.join(broken)}")
    loaded: Policy = policy
    return loaded


def wait_for(call: Callable[[], Opened], wait_s: float, tell: Tell | None = None) -> Opened:
    """
    Return what ``call`` returns, called again while no server answers, for ``wait_s`` in all.

    ``tell`` gets the seconds waited and the error after each attempt. Errors of a server that
    answers, such as a token that does not fit, are raised at once; PolicyUnavailable with the last
    error when the time is over.
    """
    began_s = time.monotonic()
    while True:
        try:
            return call()
        except (PolicyUnavailable, PolicyTimeout) as error:
            waited_s = time.monotonic() - began_s
            if waited_s + PAUSE_S > wait_s:
                if not wait_s:
                    raise
                raise PolicyUnavailable(f'waited {waited_s:.0f} s: {error}') from error
            log.info('no policy server yet, waiting: %s', error)
            if tell is not None:
                tell(waited_s, str(error))
            time.sleep(PAUSE_S)
