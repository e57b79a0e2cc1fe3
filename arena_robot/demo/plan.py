"""Plan of a demonstration, stored in its folder so that it can be continued."""

import dataclasses
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from arena_robot.core.errors import ConfigError, DataError
from arena_robot.core.files import write_json

FILE = 'demo.json'
VERSION = 1


@dataclass(frozen=True)
class SessionPlan:
    """One A/B session: the task, the seed of its scene, and the session's id once it has one."""

    task: str
    seed: int
    session_id: str = ''
    done: bool = False


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


def new_plan(tasks: tuple[str, ...], sessions: int, seed: int, pool: str) -> Plan:
    """Return a plan that uses the tasks in turn, each time with another scene."""
    return Plan([SessionPlan(tasks[k % len(tasks)], seed + k) for k in range(sessions)], pool)


def grown(plan: Plan, tasks: tuple[str, ...], sessions: int, seed: int) -> Plan:
    """
    Return ``plan`` with the requested number of sessions; finished ones stay.

    Raises ConfigError when finished sessions had other tasks or scenes.
    """
    wanted = new_plan(tasks, sessions, seed, plan.pool).jobs
    for number, (old, new) in enumerate(zip(plan.jobs, wanted, strict=False), 1):
        if old.done and (old.task, old.seed) != (new.task, new.seed):
            raise ConfigError(
                f'session {number} in this folder is {old.task} with seed {old.seed}, asked for '
                f'is {new.task} with seed {new.seed}; take another --data, or the same --tasks '
                'and --seed as before')
    kept = [old if (old.task, old.seed) == (new.task, new.seed) else new
            for old, new in zip(plan.jobs, wanted, strict=False)]
    beyond = [job for job in plan.jobs[len(wanted):] if job.done]
    return dataclasses.replace(plan, jobs=[*kept, *wanted[len(kept):], *beyond])


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
