"""From ``module:Class`` and keyword arguments to a policy."""

import importlib
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from arena_robot.core.config import nearest
from arena_robot.core.errors import ConfigError
from arena_robot.policy.base import Policy
from arena_robot.policy.examples import EXAMPLES


def load_policy(name: str, kwargs: Mapping[str, Any] | None = None) -> Policy:
    """
    Return the policy that ``name`` makes: an example such as ``echo``, or ``module:Class``.

    Modules in the working directory are found too. Raises ConfigError saying what is missing.
    """
    module_name, mark, class_name = EXAMPLES.get(name, name).partition(':')
    if not mark or not class_name:
        raise ConfigError(f"'{name}' is not a policy; write module:Class, or an example."
                          f'{nearest(name, EXAMPLES)}')
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        module = importlib.import_module(module_name)
    except ImportError as error:
        raise ConfigError(f"cannot import '{module_name}' from {here}: {error}") from error
    made_by = getattr(module, class_name, None)
    if not callable(made_by):
        raise ConfigError(f"'{module_name}' has no class '{class_name}'."
                          f'{nearest(class_name, [n for n in dir(module) if n[0] != "_"])}')
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
    missing = [word for word in ('spec', 'infer', 'reset') if not hasattr(policy, word)]
    if missing:
        raise ConfigError(f"{name} is not a policy: it has no {', '.join(missing)}")
    loaded: Policy = policy
    return loaded
