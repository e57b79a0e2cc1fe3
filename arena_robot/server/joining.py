"""
Policies whose machine dials out: connections to them pass over a call that it holds open.

A university's firewall lets no connection in. The policy's machine calls ``Join`` at the arena
server, with its owner's token. The server listens for the policy on a free port of its own
loopback; what comes there passes over the call as frames, and the policy's machine connects to
the policy for it. So relay and checks call a joined policy as they call any other.
"""

import asyncio
import re
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress

import grpc

from arena_robot.core.errors import ArenaError, Conflict, DataError, ServerUnavailable
from arena_robot.policy.grpc.channel import headers, open_aio_channel
from arena_robot.policy.options import CallOptions
from arena_robot.server.proto import arena_server_pb2 as pb
from arena_robot.server.proto import arena_server_pb2_grpc as pb_grpc
from arena_robot.server.wire import error_of

SUFFIX = '.joined'          # of the host of a joined policy: no public name ends so
LOOPBACK = '127.0.0.1'
CHUNK_BYTES = 1 << 18       # in a frame: two pictures of 224x224 pass in one
WAITING = 64                # frames that wait for the call; then the connections wait
STUCK_S = 10.0              # a connection that takes nothing for so long is dropped
AGAIN_S = (1.0, 30.0)       # pauses between two attempts to join, the first and the longest
_NAME = re.compile(r'[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?')    # a part of a host's name

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Dial = Callable[[], Awaitable[Streams]]
Tell = Callable[[str], None]


class Tunnel:
    """
    Connections that pass over one call: ``out`` are the frames to send.

    ``dial`` makes the connection of a number that is new; without it, only :meth:`accept` does.
    """

    def __init__(self, dial: Dial | None = None) -> None:
        self.out: asyncio.Queue[pb.JoinFrame] = asyncio.Queue(WAITING)
        self._dial = dial
        self._writers: dict[int, asyncio.StreamWriter] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._last = 0

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass on a connection that was made here, until it ends."""
        self._last += 1
        self._writers[self._last] = writer
        await self._read(self._last, reader)

    async def take(self, frame: pb.JoinFrame) -> None:
        """Pass a frame on to its connection."""
        number = frame.connection
        writer = self._writers.get(number)
        if writer is None:
            if frame.end or self._dial is None:
                return
            try:
                reader, writer = await self._dial()
            except OSError:
                await self.out.put(pb.JoinFrame(connection=number, end=True))
                return
            self._writers[number] = writer
            task = asyncio.ensure_future(self._read(number, reader))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        try:
            writer.write(frame.data)
            await asyncio.wait_for(writer.drain(), STUCK_S)
        except (OSError, asyncio.TimeoutError):    # in Python 3.10 the latter is no OSError
            self._drop(number)
        if frame.end:
            self._drop(number)

    def close(self) -> None:
        """Drop all connections."""
        for number in list(self._writers):
            self._drop(number)
        for task in self._tasks:
            task.cancel()

    async def _read(self, number: int, reader: asyncio.StreamReader) -> None:
        with suppress(OSError):
            while data := await reader.read(CHUNK_BYTES):
                await self.out.put(pb.JoinFrame(connection=number, data=data))
        if number in self._writers:    # the other side did not end it
            self._drop(number)
            await self.out.put(pb.JoinFrame(connection=number, end=True))

    def _drop(self, number: int) -> None:
        writer = self._writers.pop(number, None)
        if writer is not None:
            writer.close()


class JoinedPolicies:
    """The policies that have joined this server process, by owner and name."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ports: dict[tuple[int, str], int] = {}
        self._calls: dict[tuple[int, str], asyncio.Future[None]] = {}

    def port(self, owner_id: int, host: str) -> int:
        """Return the port at which a policy is to be called; DataError when it has not joined."""
        name = host.removesuffix(SUFFIX)
        with self._lock:
            port = self._ports.get((owner_id, name))
        if port is None:
            raise DataError(f'{host} has not joined this server: its owner runs `arena policy '
                            f'serve POLICY --join SERVER --name {name}`')
        return port

    async def hold(self, owner_id: int, name: str, frames: AsyncIterator[pb.JoinFrame],
                   until: Awaitable[None]) -> AsyncIterator[pb.JoinFrame]:
        """
        Carry the connections to a policy until its call or ``until`` ends; yield what to send.

        A policy that joins again takes the place of its earlier call, which may be dead without
        having ended. Raises Conflict in that one, DataError for a name that is no host's.
        """
        if not _NAME.fullmatch(name):
            raise DataError(f"'{name:.80}' is no name to join with: it has up to 63 of a to z, 0 "
                            'to 9 and -')
        key, tunnel = (owner_id, name), Tunnel()
        replaced = asyncio.get_running_loop().create_future()
        if (earlier := self._calls.get(key)) is not None and not earlier.done():
            earlier.set_exception(Conflict(f'{name} has joined again from elsewhere'))
        self._calls[key] = replaced
        listener = await asyncio.start_server(tunnel.accept, LOOPBACK, 0)
        port = listener.sockets[0].getsockname()[1]
        with self._lock:
            self._ports[key] = port
        ended = asyncio.ensure_future(_first_of(_taken(frames, tunnel), until, replaced))
        frame = asyncio.ensure_future(tunnel.out.get())
        try:
            yield pb.JoinFrame()
            while not ended.done():
                await asyncio.wait({frame, ended}, return_when=asyncio.FIRST_COMPLETED)
                if frame.done():
                    yield frame.result()
                    frame = asyncio.ensure_future(tunnel.out.get())
            ended.result()
        finally:
            frame.cancel()
            ended.cancel()
            with self._lock:
                if self._ports.get(key) == port:
                    del self._ports[key]
            if self._calls.get(key) is replaced:
                del self._calls[key]
            listener.close()
            tunnel.close()


