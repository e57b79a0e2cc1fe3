"""Options of the demonstration from the command line."""

from dataclasses import dataclass
from pathlib import Path

from arena_robot.core.errors import ConfigError
from arena_robot.drivers.sim.tasks import TASKS
from arena_robot.nodes.simulation.pace import SessionPace


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

    def check(self) -> None:
        """Raise ConfigError for invalid options."""
        for task in self.tasks:
            TASKS.find(task)
        if not 1 <= self.sessions <= 1000:
            raise ConfigError(f'--sessions is 1 to 1000, got {self.sessions}')
        SessionPace(self.speed)
        if not 1 <= self.max_steps <= 10_000:
            raise ConfigError(f'--max-steps is 1 to 10000, got {self.max_steps}')
