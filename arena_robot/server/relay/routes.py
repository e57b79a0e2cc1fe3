"""
Where the relay passes a slot's queries on to, what a station is told, what a policy gets.

Slots and their policies are read from the database for all at once, and again soon.
"""

import asyncio
import base64
import dataclasses
import hashlib
import logging
import secrets
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from arena_robot.core.action import ActionSpace
from arena_robot.core.episode import CONTROL_RATE_HZ, Slot
from arena_robot.core.errors import (
    Conflict,
    DataError,
    PolicyRefused,
    PolicyUnavailable,
    Unauthorised,
)
from arena_robot.core.observation import Image
from arena_robot.policy.base import PolicySpec
from arena_robot.policy.grpc import wire
from arena_robot.policy.proto import arena_policy_pb2 as pb
from arena_robot.policy.resizing import METHODS, MIDDLE, fitted_depth
from arena_robot.server.base import PolicyRecord, PolicyTarget, SessionState, of_json
from arena_robot.server.relay.upstreams import SENTENCES
from arena_robot.server.store.policies import Policies
from arena_robot.server.store.sessions import SlotRow, Slots
from arena_robot.server.threads import BatchedWork

# Of the pictures that stations send; six of the largest, and three depths, which are PNGs, have
# less than OBSERVATION_BYTES, even of noise: 1.93 MB.
JPEG_QUALITY, OBSERVATION_BYTES = 95, 2 << 20
# One of so many observations is looked at, on average: to decode its pictures takes a tenth of
# what a relayed query takes.
LOOKED_AT = 12
KNOWN_S = 0.5
log = logging.getLogger(__name__)
# How old a route may be, and from when on it is renewed while it is still used.
ROUTE_S, RENEW_S = 2.0, 1.0
LASTS_S = ROUTE_S - KNOWN_S    # what is known of a policy is as old as KNOWN_S already


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
    pictures what it has, as JPEG, and of depth; the relay makes of them those that the policy
    wants. None is larger than the reference's first step, to which it shrinks every picture.
    """
    specs = list(pool)
    sizes = [spec.image_size for spec in specs if spec.image_size is not None] or [MIDDLE]
    size = (min(MIDDLE[0], max(height for height, _ in sizes)),
            min(MIDDLE[1], max(width for _, width in sizes)))
    return PolicySpec(
        space, size, any(spec.wrist_camera for spec in specs),
        max((spec.external_cameras for spec in specs), default=0),
        any(spec.stereo for spec in specs), session_id=True, control_rate_hz=CONTROL_RATE_HZ,
        jpeg_quality=JPEG_QUALITY, depth=any(spec.depth for spec in specs))


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
    """Return small grey copies of the pictures by view, not of depth; raises PolicyRefused."""
    return {image.view: base64.b64encode(wire.thumbnail_from_wire(image).tobytes()
                                         ).decode('ascii')
            for image in seen.images if not _is_depth(image)}


def is_wanted(seen: pb.Observation, spec: PolicySpec) -> bool:
    """Tell whether an observation has the pictures that a policy wants already, and no others."""
    return all(_is_asked_for(image, spec) and _fits(image, spec) for image in seen.images)


def needs_resizing(seen: pb.Observation, spec: PolicySpec) -> bool:
    """Tell whether :func:`fitted` has pictures to decode, which takes milliseconds."""
    return any(_is_asked_for(image, spec) and not _fits(image, spec) for image in seen.images)


def fitted(seen: pb.Observation, spec: PolicySpec) -> bytes:
    """
    Return a serialized observation with the pictures and depths that a policy wants, at its size.

    Those that fit are passed on as they came. Raises PolicyRefused.
    """
    kept = pb.Observation(images=[
        image if _fits(image, spec) else _resized(image, spec) for image in seen.images
        if _is_asked_for(image, spec)])
    seen.ClearField('images')
    seen.MergeFrom(kept)
    return bytes(seen.SerializeToString())


def turned(seen: pb.Observation, spec: PolicySpec) -> bool:
    """
    Give a policy with one outside camera the one that was chosen; tell whether it was the right.

    Its pictures then have the names of the left one's, which are dropped.
    """
    if spec.external_cameras != 1 or seen.third_person != 'right':
        return False
    kept = [image for image in seen.images if not image.view.startswith('left_')]
    if not any(image.view.startswith('right_') for image in kept):
        return False
    for image in kept:
        image.view = image.view.replace('right_', 'left_', 1) if image.view.startswith(
            'right_') else image.view
    chosen = pb.Observation(images=kept)
    seen.ClearField('images')
    seen.ClearField('third_person')
    seen.MergeFrom(chosen)
    return True


def _is_depth(image: pb.Image) -> bool:
    return image.encoding == pb.ENCODING_DEPTH16_PNG


def _is_asked_for(image: pb.Image, spec: PolicySpec) -> bool:
    return image.view in (spec.depths() if _is_depth(image) else spec.views())


def _fits(image: pb.Image, spec: PolicySpec) -> bool:
    return spec.image_size in (None, (image.height, image.width))


def _resized(image: pb.Image, spec: PolicySpec) -> pb.Image:
    assert spec.image_size is not None
    if _is_depth(image):
        return wire.depth_to_wire(image.view, fitted_depth(wire.depth_from_wire(image), spec))
    seen = wire.image_from_wire(image)
    pixels = METHODS[spec.resize](seen.pixels, *spec.image_size)
    quality = JPEG_QUALITY if image.encoding == pb.ENCODING_JPEG else 0
    return wire.image_to_wire(image.view, Image(pixels, image.stamp_ns), quality)


@dataclass(frozen=True)
class KnownPolicy:
    """A policy as it was read, until ``until_s`` of the monotonic clock."""

    record: PolicyRecord
    until_s: float
    reachable: Callable[[PolicyRecord], PolicyTarget]

    @cached_property
    def spec(self) -> PolicySpec | None:
        """The spec with which it was admitted; None in a pool that reads none."""
        return of_json(self.record.spec)

    @cached_property
    def target(self) -> PolicyTarget:
        """Where it is called; raises DataError where it may not be."""
        return self.reachable(self.record)


class KnownPolicies:
    """
    Policies by number, each read once in ``KNOWN_S`` for all slots; any thread may ask.

    ``reachable`` returns where a policy may be called now.
    """

    def __init__(self, policies: Policies,
                 reachable: Callable[[PolicyRecord], PolicyTarget]) -> None:
        self._policies, self._reachable = policies, reachable
        self._known: dict[int, KnownPolicy] = {}

    def of_all(self, numbers: Iterable[int]) -> dict[int, KnownPolicy]:
        """Return policies as they are, or were at most ``KNOWN_S`` ago; DataError: unknown."""
        now_s, wanted = time.monotonic(), set(numbers)
        known = {number: policy for number, policy in list(self._known.items())
                 if number in wanted and policy.until_s >= now_s}
        if missing := sorted(wanted - known.keys()):
            read = self._policies.by_ids(missing)
            if unknown := [number for number in missing if number not in read]:
                raise DataError(f'there is no policy with number {unknown[0]} on this server')
            new = {number: KnownPolicy(read[number], now_s + KNOWN_S, self._reachable)
                   for number in missing}
            self._known.update(new)
            known.update(new)
        return known


@dataclass
class _Known:
    """A route until ``until_s``, its policies, and whether it was used since the last renewal."""

    route: Route
    pair: dict[Slot, int]
    until_s: float
    used: bool = True


class RelayRoutes:
    """
    Routes by slot token, for one event loop; none is used that is older than ``ROUTE_S``.

    Every control step of every slot asks for its route. A query of the database for each of them
    would cost more than the relay itself, so the first call after ``RENEW_S`` has all routes
    renewed that were used since the last time. ``threads`` read the database; ``reachable``
    returns where a policy may be called now.
    """

    def __init__(self, slots: Slots, policies: Policies, threads: Executor,
                 reachable: Callable[[PolicyRecord], PolicyTarget]) -> None:
        self._slots, self._threads = slots, threads
        self._reads: BatchedWork[str, _Known] = BatchedWork(self._read, threads)
        self._policies = KnownPolicies(policies, reachable)
        self._known: dict[str, _Known] = {}
        self._renewal: asyncio.Future[Any] | None = None
        self._dropped_s = time.monotonic()

    async def find(self, token: str) -> Route:
        """Return the route of a slot; Unauthorised, Conflict or PolicyUnavailable."""
        known, now_s = self._known.get(token), time.monotonic()
        if known is None or known.until_s < now_s:
            self._drop_ended(now_s)
            known = await self._reads.ask(token)
            self._known[token] = known
        known.used = True
        if known.until_s - now_s < LASTS_S - RENEW_S and (
                self._renewal is None or self._renewal.done()):
            self._renewal = asyncio.ensure_future(self._renew())
        return known.route

    def close(self) -> None:
        """Read and renew nothing more."""
        self._reads.close()
        if self._renewal is not None:
            self._renewal.cancel()

    def _drop_ended(self, now_s: float) -> None:
        """Forget routes that ended, at most once in ROUTE_S; short rollouts renew nothing."""
        if now_s - self._dropped_s < ROUTE_S:
            return
        self._dropped_s = now_s
        self._known = {token: known for token, known in self._known.items()
                       if known.until_s > now_s}

    async def _renew(self) -> None:
        began_s = time.monotonic()
        self._known = {token: known for token, known in self._known.items()
                       if known.used or known.until_s > began_s}
        used = {token: known for token, known in self._known.items() if known.used}
        for known in used.values():
            known.used = False
        try:
            routes = await asyncio.get_running_loop().run_in_executor(
                self._threads, self._read_again, list(used.values()))
        except Exception:    # the routes end in time, and who asks then is told why
            log.exception('the routes of the relay were not renewed')
            return
        for (token, known), route in zip(used.items(), routes, strict=True):
            if route is not None:
                known.route, known.until_s = route, began_s + LASTS_S
            elif self._known.get(token) is known:    # its next call is told why
                del self._known[token]

    def _read(self, tokens: Sequence[str]) -> list[_Known | Exception]:
        """Return what is known of each token, or why it has no route."""
        began_s = time.monotonic()
        slots = self._slots.of_tokens(tokens)
        return [self._made(slots.get(token), began_s) for token in tokens]

    def _made(self, row: SlotRow | None, began_s: float) -> _Known | Exception:
        if row is None:
            return Unauthorised('this slot token is not known here')
        if row.state is not SessionState.RUNNING:
            return Conflict(f'the session is {row.state.value}; start a new one')
        episode = hashlib.sha256(f'{row.nonce}:{row.slot.value}'.encode()).hexdigest()[:32]
        pair = dict(zip(Slot, row.pair, strict=True))
        route = Route(row.session_id, row.slot, {}, episode, row.equal_latency_s)
        try:
            return _Known(_to(route, pair, self._policies.of_all(row.pair)), pair,
                          began_s + LASTS_S)
        except DataError as error:    # its text names the address
            log.warning('session %s slot %s: %s', row.session_id, row.slot.value, error)
            return PolicyUnavailable(SENTENCES[PolicyUnavailable])

    def _read_again(self, used: list[_Known]) -> list[Route | None]:
        """Return the routes as they are now; None for one that ended."""
        states = self._slots.as_they_are({known.route.session_id for known in used})
        policies = self._policies.of_all(
            number for known in used for number in known.pair.values())

        def again(known: _Known) -> Route | None:
            state, equal_s = states.get(known.route.session_id, (None, None))
            if state is not SessionState.RUNNING:
                return None
            try:
                route = known.route if equal_s == known.route.equal_s else dataclasses.replace(
                    known.route, equal_s=equal_s)
                return _to(route, known.pair, policies)
            except DataError:
                return None
        return [again(known) for known in used]


def _to(route: Route, pair: dict[Slot, int], policies: dict[int, KnownPolicy]) -> Route:
    """Return a route with the policies that it calls; DataError when one may not be called."""
    known = {slot: policies[number] for slot, number in pair.items()}
    specs = {slot: policy.spec for slot, policy in known.items()}
    # The other policy is called only to prepare it.
    both = route.equal_s is not None or any(spec and spec.warm_up for spec in specs.values())
    targets = {slot: policy.target for slot, policy in known.items() if both or slot is route.slot}
    if (targets, specs) == (route.pair, route.specs):
        return route
    return dataclasses.replace(route, specs=specs, pair=targets)
