"""The parameters of session_node, and the objects they describe."""

from collections.abc import Mapping
from pathlib import Path
from random import Random, SystemRandom
from typing import Any

from arena_robot.core.clock import Clock, SystemClock
from arena_robot.core.config import load
from arena_robot.core.errors import ConfigError
from arena_robot.core.observation import EYES, ROLES
from arena_robot.core.pair import StationInfo
from arena_robot.nodes.parameters import Param
from arena_robot.policy.base import Policy
from arena_robot.policy.connect import connect
from arena_robot.policy.loading import load_policy
from arena_robot.policy.resizing import Resizing
from arena_robot.safety.limits import ROBOTS
from arena_robot.server.client import RemoteArena, ServerAddress
from arena_robot.session.arena.local_arena import LocalArena, LocalArenaConfig, PolicyEntry
from arena_robot.session.arena.sealed_arena import SealedArena
from arena_robot.session.loop.rollout import RolloutConfig
from arena_robot.session.ports import SessionConfig

EXAMPLE = 'example:'
SESSION_PARAMS = (
    Param('station', 'station', 'name of this station, told to the arena'),
    Param('robot_type', 'panda', 'which Franka', choices=tuple(sorted(ROBOTS))),
    Param('backend', 'sim', 'driver of the arm, for the record'),
    Param('data_dir', '~/arena', "folder of results; the recorder's output_dir is its sessions/"),
    Param('arena', 'local', "'local' for policies from arena_file, or host:port of a server"),
    Param('arena_file', '', 'YAML file with the pool of a local arena'),
    Param('token_file', '', "file with the station's token, for a server"),
    Param('server_tls', False, 'encrypt the line to the server, trusting the system'),
    Param('server_ca', '', 'PEM file to trust the server by instead; encrypts the line too'),
    Param('arm', 'arm_node', 'name of the arm node'),
    Param('gripper', 'gripper_node', 'name of the gripper node'),
    Param('cameras', [f'{role}_camera' for role in ROLES], 'camera nodes, in the order of roles'),
    Param('roles', list(ROLES), 'role of each camera node'),
    Param('eyes', list(EYES), "eyes that are used; ['left'] halves the load"),
    Param('topic_style', 'zed5', 'topic names of the camera nodes',
          choices=('zed5', 'zed4', 'generic')),
    Param('recorder', 'recorder_node', 'name of the recorder node; empty: nothing is recorded'),
    Param('scene', '', 'name of a sim_station that puts the scene back; empty: a person does'),
    Param('control_rate', 15.0, 'steps per second', 1.0, 60.0),
    Param('max_steps', 400, 'steps after which a rollout ends', 1, 10_000),
    Param('inference_timeout', 10.0, 'longest a policy may think (s)', 0.1, 120.0),
    Param('max_image_age', 0.2, 'age (s) above which a step waits for the next image', 0.02, 2.0),
    Param('max_state_age', 0.2, 'age (s) of a reading of arm or gripper above which a policy is '
          'stopped', 0.01, 5.0),
    Param('min_free_gb', 5.0, 'free disk space below which no session begins', 0.0, 1000.0),
    Param('reset_joints', [0.0], "reset pose (rad), 7 numbers; one number: DROID's"),
    Param('arena_seed', -1, 'makes a local arena draw the same pairs again; -1: never', -1,
          2**31 - 1),
)


def session_config(values: Mapping[str, Any]) -> SessionConfig:
    """Return what the parameters fix for a station. Raises ConfigError."""
    reset = values['reset_joints']
    if len(reset) not in (1, 7):
        raise ConfigError(f'reset_joints needs 7 numbers, found {len(reset)}')
    if len(values['roles']) != len(values['cameras']):
        raise ConfigError(f"{len(values['cameras'])} cameras need as many roles, found "
                          f"{len(values['roles'])}")
    external = sum(role != 'wrist' for role in values['roles'])
    info = StationInfo(values['station'], values['robot_type'], external,
                       'wrist' in values['roles'], len(values['eyes']) == 2)
    rollout = RolloutConfig(values['control_rate'], values['max_steps'],
                            values['inference_timeout'])
    return SessionConfig(info, rollout, tuple(reset) if len(reset) == 7 else (),
                         values['min_free_gb'])


def make_arena(values: Mapping[str, Any], clock: Clock) -> LocalArena | SealedArena:
    """Return the arena that the parameters name. Raises ConfigError."""
    folder = Path(values['data_dir']) / 'arena'
    if values['arena'] == 'local':
        if not values['arena_file']:
            raise ConfigError('a local arena needs arena_file: a YAML file with the policies')
        seed = values['arena_seed']
        config = load(LocalArenaConfig, values['arena_file'])
        return LocalArena(config, reach, folder, clock,
                          SystemRandom() if seed < 0 else Random(seed))
    if not values['token_file']:
        raise ConfigError(f"the arena at {values['arena']} needs token_file")
    try:
        token = Path(values['token_file']).read_text(encoding='utf-8').strip()
    except OSError as error:
        raise ConfigError(f"cannot read token_file {values['token_file']}: {error}") from error
    ca = Path(values['server_ca']) if values['server_ca'] else None
    address = ServerAddress(values['arena'], token, values['server_tls'], ca)
    # The server's clock is compared with this machine's, whatever time a simulation keeps.
    return SealedArena(RemoteArena(address, SystemClock()), folder, clock)


def reach(entry: PolicyEntry) -> Policy:
    """Return the policy of a pool entry: ``example:NAME``, ``module:Class`` or an address."""
    if '://' in entry.address:
        return Resizing(connect(entry.address))
    return Resizing(load_policy(entry.address.removeprefix(EXAMPLE), entry.options))
