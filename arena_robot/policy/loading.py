"""From ``module:Class`` and keyword arguments to a policy."""

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

import yaml

from arena_robot.core.errors import ConfigError
from arena_robot.core.protocols import broken_members
from arena_robot.policy.base import Policy
from arena_robot.policy.checkpoints import LOADERS
from arena_robot.policy.examples import EXAMPLES


def load_policy(name: str, kwargs: Mapping[str, Any] | None = None) -> Policy:
    """
    Return the policy that ``name`` makes.

    ``name`` is an example such as ``echo``, one that an installed package adds, a checkpoint
    such as ``lerobot:/data/act``, a generated skill such as ``skill:box.json``, or
    ``module:Class``; modules in the working directory are found too. Raises ConfigError saying
    what is missing.
    """
    loader, mark, place = name.partition(':')
    is_checkpoint = bool(mark) and loader in LOADERS.names()
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
