"""Table of judges by name; installed packages add theirs in the entry point group."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import yaml

from arena_robot.audit.base import Judge
from arena_robot.core.errors import ConfigError
from arena_robot.core.extensions import Table, broken_members, callable_as

DEFAULT = 'local'
JudgeMaker = Callable[..., Judge]


JUDGES: Table[JudgeMaker] = Table('judge', 'arena_robot.judges', {
    'local': 'arena_robot.audit.local.judge:LocalJudge',
    'oracle': 'arena_robot.audit.simple:OracleJudge',
    'recorded': 'arena_robot.audit.simple:RecordedJudge',
    'lerobot': 'arena_robot.audit.simple:LeRobotJudge',
    'robometer': 'arena_robot.audit.wire.robometer:RobometerJudge',
    'gvl': 'arena_robot.audit.wire.gvl:GvlJudge',
    'hop': 'arena_robot.audit.wire.hop:HopJudge',
    'elapsed': 'arena_robot.audit.simple:ElapsedTime',
    'start_distance': 'arena_robot.audit.simple:StartDistance',
    'goal_distance': 'arena_robot.audit.simple:GoalDistance',
}, callable_as('judge'))


def make_judge(name: str, settings: Mapping[str, Any] | None = None) -> Judge:
    """
    Return the judge called ``name``, or ``module:Class``, made with its ``settings``.

    Raises ConfigError for an unknown name or setting, and for what keeps no Judge's protocol.
    """
    maker, options = JUDGES.find(name), dict(settings or {})
    parameters = list(inspect.signature(maker).parameters)
    for word in options:
        if word not in parameters:
            raise ConfigError(f"the judge '{name}' has no setting '{word}'; it has "
                              f'{", ".join(parameters) or "none"}')
    try:
        judge = maker(**options)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"the judge '{name}' cannot be made: {error}") from error
    if broken := broken_members(judge, Judge):
        raise ConfigError(f"the judge '{name}' does not keep the protocol Judge of "
                          f'arena_robot.audit.base; it lacks {", ".join(broken)}')
    return judge


def settings_of(words: Sequence[str]) -> tuple[tuple[str, Any], ...]:
    """Return the settings in ``KEY=VALUE`` words; values are read as YAML."""
    settings = []
    for word in words:
        key, equals, value = word.partition('=')
        if not key or not equals:
            raise ConfigError(f"a setting of a judge is KEY=VALUE, found '{word}'")
        try:
            read = yaml.safe_load(value)
            settings.append((key, tuple(read) if isinstance(read, list) else read))
        except yaml.YAMLError as error:
            raise ConfigError(f"the setting {key}: '{value}' cannot be read: {error}") from error
    return tuple(settings)
