"""
The router of a blind study: one address for each protocol, and behind it the policy on turn.

It runs in an event loop of its own thread. Of what a policy says only chunks of actions reach the
robot as they are; errors become the same few sentences for all policies.
"""

from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, TypeVar

from arena_robot.blind.arms import (
    RoutedPolicy,
    arm_at,
    common_metadata,
    common_spec,
    is_reset,
    raise_told,
)
from arena_robot.blind.clips import (
    FindPictures,
    TrialClips,
    pictures_of_call,
    pictures_of_frame,
)
from arena_robot.blind.desk import StudyDesk
from arena_robot.core.errors import (
    ArenaError,
    ConfigError,
    PolicyError,
    PolicyRefused,
    PolicyUnavailable,
)
from arena_robot.core.openable import Openable
from arena_robot.policy.address import parse_address
from arena_robot.policy.base import PolicySpec
from arena_robot.policy.grpc import wire
from arena_robot.policy.grpc.passing import CallServer
from arena_robot.policy.lerobot_client import LOAD_S
from arena_robot.policy.openpi import wire as openpi_wire
from arena_robot.policy.openpi.passing import TRACEBACK, FrameServer, LoopThread, Message
from arena_robot.policy.options import CallOptions, ServeOptions
from arena_robot.server.relay.upstreams import blinded, sentence

T = TypeVar('T')

# A policy that compiles at its first query takes minutes; openpi's clients wait for ever.
QUERY_S = 300.0
RESET_S = 10.0
OPEN_S = 30.0    # for a policy's new connection before a trial
RESET_DONE = 'reset successful'
NO_CALLS = ('these policies cannot be called over gRPC, because one of them does not say its '
            'action space; call them at ws://, or start arena blind with the action space in the '
            'address, such as pi0=openpi://gpu1:8000?action_space=joint_velocity')


class ArmPool(Openable):
    """The policies of a study, open, and the event loop in which they are called."""

    def __init__(self, addresses: Mapping[str, str], options: CallOptions) -> None:
        self._addresses, self._options = addresses, options
        self.policies: dict[str, RoutedPolicy] = {}
        self.metadata: dict[Any, Any] = {}
        self.spec: PolicySpec | None = None
        self.why_no_spec = ''
        self._loop: LoopThread | None = None

    def open(self) -> None:
        """
        Connect to every policy, and find what is said for all of them.

        Raises PolicyError naming the policy that cannot be reached, ConfigError where two of them
        cannot be told as one.
        """
        self._loop = LoopThread('blind-router')
        try:
            self.run(self._open(), sum(
                LOAD_S if parse_address(address).is_translated else OPEN_S
                for address in self._addresses.values()))
            self.metadata = common_metadata([arm.metadata for arm in self.policies.values()])
            specs = [arm.spec for arm in self.policies.values() if arm.spec is not None]
            self.why_no_spec = next((arm.why_no_spec for arm in self.policies.values()
                                     if arm.why_no_spec), '')
            self.spec = None if self.why_no_spec else common_spec(specs)
        except BaseException:
            self.close()
            raise

    def prepare(self, arm: str) -> None:
        """Connect to a policy anew before its trial; PolicyUnavailable that does not name it."""
        try:
            self.run(self.policies[arm].open(), OPEN_S)
        except PolicyError:
            raise PolicyUnavailable(
                'the policy of this trial cannot be reached, and nothing was started; look that '
                'all policy servers of the study run, then press Start again') from None

    def run(self, work: Coroutine[Any, Any, T], timeout_s: float) -> T:
        """Return what a coroutine returns that runs in the pool's event loop."""
        if self._loop is None:
            work.close()
            raise PolicyUnavailable('the policies are not open')
        return self._loop.run(work, timeout_s)

    def close(self) -> None:
        """Close all connections, and end the loop; can be called twice."""
        loop = self._loop
        if loop is None:
            return
        for policy in self.policies.values():
            self.run(policy.close(), RESET_S)
        self._loop = None
        loop.close(RESET_S)

    async def _open(self) -> None:
        for name, address in self._addresses.items():
            policy = arm_at(address, self._options)
            await policy.open()
            self.policies[name] = policy


