"""Parameters of session_node, and the objects made from them."""

from dataclasses import dataclass
from pathlib import Path
from random import Random, SystemRandom

from arena_robot.core.clock import Clock, SystemClock
from arena_robot.core.config import load, shipped
from arena_robot.core.episode import MAX_STEPS
from arena_robot.core.errors import ConfigError
from arena_robot.core.observation import DEPTH, EYES, ROLES
from arena_robot.core.pair import StationInfo
from arena_robot.core.verdict import FAILURE_TAGS, OPTIONAL, Extras
from arena_robot.nodes.lib.images import RAW, TRANSPORTS, eyes_of, styles_of
from arena_robot.nodes.lib.parameters import Parameters, param
from arena_robot.policy.base import Policy
from arena_robot.policy.connect import connect, load_policy
from arena_robot.policy.resizing import Resizing
from arena_robot.robots.cameras import STYLES
from arena_robot.server.client import RemoteArena, ServerAddress
from arena_robot.session.arena.local_arena import LocalArena, LocalArenaConfig, PolicyEntry
from arena_robot.session.arena.sealed import SealedTokens
from arena_robot.session.base import SessionConfig
from arena_robot.session.loop.rollout import RolloutConfig

EXAMPLE = 'example:'


@dataclass(frozen=True, kw_only=True)
class SessionParams(Parameters):
    """The parameters of session_node."""

    station: str = param('station', 'name of this station, sent to the arena')
    data_dir: str = param(
        '~/arena', "folder of results; the recorder's output_dir is its sessions/")
    arena: str = param(
        'local', "'local' for policies from arena_file, or host:port of a server")
    arena_file: str = param(
        '', 'YAML file with the pool of a local arena; a relative path is also looked for in what '
        'arena_robot ships')
    token_file: str = param('', "file with the station's token, for a server")
    site: str = param(
        '', "address of the server's site, such as https://arena.example.org: the evaluator's "
        'page links a finished session there')
    server_tls: bool = param(False, 'use TLS, with certificate authorities of the system')
    server_ca: str = param(
        '', 'PEM file of the certificate authority to trust; implies TLS')
    arm: str = param('arm_node', 'name of the arm node')
    gripper: str = param('gripper_node', 'name of the gripper node')
    cameras: tuple[str, ...] = param(
        tuple(f'{role}_camera' for role in ROLES), 'camera nodes, in the order of roles')
    roles: tuple[str, ...] = param(
        ROLES, 'role of each camera node, each once at most', choices=ROLES)
    third_person: str = param(
        'left', 'outside camera that a policy with only one sees; an evaluator can choose '
        'another for a session', choices=('left', 'right'))
    eyes: tuple[str, ...] = param(
        EYES, "eyes that are used, of those that a camera has; ['left'] halves the load, depth is "
        'for policies that ask for it')
    topic_style: str = param(
        'zed5', 'topic names of the camera nodes', choices=tuple(STYLES))
    topic_styles: tuple[str, ...] = param(
        (), 'topic names of each camera node, in their order, where they differ; empty: '
        'topic_style', choices=tuple(STYLES))
    image_transport: str = param(
        RAW, 'how the camera nodes send the images that the session uses: raw, <topic>/compressed '
        '(JPEG), or <topic>/ffmpeg (H.264 and others)', choices=tuple(TRANSPORTS))
    recorder: str = param(
        'recorder_node', 'name of the recorder node; empty: nothing is recorded')
    scene: str = param(
        '', 'name of a sim_station that restores the scene; empty: a person does')
    control_rate: float = param(15.0, 'steps of a rollout', 1.0, 60.0, unit='Hz')
    max_steps: int = param(
        MAX_STEPS, 'steps after which a rollout ends', 1, 10_000)
    stagnation_end: float = param(
        0.0, 'end a rollout early when audit_node, with live, sees no progress for this long; '
        '0: never', 0.0, 3600.0, unit='s')
    consent: str = param(
        '', 'what people in the pictures are told before a session: what is recorded, who sees '
        'it, for how long, and whom to ask for deletion; the page and the terminal show it')
    ask: tuple[str, ...] = param(
        (), 'further questions after each rollout, any of: ' + ', '.join(OPTIONAL),
        choices=OPTIONAL)
    stages: tuple[str, ...] = param((), 'stages of the task in their order, to ask for stage')
    failure_tags: tuple[str, ...] = param(
        FAILURE_TAGS, 'what can have gone wrong, to ask for failure_tags')
    audit: str = param('audit_node', 'name of the audit node, for stagnation_end')
    inference_timeout: float = param(
        10.0, 'timeout of an inference', 0.1, 120.0, unit='s')
    equal_latency: bool = param(
        False, 'both policies of a pair take as long as the slower one, to compare skill alone')
    max_image_age: float = param(
        0.2, 'age above which a step waits for the next image', 0.02, 2.0, unit='s')
    min_free_gb: float = param(
        5.0, 'free disk space below which no session begins', 0.0, 1000.0, unit='GB')
    arena_seed: int = param(
        -1, 'seed of the draws of a local arena; -1: random', -1, 2**31 - 1)

    def used(self) -> list[tuple[str, str, str, tuple[str, ...]]]:
        """Return role, node, style and used eyes of each camera. Raises ConfigError."""
        return [(role, camera, style, tuple(eye for eye in self.eyes if eye in eyes_of(style)))
                for role, camera, style in zip(self.roles, self.cameras, styles_of(
                    self.topic_style, self.topic_styles, self.cameras), strict=True)]


