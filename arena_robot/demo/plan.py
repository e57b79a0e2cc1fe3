"""Options and policies of a demonstration, and its plan, kept in its folder to be continued."""

import dataclasses
import itertools
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from arena_robot.core.config import nearest
from arena_robot.core.errors import ConfigError, DataError
from arena_robot.core.files import write_json
from arena_robot.drivers.sim.tasks import TASKS
from arena_robot.nodes.simulation.governor import SessionPace
from arena_robot.robots.arms import ROBOTS
from arena_robot.safety.limits import robot_of

FILE = 'demo.json'
VERSION = 1


@dataclass(frozen=True)
class SessionPlan:
    """One A/B session: task, seed of its scene, its robot, and its id once it has one."""

    task: str
    seed: int
    session_id: str = ''
    done: bool = False
    robot: str = 'panda'

    @property
    def scene(self) -> str:
        """What the session is of, in words."""
        robot = '' if self.robot == 'panda' else f' on {self.robot}'
        return f'{self.task}{robot} with seed {self.seed}'


@dataclass(frozen=True)
class Ports:
    """Ports of the demonstration's processes, all on this machine."""

    server: int
    site: int
    console: int
    policies: tuple[int, ...]


@dataclass
class Plan:
    """The sessions in order, and ``current``, the index of the one that was last begun."""

    jobs: list[SessionPlan]
    pool: str
    ports: Ports | None = None
    current: int = -1
    lost: list[str] = field(default_factory=list)

    @property
    def open(self) -> list[int]:
        """Return the indices of the sessions that are not done."""
        return [k for k, job in enumerate(self.jobs) if not job.done]

    @property
    def by_station(self) -> list[tuple[str, list[int]]]:
        """Return the open sessions in order: a robot, and those that its station then plays."""
        return [(robot, list(jobs)) for robot, jobs in itertools.groupby(
            self.open, lambda k: self.jobs[k].robot)]

    def begin(self, index: int) -> None:
        """Mark a session as begun; the id of an earlier attempt is stored in ``lost``."""
        before = self.jobs[index].session_id
        if before:
            self.lost.append(before)
        self.current = index
        self.jobs[index] = dataclasses.replace(self.jobs[index], session_id='')

    def named(self, index: int, session_id: str, done: bool = False) -> None:
        """Store the id of a session, and whether it is complete."""
        self.jobs[index] = dataclasses.replace(self.jobs[index], session_id=session_id, done=done)


