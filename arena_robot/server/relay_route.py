"""Where the relay passes a slot's queries on to, and what a station may read of the policy."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from arena_robot.core.episode import CONTROL_RATE_HZ, Slot
from arena_robot.policy.base import PolicySpec
from arena_robot.server.target import PolicyTarget


@dataclass(frozen=True)
class Route:
    """
    The policy behind a slot token, and the pair.

    ``equal_s``: both take at least so long; 0: that is not measured yet, None: they need not.
    ``specs`` are those with which the policies were admitted; None in a pool that reads none.
    """

    session_id: str
    slot: Slot
    pair: Mapping[Slot, PolicyTarget]
    episode: str
    equal_s: float | None = None
    specs: Mapping[Slot, PolicySpec | None] = field(default_factory=dict)

    @property
    def target(self) -> PolicyTarget:
        """Return the policy of the slot."""
        return self.pair[self.slot]

    @cached_property
    def warms_up(self) -> bool:
        """Whether one of the pair has to be queried before its first rollout."""
        return any(spec is not None and spec.warm_up for spec in self.specs.values())

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