class Joining:
    """
    Joins a policy on a port of this machine to an arena server, again after every loss.

    The server is at ``target``, with TLS if ``secure``; ``options`` have the owner's token.
    ``tell`` gets sentences for the person who serves it.
    """

    def __init__(self, target: str, secure: bool, options: CallOptions, name: str, port: int,
                 tell: Tell) -> None:
        self._target, self._secure, self._options = target, secure, options
        self._name, self._port, self._tell = name, port, tell
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name='join', daemon=True)
        self._task: asyncio.Task[None] | None = None
        self.refused: ArenaError | None = None

    def open(self) -> 'Joining':
        """Begin to join."""
        self._task = self._loop.create_task(self._keep_joined())
        self._thread.start()
        return self

    def close(self) -> None:
        """Leave the server; can be called twice."""
        if self._task is not None and self._thread.is_alive():
            with suppress(RuntimeError):    # the loop ended meanwhile
                self._loop.call_soon_threadsafe(self._task.cancel)
            self._thread.join(STUCK_S)

    def _run(self) -> None:
        assert self._task is not None
        with suppress(asyncio.CancelledError):
            self._loop.run_until_complete(self._task)
        self._loop.close()

    async def _keep_joined(self) -> None:
        pause_s = AGAIN_S[0]
        while True:
            began_s = self._loop.time()
            try:
                await self._joined()
                lost = 'the call ended'
            except ServerUnavailable as error:
                lost = str(error)
            except ArenaError as error:    # another attempt would be refused too
                self.refused = error
                self._tell(f'{self._target} does not let {self._name} join: {error}')
                return
            pause_s = AGAIN_S[0] if self._loop.time() - began_s > AGAIN_S[1] \
                else min(2.0 * pause_s, AGAIN_S[1])
            self._tell(f'not joined to {self._target} ({lost}); again in {pause_s:.0f} s')
            await asyncio.sleep(pause_s)

    async def _joined(self) -> None:
        channel = open_aio_channel(self._target, self._secure, self._options)
        tunnel = Tunnel(lambda: asyncio.open_connection(LOOPBACK, self._port))
        try:
            call = pb_grpc.ArenaServiceStub(channel).Join(metadata=headers(self._options))
            await call.write(pb.JoinFrame(name=self._name))
            if await call.read() is grpc.aio.EOF:
                return
            self._tell(f'joined {self._target}; submit it with: arena policy submit NAME '
                       f'grpc://{self._name}{SUFFIX}:{self._port} --server {self._target}')
            await _first_of(_taken(_frames(call), tunnel), _sent(tunnel, call.write))
        except grpc.aio.AioRpcError as error:
            raise error_of(error, 'Join', self._target) from error
        finally:
            tunnel.close()
            await channel.close()


async def _frames(call: grpc.aio.StreamStreamCall) -> AsyncIterator[pb.JoinFrame]:
    while (frame := await call.read()) is not grpc.aio.EOF:
        yield frame


async def _taken(frames: AsyncIterator[pb.JoinFrame], tunnel: Tunnel) -> None:
    async for frame in frames:
        await tunnel.take(frame)


async def _sent(tunnel: Tunnel, send: Callable[[pb.JoinFrame], Awaitable[None]]) -> None:
    while True:
        await send(await tunnel.out.get())


async def _first_of(*works: Awaitable[None]) -> None:
    """Wait for the first to end, and raise what it raised; the others are cancelled."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