def new_plan(tasks: tuple[str, ...], sessions: int, seed: int, pool: str,
             robots: tuple[str, ...] = ('panda',)) -> Plan:
    """Return a plan of all tasks in turn on each robot in turn, each time with another scene."""
    return Plan([SessionPlan(tasks[k % len(tasks)], seed + k,
                             robot=robots[k // len(tasks) % len(robots)])
                 for k in range(sessions)], pool)


def grown(plan: Plan, tasks: tuple[str, ...], sessions: int, seed: int,
          robots: tuple[str, ...] = ('panda',)) -> Plan:
    """
    Return ``plan`` with the requested number of sessions; finished ones stay.

    Raises ConfigError when finished sessions had other tasks, scenes or robots.
    """
    wanted = new_plan(tasks, sessions, seed, plan.pool, robots).jobs
    for number, (old, new) in enumerate(zip(plan.jobs, wanted, strict=False), 1):
        if old.done and old.scene != new.scene:
            raise ConfigError(
                f'session {number} in this folder is {old.scene}, asked for is {new.scene}; take '
                'another --data, or the same --tasks, --seed and --robots as before')
    finished_jobs = [old if old.scene == new.scene else new
                     for old, new in zip(plan.jobs, wanted, strict=False)]
    beyond = [job for job in plan.jobs[len(wanted):] if job.done]
    return dataclasses.replace(plan, jobs=[*finished_jobs, *wanted[len(finished_jobs):], *beyond])


def read_plan(folder: Path) -> Plan | None:
    """Return the plan in a folder, None when there is none; DataError when it is damaged."""
    path = folder / FILE
    if not path.exists():
        return None
    try:
        data = json.loads(path.read_text(encoding='utf-8'))
        if data.pop('version') != VERSION:
            raise DataError(f'{path} was written by another version; take another --data')
        jobs = [SessionPlan(**job) for job in data.pop('jobs')]
        ports = data.pop('ports')
        return Plan(jobs, ports=_ports(ports) if ports else None, **data)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(f'{path} is not the plan of a demonstration: {error!r}; take another '
                        '--data, or remove this folder') from error


def write_plan(folder: Path, plan: Plan) -> None:
    """Write the plan atomically."""
    write_json(folder / FILE, {'version': VERSION, **dataclasses.asdict(plan)}, indent=1)


def _ports(data: dict[str, Any]) -> Ports:
    return Ports(data['server'], data['site'], data['console'], tuple(data['policies']))


@dataclass(frozen=True)
class DemoOptions:
    """
    ``speed`` is simulated per real seconds, ``max_steps`` a rollout's length.

    ``data`` is the folder of all files. ``keep`` keeps the site running at the end.
    """

    sessions: int
    tasks: tuple[str, ...]
    speed: float
    data: Path
    seed: int
    max_steps: int
    pool: str
    keep: bool = False
    console: bool = True
    robots: tuple[str, ...] = ('panda',)

    def check(self) -> None:
        """Raise ConfigError for invalid options."""
        for robot in self.robots:
            robot_of(robot)
            drives = len(driving(pool(self.pool), robot))
            if drives < 2:
                raise ConfigError(f"{drives} of the policies of the pool '{self.pool}' drive a "
                                  f'{robot}, two are needed; take --pool walkers')
        for task in self.tasks:
            TASKS.find(task)
        if not 1 <= self.sessions <= 1000:
            raise ConfigError(f'--sessions is 1 to 1000, got {self.sessions}')
        SessionPace(self.speed)
        if not 1 <= self.max_steps <= 10_000:
            raise ConfigError(f'--max-steps is 1 to 10000, got {self.max_steps}')


@dataclass(frozen=True)
class PoolMember:
    """
    One policy: its name in the arena, example, protocol, and description.

    ``options`` are the example's arguments, as ``arena policy serve --kwargs`` takes them.
    """

    name: str
    example: str
    about: str
    options: tuple[str, ...] = field(default=())
    protocol: str = 'grpc'


# Ten sessions tell something of these: each is in about five, the fewest that intervals need.
FOUR = ('vision', 'vision-drops', 'vision-slow', 'frozen')
POOLS: dict[str, tuple[PoolMember, ...]] = {
    'examples': (
        PoolMember('vision', 'vision', 'looks, grasps, checks, tries again'),
        PoolMember('vision-noisy', 'vision_noisy', 'position errors of centimetres'),
        PoolMember('vision-drops', 'vision_drops', 'often opens the gripper too early',
                   protocol='openpi'),
        PoolMember('vision-slow', 'vision_slow', 'moves at a quarter of the speed'),
        PoolMember('random-walk', 'random_walk', 'moves at random'),
        PoolMember('frozen', 'frozen', 'does not move'),
    ),
    'still': (
        PoolMember('frozen', 'frozen', 'does not move'),
        PoolMember('echo', 'echo', 'returns the joint positions that it received',
                   protocol='openpi'),
    ),
    'walkers': (
        PoolMember('stroll', 'random_walk', 'moves at random, slowly', ('speed=0.1',)),
        PoolMember('walk', 'random_walk', 'moves at random', ('speed=0.3',)),
        PoolMember('run', 'random_walk', 'moves at random, quickly', ('speed=0.6',)),
        PoolMember('frozen', 'frozen', 'does not move'),
        PoolMember('doze', 'frozen', 'does not move'),
        PoolMember('echo', 'echo', 'returns the joint positions that it received',
                   protocol='openpi'),
    ),
}


POOLS['four'] = tuple(member for member in POOLS['examples'] if member.name in FOUR)


def pool(name: str) -> tuple[PoolMember, ...]:
    """Return the policies of a pool; ConfigError when there is none of that name."""
    if name not in POOLS:
        raise ConfigError(f"no pool '{name}'.{nearest(name, POOLS)}")
    return POOLS[name]


def driving(entries: Sequence[PoolMember], robot: str) -> list[PoolMember]:
    """Return the policies that drive a robot; to an embodiment's arm that is one of any joints."""
    if robot in ROBOTS:
        return list(entries)
    from arena_robot.policy.connect import load_policy, parse_kwargs  # takes 0.3 s to import
    return [entry for entry in entries
            if not load_policy(entry.example, parse_kwargs(entry.options)).spec.joints]
