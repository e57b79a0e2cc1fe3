"""
The policies of a study as the router reaches them, and the one interface it shows for all.

A query in the policy's own protocol is passed on byte for byte. For a query in the other protocol
the package's own client is used, which knows DROID's observations and no others.
"""

import asyncio
import dataclasses
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from arena_robot.core.errors import BadReply, ConfigError, DataError, PolicyError
from arena_robot.policy.address import PolicyAddress, parse_address
from arena_robot.policy.base import PolicySpec, check_spec
from arena_robot.policy.connect import connect
from arena_robot.policy.grpc import wire
from arena_robot.policy.grpc.channel import spec_request
from arena_robot.policy.grpc.errors import BY_CODE
from arena_robot.policy.grpc.passing import CallLine
from arena_robot.policy.openpi import wire as openpi_wire
from arena_robot.policy.openpi.client import METADATA_BYTES, METADATA_ITEMS
from arena_robot.policy.openpi.passing import FrameLine, Message, code_of
from arena_robot.policy.openpi.server import OpenpiCaller
from arena_robot.policy.options import CallOptions
from arena_robot.policy.proto import arena_policy_pb2 as pb
from arena_robot.policy.serving import ServedPolicy

# What a client configures itself by: of these keys every policy that says one says the same.
MUST_KNOW = (*openpi_wire.metadata_of(PolicySpec()), 'reset_pose')
SESSION_KEY = 'needs_session_id'
RESET_BYTES = 4096    # a request to reset has no pictures
# Fields of a spec that may differ: a client that does what the most demanding one needs suits all.
EITHER: dict[str, Callable[[list[Any]], Any]] = {'session_id': any, 'samples': any, 'warm_up': max}


class TranslatedPolicy:
    """A policy called by the package's own client, for robots of the other protocol."""

    def __init__(self, address: str, options: CallOptions) -> None:
        self._address, self._options = address, options
        self._policy: Any = None
        self._served: ServedPolicy | None = None
        self._episode = ''

    async def frame(self, frame: Message, timeout_s: float) -> Message:
        """Answer a frame of openpi's protocol."""
        return await asyncio.to_thread(
            lambda: OpenpiCaller(self._open(), self._episode, timeout_s).answer(frame))

    async def call(self, method: str, request: bytes, timeout_s: float) -> bytes:
        """Answer a call of ``arena.policy.v1``."""
        return await asyncio.to_thread(self._call, method, request, timeout_s)

    async def spec(self) -> PolicySpec:
        """Connect, unless that is done, and return the policy's spec."""
        return (await asyncio.to_thread(self._open)).spec

    async def close(self) -> None:
        """Close the connection; the next call makes it anew."""
        policy, self._policy = self._policy, None
        if policy is not None:
            await asyncio.to_thread(policy.close)

    def _call(self, method: str, request: bytes, timeout_s: float) -> bytes:
        served = self._open()
        if method == 'Reset':
            served.reset(pb.ResetRequest.FromString(request).episode, timeout_s)
            return b''
        query = wire.parsed(pb.InferRequest, request, 'request')
        wire.check_version(query.protocol_version)
        answer = served.infer(wire.observation_of_request(query), query.episode, timeout_s)
        return bytes(wire.chunk_to_wire(answer.chunk, 0.0, 0.0).SerializeToString())

    def _open(self) -> ServedPolicy:
        if self._policy is None or self._served is None:
            self._policy = connect(self._address, self._options)
            self._served = ServedPolicy(self._policy)
            self._episode = uuid.uuid4().hex    # of frames without a session's id
        return self._served


class RoutedPolicy(ABC):
    """A policy as the router calls it; every method raises PolicyError."""

    _line: FrameLine | CallLine | None = None

    def __init__(self, address: PolicyAddress, options: CallOptions) -> None:
        self._address, self._options = address, options
        self._other = TranslatedPolicy(str(address), options)
        self.metadata: Mapping[Any, Any] = {}
        self.spec: PolicySpec | None = None
        self.why_no_spec = ''
        self.resets = True

    @abstractmethod
    async def open(self) -> None:
        """Connect anew, so that nothing of the connection before is left at the policy."""

    @abstractmethod
    async def frame(self, frame: Message, timeout_s: float) -> Message:
        """Return the reply to a frame of openpi's protocol; a text is no chunk."""

    @abstractmethod
    async def call(self, method: str, request: bytes, timeout_s: float) -> bytes:
        """Return the reply to a call of ``arena.policy.v1``."""

    async def close(self) -> None:
        """Close all connections; can be called twice."""
        if self._line is not None:
            await self._line.close()
        await self._other.close()


class OpenpiArm(RoutedPolicy):
    """A policy behind a websocket server of openpi or RoboArena."""

    _line: FrameLine

    def __init__(self, address: PolicyAddress, options: CallOptions) -> None:
        super().__init__(address, options)
        self._options = address.applied(options)
        self._line = FrameLine(address, options, self._met)

    async def open(self) -> None:
        """Connect anew and read the metadata."""
        await self._other.close()
        await self._line.open()

    def _met(self, first: bytes) -> None:
        try:
            metadata = openpi_wire.unpack(first, METADATA_BYTES, METADATA_ITEMS)
            if not isinstance(metadata, Mapping):
                raise BadReply(f'{self._address} must send a map of metadata first, found a '
                               f'{type(metadata).__name__}')
        except DataError as error:
            raise BadReply(f'the metadata of {self._address}: {error}') from error
        self.metadata, self.resets = metadata, SESSION_KEY in metadata
        try:
            self.spec = openpi_wire.completed(openpi_wire.spec_of(
                metadata, str(self._address), self._options.action_space), self._options,
                str(self._address))
        except BadReply as error:
            self.spec, self.why_no_spec = None, str(error)

    async def frame(self, frame: Message, timeout_s: float) -> Message:
        """Pass a frame on."""
        return await self._line.exchange(frame, timeout_s)

    async def call(self, method: str, request: bytes, timeout_s: float) -> bytes:
        """Answer a gRPC client."""
        return await self._other.call(method, request, timeout_s)


