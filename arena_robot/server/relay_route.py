"""Where the relay passes a slot's queries on to, what a station is told, what a policy gets."""

import base64
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from arena_robot.core.action import ActionSpace
from arena_robot.core.episode import CONTROL_RATE_HZ, Slot
from arena_robot.core.errors import PolicyRefused
from arena_robot.core.observation import Image
from arena_robot.policy.base import PolicySpec
from arena_robot.policy.grpc import wire
from arena_robot.policy.proto import arena_policy_pb2 as pb
from arena_robot.policy.resizing import METHODS, MIDDLE
from arena_robot.server.target import PolicyTarget

# Of the pictures that stations send; six of the largest have less than OBSERVATION_BYTES.
JPEG_QUALITY, OBSERVATION_BYTES = 95, 2 << 20
# One of so many observations is looked at, on average: to decode its pictures takes a tenth of
# what a relayed query takes.
LOOKED_AT = 12


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


def canonical(space: ActionSpace, pool: Iterable[PolicySpec]) -> PolicySpec:
    """
    Return the spec that a station is told: the pictures of the whole ``pool``, and one space.

    So it says the same of every policy of a pool in one action space. A station sends of these
    pictures what it has, as JPEG; the relay makes of them those that the policy wants. None is
    larger than the reference's first step, to which it shrinks every picture.
    """
    specs = list(pool)
    sizes = [spec.image_size for spec in specs if spec.image_size is not None] or [MIDDLE]
    size = (min(MIDDLE[0], max(height for height, _ in sizes)),
            min(MIDDLE[1], max(width for _, width in sizes)))
    return PolicySpec(
        space, size, any(spec.wrist_camera for spec in specs),
        max((spec.external_cameras for spec in specs), default=0),
        any(spec.stereo for spec in specs), session_id=True, control_rate_hz=CONTROL_RATE_HZ,
        jpeg_quality=JPEG_QUALITY)


def observation_of(data: bytes) -> pb.Observation:
    """Return a station's serialized observation; raises PolicyRefused when it is too large."""
    if len(data) > OBSERVATION_BYTES:
        raise PolicyRefused(f'the observation has {len(data)} bytes, at most {OBSERVATION_BYTES} '
                            'are passed on: send JPEG')
    return wire.observation_message(data)


def is_looked_at(step: int) -> bool:
    """Tell whether thumbnails of this observation are kept: the first, and some at random."""
    return step == 0 or secrets.randbelow(LOOKED_AT) == 0


def thumbnails(seen: pb.Observation) -> dict[str, str]:
    """Return small grey copies of the pictures by view, base64; raises PolicyRefused."""
    return {image.view: base64.b64encode(wire.thumbnail_from_wire(image).tobytes()
                                         ).decode('ascii') for image in seen.images}


def is_wanted(seen: pb.Observation, spec: PolicySpec) -> bool:
    """Tell whether an observation has the pictures that a policy wants already, and no others."""
    return all(image.view in spec.views() and _fits(image, spec) for image in seen.images)


def needs_resizing(seen: pb.Observation, spec: PolicySpec) -> bool:
    """Tell whether :func:`fitted` has pictures to decode, which takes milliseconds."""
    return any(image.view in spec.views() and not _fits(image, spec) for image in seen.images)


def fitted(seen: pb.Observation, spec: PolicySpec) -> bytes:
    """
    Return a serialized observation with the pictures that a policy wants, at its size.

    Those that fit are passed on as they came. Raises PolicyRefused.
    """
    kept = pb.Observation(images=[
        image if _fits(image, spec) else _resized(image, spec) for image in seen.images
        if image.view in spec.views()])
    seen.ClearField('images')
    seen.MergeFrom(kept)
    return bytes(seen.SerializeToString())


def turned(seen: pb.Observation, spec: PolicySpec) -> bool:
    """
    Give a policy with one outside camera the one that was chosen; tell whether it was the right.

    Its pictures then have the names of the left one's, which are dropped.
    """
    kept = [image for image in seen.images if not image.view.startswith('left_')]
    if spec.external_cameras != 1 or seen.third_person != 'right' or not any(
            image.view.startswith('right_') for image in kept):
        return False
    for image in kept:
        image.view = image.view.replace('right_', 'left_', 1) if image.view.startswith(
            'right_') else image.view
    chosen = pb.Observation(images=kept)
    seen.ClearField('images')
    seen.ClearField('third_person')
    seen.MergeFrom(chosen)
    return True


def _fits(image: pb.Image, spec: PolicySpec) -> bool:
    return spec.image_size in (None, (image.height, image.width))


def _resized(image: pb.Image, spec: PolicySpec) -> pb.Image:
    assert spec.image_size is not None
    seen = wire.image_from_wire(image)
    pixels = METHODS[spec.resize](seen.pixels, *spec.image_size)
    quality = JPEG_QUALITY if image.encoding == pb.ENCODING_JPEG else 0
    return wire.image_to_wire(image.view, Image(pixels, image.stamp_ns), quality)