class BlindRouter(Openable):
    """
    Serves the robot: queries go to the policy on turn while a trial runs.

    ``frames`` and ``calls`` are where openpi's and RoboArena's clients, and clients of
    ``arena.policy.v1``, are served; each of both addresses knows by the first bytes what a caller
    speaks. Without a spec that all policies share calls are refused.
    ``clips`` gets each query that is passed on.
    """

    def __init__(self, desk: StudyDesk, pool: ArmPool, frames: ServeOptions,
                 calls: ServeOptions, clips: TrialClips | None = None) -> None:
        self._desk, self._pool, self._clips = desk, pool, clips
        first = openpi_wire.pack(pool.metadata)
        self._calls = CallServer(self.call, ServeOptions())
        self._doors = [FrameServer(first, self.frame, desk.left, desk.stray, options)
                       for options in (frames, calls)]
        self._hosts = frames.host, calls.host

    @property
    def addresses(self) -> dict[str, str]:
        """Where a robot's program finds the router, by protocol; each address speaks both."""
        ports = [door.port for door in self._doors]
        found = {'openpi and RoboArena': f'ws://{self._hosts[0]}:{ports[0]}'}
        if self._pool.spec is not None:
            found['gRPC'] = f'grpc://{self._hosts[1]}:{ports[1]}'
        return found

    def open(self) -> None:
        """Start serving; ConfigError when a port cannot be used."""
        self._pool.run(self._open(), OPEN_S)

    def close(self) -> None:
        """Stop serving; can be called twice."""
        self._pool.run(self._close(), OPEN_S)

    async def _open(self) -> None:
        await self._calls.open()
        try:
            for door in self._doors:
                door.call_port = self._calls.port
                await door.open()
        except ConfigError:
            await self._close()
            raise

    async def _close(self) -> None:
        for door in self._doors:
            await door.close()
        await self._calls.close()

    async def frame(self, caller: str, frame: Message) -> Message:
        """Answer a frame of openpi's protocol; an error is a text with its code."""
        try:
            if is_reset(frame):
                await self._reset(caller, lambda arm: _forget(arm, frame))
                return RESET_DONE
            return await self._asked(caller, frame, pictures_of_frame,
                                     lambda arm: _chunk(arm, frame))
        except ArenaError as error:
            return f'[{error.code}] {error}'

    async def call(self, caller: str, method: str, request: bytes) -> bytes:
        """Answer a call of ``arena.policy.v1``; raises ArenaErrors."""
        if self._pool.spec is None:
            self._desk.stray(f'a program called over gRPC and got an error: {NO_CALLS}')
            raise PolicyRefused(NO_CALLS)
        if method == 'GetSpec':
            return bytes(wire.spec_to_wire(self._pool.spec).SerializeToString())
        if method == 'Reset':
            return await self._reset(
                caller, lambda arm: arm.call(method, request, RESET_S)) or b''
        return await self._asked(caller, request, pictures_of_call,
                                 lambda arm: arm.call(method, request, QUERY_S))

    async def _asked(self, caller: str, message: Message, find: FindPictures,
                     ask: Callable[[RoutedPolicy], Awaitable[T]]) -> T:
        """Return the reply of the policy on turn, if the trial still runs when it comes."""
        query = self._desk.admit(caller)
        if self._clips is not None:
            self._clips.add(query.take, message, find)
        try:
            reply = await ask(self._pool.policies[query.arm])
        except PolicyRefused as error:
            raise blinded(error) from None
        except PolicyError as error:
            self._desk.failed(query, sentence(error))
            raise blinded(error) from None
        self._desk.check(query)
        return reply

    async def _reset(self, caller: str, ask: Callable[[RoutedPolicy], Awaitable[T]]) -> T | None:
        """Pass a reset on while a trial runs; at other times there is nothing to forget."""
        arm = self._desk.on_turn(caller)
        if arm is None:
            return None
        try:
            return await ask(self._pool.policies[arm])
        except PolicyError as error:
            raise blinded(error) from None


async def _chunk(arm: RoutedPolicy, frame: Message) -> bytes:
    return raise_told(await arm.frame(frame, QUERY_S))


async def _forget(arm: RoutedPolicy, frame: Message) -> None:
    """Pass RoboArena's reset on, unless the server is openpi's own, which knows none."""
    reply = await arm.frame(frame, RESET_S) if arm.resets else RESET_DONE
    if isinstance(reply, str) and (reply.startswith('[') or TRACEBACK in reply):
        raise PolicyError(reply)