class GrpcArm(RoutedPolicy):
    """A policy behind a gRPC server."""

    _line: CallLine

    def __init__(self, address: PolicyAddress, options: CallOptions) -> None:
        super().__init__(address, options)
        self._line = CallLine(address, options)

    async def open(self) -> None:
        """Connect anew and ask for the spec."""
        await self._other.close()
        await self._line.open()
        reply = await self._line.call('GetSpec', spec_request().SerializeToString(),
                                      self._options.connect_timeout_s)
        self.spec = wire.spec_from_wire(pb.Spec.FromString(reply), str(self._address))
        self.metadata = openpi_wire.metadata_of(self.spec)

    async def frame(self, frame: Message, timeout_s: float) -> Message:
        """Answer a client of openpi's protocol."""
        return await self._other.frame(frame, timeout_s)

    async def call(self, method: str, request: bytes, timeout_s: float) -> bytes:
        """Pass a call on."""
        return await self._line.call(method, request, timeout_s)


class TranslatedArm(RoutedPolicy):
    """A policy behind a server of another protocol, which the package's own client calls."""

    async def open(self) -> None:
        """
        Connect, or let the server forget what it was asked before.

        Its checkpoint is not loaded anew before each trial: how long that takes would tell which
        policy it is.
        """
        if self.spec is not None:
            await self.call('Reset', b'', self._options.reset_timeout_s)
        self.spec = await self._other.spec()
        self.metadata = openpi_wire.metadata_of(self.spec)

    async def frame(self, frame: Message, timeout_s: float) -> Message:
        """Answer a client of openpi's protocol."""
        return await self._other.frame(frame, timeout_s)

    async def call(self, method: str, request: bytes, timeout_s: float) -> bytes:
        """Answer a gRPC client."""
        return await self._other.call(method, request, timeout_s)


def arm_at(address: str, options: CallOptions) -> RoutedPolicy:
    """Return the policy at an address, not open yet; ConfigError for an unknown protocol."""
    place = parse_address(address)
    if place.is_translated:
        return TranslatedArm(place, options)
    return OpenpiArm(place, options) if place.is_openpi else GrpcArm(place, options)


def common_metadata(policies: Sequence[Mapping[Any, Any]]) -> dict[Any, Any]:
    """
    Return the metadata to show for all policies: what they say alike, and nothing else.

    A key that not all say alike would tell them apart and is left out. Where it is one that a
    client has to know, ConfigError says so.
    """
    common = {}
    for key in dict.fromkeys(key for metadata in policies for key in metadata):
        said = [openpi_wire.pack(metadata[key]) for metadata in policies if key in metadata]
        alike = len(set(said)) == 1
        if key == SESSION_KEY and not alike:
            common[key] = True    # who does not need the session's id does not mind it
        elif key in MUST_KNOW and not alike:
            found = ' and '.join(dict.fromkeys(
                str(metadata[key]) for metadata in policies if key in metadata))
            raise ConfigError(_differ(str(key), found))
        elif alike and (key in MUST_KNOW or len(said) == len(policies)):
            common[key] = next(metadata[key] for metadata in policies if key in metadata)
    return common


def common_spec(specs: Sequence[PolicySpec]) -> PolicySpec:
    """Return the spec to show for all policies; ConfigError where a client has to know which."""
    values: dict[str, Any] = {}
    for field in dataclasses.fields(PolicySpec):
        found = list(dict.fromkeys(getattr(spec, field.name) for spec in specs))
        if len(found) == 1:
            values[field.name] = found[0]
        elif field.name == 'chunk_length':
            values[field.name] = 0    # it varies
        elif field.name in EITHER:
            values[field.name] = EITHER[field.name](found)
        else:
            raise ConfigError(_differ(field.name, ' and '.join(map(str, found))))
    return check_spec(PolicySpec(**values), 'all policies together')


def _differ(name: str, found: str) -> str:
    return (f"the policies differ in {name} ({found}). The robot's program has to know it, and "
            'would learn from it which policy it has: serve all of them with the same '
            f'{name}, or compare others')


def raise_told(reply: Message) -> bytes:
    """Return a chunk's bytes; of a text, raise the error that it stands for."""
    if not isinstance(reply, str):
        return bytes(reply)
    raise BY_CODE.get(code_of(reply), PolicyError)(reply)


def is_reset(frame: Message) -> bool:
    """Tell whether a frame is RoboArena's request to forget an episode."""
    if isinstance(frame, str) or len(frame) > RESET_BYTES:
        return False
    try:
        request = openpi_wire.unpack(frame)
    except DataError:
        return False
    return isinstance(request, Mapping) and request.get('endpoint') == 'reset'