def session_config(v: SessionParams) -> SessionConfig:
    """Return the station's settings; the arm says which robot it is. Raises ConfigError."""
    if len(v.roles) != len(v.cameras):
        raise ConfigError(f'{len(v.cameras)} cameras need as many roles, found '
                          f'{len(v.roles)}')
    if len(set(v.roles)) != len(v.roles):
        raise ConfigError(f'two cameras have one role, found roles: {list(v.roles)}; policies are '
                          'given one camera of each role')
    for _, camera, style, eyes in v.used():
        if not set(eyes) & set(EYES):
            raise ConfigError(f'{camera} with topic_style {style} has the eyes '
                              f'{list(eyes_of(style))}, found eyes: {list(v.eyes)}; use one '
                              'with colours')
    outside = sorted((role for role in v.roles if role != 'wrist'),
                     key=lambda role: role != v.third_person)
    info = StationInfo(v.station, '', len(outside),
                       'wrist' in v.roles, all(set(EYES) <= set(eyes) for *_, eyes in v.used()),
                       v.equal_latency,
                       tuple(role for role, *_, eyes in v.used() if DEPTH in eyes))
    rollout = RolloutConfig(v.control_rate, v.max_steps, v.inference_timeout)
    extras = Extras(v.ask, v.stages, v.failure_tags)
    return SessionConfig(info, rollout, v.min_free_gb, tuple(outside), extras)


def make_arena(v: SessionParams, clock: Clock) -> LocalArena | RemoteArena:
    """Return the arena of the parameters. Raises ConfigError."""
    folder = Path(v.data_dir).expanduser() / 'arena'
    if v.arena == 'local':
        if not v.arena_file:
            raise ConfigError('a local arena needs arena_file: a YAML file with the policies')
        seed = v.arena_seed
        config = load(LocalArenaConfig, shipped(v.arena_file))
        return LocalArena(config, reach, folder, clock,
                          SystemRandom() if seed < 0 else Random(seed))
    if not v.token_file:
        raise ConfigError(f'the arena at {v.arena} needs token_file')
    try:
        token = Path(v.token_file).expanduser().read_text(encoding='utf-8').strip()
    except OSError as error:
        raise ConfigError(f'cannot read token_file {v.token_file}: {error}') from error
    ca = Path(v.server_ca).expanduser() if v.server_ca else None
    address = ServerAddress(v.arena, token, v.server_tls, ca)
    # The server's clock is compared with this machine's clock, not with simulated time.
    return RemoteArena(address, SystemClock(), tokens=SealedTokens(folder),
                       keys=folder / 'server_keys.json')


def reach(entry: PolicyEntry) -> Policy:
    """Return the policy of a pool entry: ``example:NAME``, ``module:Class`` or an address."""
    if '://' in entry.address:
        return Resizing(connect(entry.address))
    return Resizing(load_policy(entry.address.removeprefix(EXAMPLE), entry.options))
