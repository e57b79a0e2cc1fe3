"""Where the relay passes a slot's queries on to, and what a station may read of the policy."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from arena_robot.core.episode import CONTROL_RATE_HZ, Slot
from arena_robot.policy.base import PolicySpec
from arena_robot.server.target import PolicyTarget


@dataclass(frozen=True)
class Route:
    """
    The policy behind a slot token, and the pair.

    ``equal_s``: both take at least so long; 0: that is not measured yet, None: they need not.
    ``warms_up``: one of them has to be queried before its first rollout.
    """

    session_id: str
    slot: Slot
    pair: Mapping[Slot, PolicyTarget]
    episode: str
    equal_s: float | None = None
    warms_up: bool = False

    @property
    def target(self) -> PolicyTarget:
        """Return the policy of the slot."""
        return self.pair[self.slot]

    @cached_property
    def key(self) -> tuple[str, str]:
        """Return session and slot, as the record of the relay names a rollout."""
        return self.session_id, self.slot.value


def canonical(spec: PolicySpec) -> PolicySpec:
    """
    Return what a station may read of a spec: what it must send, and the space of the actions.

    Values that only tell policies apart are the same for all; how a chunk is executed comes with
    the chunk.
    """
    return PolicySpec(spec.action_space, spec.image_size, spec.wrist_camera,
                      spec.external_cameras, spec.stereo, session_id=True, chunk_length=0,
                      control_rate_hz=CONTROL_RATE_HZ, resize=spec.resize,
                      jpeg_quality=spec.jpeg_quality)


def warms_up(spec: str) -> bool:
    """Tell whether a spec, as the pool keeps it, has queries before the first rollout."""
    return bool(spec) and bool(json.loads(spec).get('warm_up'))
