"""Where a policy is called, what is shown to it, and what it needs of a station."""

import dataclasses
import json
from dataclasses import dataclass, field
from typing import Any

from arena_robot.core.action import ActionSpace
from arena_robot.policy.base import PolicySpec
from arena_robot.policy.options import CallOptions

# The flags of `arena policy submit` that state a need.
FLAGS = {'action_space': '--action-space', 'external_cameras': '--external-cameras',
         'wrist_camera': '--no-wrist-camera', 'stereo': '--stereo'}
NEEDS = tuple(FLAGS)
DEFAULTS = CallOptions()


def needs_of(spec: PolicySpec) -> dict[str, str | int | bool]:
    """Return what the pool keeps of a spec, by the names of its columns."""
    return {name: value.value if isinstance(value := getattr(spec, name), ActionSpace) else value
            for name in NEEDS}


def as_json(spec: PolicySpec) -> str:
    """Return a spec as it is kept."""
    return json.dumps({name: value.value if isinstance(value, ActionSpace) else value
                       for name, value in dataclasses.asdict(spec).items()})


def of_json(text: str) -> PolicySpec | None:
    """Return a spec that is kept; None when none is."""
    if not text:
        return None
    values = json.loads(text)
    size = values['image_size']
    return PolicySpec(**{**values, 'action_space': ActionSpace(values['action_space']),
                         'image_size': None if size is None else tuple(size)})


def contradictions(declared: dict[str, str | int | bool], spec: PolicySpec) -> str:
    """Return which needs that an owner declared the server denies, '' for none."""
    said = needs_of(spec)
    wrong = [f'{name.replace("_", " ")} was submitted as {value} ({FLAGS[name]}), its server says '
             f'{said[name]}' for name, value in declared.items() if said[name] != value]
    return '; '.join([*wrong, 'correct the server, or submit it with --update and without the '
                              'flag: what is not stated is read from the server']) if wrong else ''


@dataclass(frozen=True)
class PolicyTarget:
    """
    A policy's address, with its IP address pinned, its token and its private authority.

    ``token`` is never printed; ``tls_ca`` is the authority's certificate in PEM. Both may be ''.
    """

    address: str
    token: str = field(default='', repr=False)
    tls_ca: str = field(default='', repr=False)

    def options(self, base: CallOptions = DEFAULTS, **changes: Any) -> CallOptions:
        """Return how it is called: as ``base`` with ``changes``, and what is shown to it."""
        return dataclasses.replace(base, token=self.token, tls_ca_pem=self.tls_ca, **changes)
