"""
A camera behind a library that blocks until the next frame: the thread that reads it.

:class:`SourceProcess` runs a library in a process of its own, which is killed when the library
does not return. :class:`Arrivals` has the capture and arrival times of the newest frames.
"""

import contextlib
import importlib
import json
import logging
import mmap
import os
import shutil
import socket
import sys
import tempfile
import threading
import time
import weakref
from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotDone
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, ClassVar, Protocol

import numpy as np

from arena_robot.core.clock import Clock, SystemClock
from arena_robot.core.errors import (
    ArenaError,
    ConfigError,
    DriverError,
    NotConnected,
    ReadTimeout,
    StaleData,
)
from arena_robot.core.observation import NO_EYE, CameraInfo, DepthImage, Image, Millimetres, Pixels
from arena_robot.core.process import Process
from arena_robot.drivers.base import Setting, StereoFrame
from arena_robot.drivers.part import Opened

log = logging.getLogger(__name__)

FIRST_S = 2.0    # until the first frame
AGAIN_S = 1.0    # between two attempts to connect
JOIN_S = 2.0     # until the thread has ended
KEPT = 120       # eight seconds at 15 Hz
START_S = 20.0   # until a process has imported its library, on a busy machine
CONNECT_S = 10.0    # for opening a device, beyond the library's own limit
GRAB_S, FIRST_GRAB_S = 1.0, 2.0    # for a frame: the process that takes longer is killed
SLOTS = 5        # frames in shared memory: newest, being published, being written, and two more
ENDS_S = 1.0     # for closing the device, before the process is killed
CHANGE_S = 3.0   # until a picture's settings are taken: a frame and the process's own limit
AUTO = -1        # a setting of the picture that the camera chooses


@dataclass(frozen=True)
class Grab:
    """
    What the library handed over: both eyes, (H, W, 3) RGB each, copied out of its memory.

    ``age_s`` is how long ago the library stamped it, ``dropped`` counts frames lost since the
    device was connected. A camera with one eye has a right picture of shape (0, 0, 3), one that
    measures it ``depth`` (H, W) mm of the left picture's pixels.
    """

    left: Pixels
    right: Pixels
    age_s: float
    dropped: int = 0
    depth: Millimetres | None = None


class FrameSource(Protocol):
    """One device and its library; used by one thread at a time."""

    serial: str

    def connect(self) -> Mapping[str, CameraInfo]:
        """Connect, return the geometry of the eyes. NotConnected, closed again, if it fails."""

    def grab(self) -> Grab:
        """Return the next frame; DriverError that says what to do when the device has failed."""

    def set_picture(self, values: Mapping[str, float]) -> Mapping[str, float]:
        """
        Change the settings of the connected device; return those to connect with again.

        ConfigError, and nothing has changed, for a value that the device does not have.
        """

    def disconnect(self) -> None:
        """Release the device; can be called twice, and never raises."""


class SourceProcess:
    """
    A FrameSource whose library runs in a process of its own, ``what`` in messages.

    ``target`` is ``module:function`` that makes a FrameSource from ``options``. The process
    writes each picture into shared memory: at once where the source writes to the arrays of its
    attribute ``into``. The camera hands out that memory, without a copy: it is written to again
    when nobody refers to it any more. A process that is silent for too long, or ends, is a
    DriverError, and the next ``connect`` starts another one.
    ``open_timeout_s`` is the library's own limit for opening the device, ``lasts`` a sentence
    about how long it takes to come back.
    """

    def __init__(self, target: str, options: Mapping[str, Any], serial: str, what: str,
                 open_timeout_s: float, lasts: str) -> None:
        self.serial, self._what, self._lasts = serial, what, lasts
        self._target, self._options = target, dict(options)
        self._open_timeout_s = open_timeout_s
        self._folder: Path | None = None
        self._process: Process | None = None
        self._line: Connection | None = None
        self._memory: Any = None
        self._infos: Mapping[str, CameraInfo] = {}
        self._lent, self._returned = 0, deque[int]()
        self._limit_s = FIRST_GRAB_S

    def connect(self) -> Mapping[str, CameraInfo]:
        """Start the process unless one waits for this; have it connect."""
        if self._line is None:
            self._start()
        assert self._line is not None
        self._line.send('connect')
        self.serial, self._infos, pid, file = self._reply(
            self._open_timeout_s + CONNECT_S, 'opening the device')
        with open(f'/proc/{pid}/fd/{file}', 'r+b') as memory:
            self._memory = mmap.mmap(memory.fileno(), 0)
        self._lent, self._returned, self._limit_s = 0, deque(), FIRST_GRAB_S
        return dict(self._infos)

    def grab(self) -> Grab:
        """Return the next frame; its pictures are shared memory."""
        assert self._line is not None
        self._give_back()
        slot, age_s, dropped, sent_ns = self._reply(self._limit_s, 'the next picture')
        self._limit_s = GRAB_S
        size = len(self._memory) // SLOTS
        both: Pixels = np.frombuffer(self._memory, np.uint8, size, slot * size)
        self._lent += 1
        if self._lent < SLOTS - 1:
            weakref.finalize(both, self._returned.append, slot)
        else:    # the reader keeps frames: the last place is not lent
            both = both.copy()
            self._returned.append(slot)
        left, right, depth = _parts(both, self._infos)
        return Grab(left, right, age_s + (time.monotonic_ns() - sent_ns) * 1e-9, dropped, depth)

    def set_picture(self, values: Mapping[str, float]) -> Mapping[str, float]:
        """Have the process change the settings; frames that come before its answer are lost."""
        self._send(dict(values))
        while not isinstance(reply := self._reply(self._limit_s, 'setting the picture'), dict):
            self._send(reply[0])
        self._options.update(reply)
        return reply

    def disconnect(self) -> None:
        """End the process, and with it whatever the library does."""
        line, self._line = self._line, None
        if line is not None:
            line.close()
        process, self._process = self._process, None
        if process is not None:
            end_s = time.monotonic() + ENDS_S
            while process.code is None and time.monotonic() < end_s:
                time.sleep(0.005)
            process.kill()
        self._memory = None
        folder, self._folder = self._folder, None
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)

    def _start(self) -> None:
        """Start a process that knows the modules which this one finds."""
        self._folder = folder = Path(tempfile.mkdtemp(prefix='arena_camera_'))
        self._process = Process(
            f'the process of {self._what}',
            [sys.executable, '-c', f'from {__name__} import serve; serve()', self._target,
             str(folder / 'line'), json.dumps([self._options, sys.path])], folder / 'log')
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(folder / 'line'))
            server.listen(1)
            server.settimeout(0.1)
            self._process.start()
            end_s = time.monotonic() + START_S
            while self._line is None:
                with contextlib.suppress(TimeoutError):
                    self._line = Connection(server.accept()[0].detach())
                    return
                if self._process.code is not None or time.monotonic() > end_s:
                    words = self._last_words()
                    self.disconnect()
                    raise NotConnected(f'the process of {self._what} did not start: {words}')

    def _reply(self, timeout_s: float, awaited: str) -> Any:
        """Return what the process sends; DriverError, and it has ended, where it is silent."""
        assert self._line is not None
        assert self._process is not None
        try:
            if not self._line.poll(timeout_s):
                self._process.kill()
                self.disconnect()
                raise DriverError(f'{self._what}: its library did not return from {awaited} for '
                                  f'{timeout_s:g} s, and its process was killed; {self._lasts}')
            reply = self._line.recv()
        except (EOFError, OSError) as error:
            self._process.end(0.0, ENDS_S)
            words = f'ended with {self._process.code}: {self._last_words()}'
            self.disconnect()
            raise DriverError(f'{self._what}: the process of its library {words}; {self._lasts}'
                              ) from error
        if isinstance(reply, ArenaError):
            raise reply
        return reply

    def _give_back(self) -> None:
        while self._returned and self._line is not None:
            self._lent -= 1
            self._send(self._returned.popleft())

    def _send(self, message: int | dict[str, float]) -> None:
        """Send a slot that is free again, or settings."""
        assert self._line is not None
        with contextlib.suppress(OSError):      # it has ended: the reply says so
            self._line.send(message)

    def _last_words(self) -> str:
        lines = self._process.said().strip().splitlines() if self._process else []
        return lines[-1][:300] if lines else 'it said nothing'


def serve() -> None:
    """Run the process of a :class:`SourceProcess`, until its other end closes the line."""
    target, path, text = sys.argv[1:]
    options, places = json.loads(text)
    sys.path.extend(place for place in places if place not in sys.path)
    module, _, name = target.partition(':')
    source: Any = getattr(importlib.import_module(module), name)(**options)
    client = socket.socket(socket.AF_UNIX)
    client.connect(path)
    line = Connection(client.detach())
    with contextlib.suppress(EOFError, OSError):
        while line.recv():
            try:
                _stream(line, source, source.connect())
            except ArenaError as error:
                source.disconnect()
                line.send(error)
    source.disconnect()


def _stream(line: Connection, source: Any, infos: Mapping[str, CameraInfo]) -> None:
    """Send a picture's slot whenever there is one; EOFError when the other end is closed."""
    size = infos['left'].height * infos['left'].width * (6 if 'right' in infos else 5)
    file = os.memfd_create('arena_camera')
    os.ftruncate(file, SLOTS * size)
    memory, free = mmap.mmap(file, 0), list(range(SLOTS))
    line.send((source.serial, infos, os.getpid(), file))
    while True:
        while not free or line.poll(0):
            message = line.recv()
            if isinstance(message, dict):
                line.send(_changed(source, message))
            else:
                free.append(message)
        slot = free.pop()
        source.into = _parts(np.frombuffer(memory, np.uint8, size, slot * size), infos)
        grab = source.grab()
        for array, picture in zip(source.into, (grab.left, grab.right, grab.depth), strict=True):
            if picture is not None and not np.shares_memory(array, picture):
                np.copyto(array, picture)
        line.send((slot, grab.age_s, grab.dropped, time.monotonic_ns()))


def _parts(slot: Pixels, infos: Mapping[str, CameraInfo]) -> tuple[Pixels, Pixels, Any]:
    """Return both pictures of a slot, or the left one and its depth where no eye is right."""
    shape = infos['left'].height, infos['left'].width
    left, other = (part.reshape(*shape, -1) for part in np.split(slot, [shape[0] * shape[1] * 3]))
    return (left, other, None) if 'right' in infos else (
        left, NO_EYE, other.view(np.uint16)[..., 0])


def _changed(source: FrameSource, values: Mapping[str, float]) -> object:
    """Return the answer to new settings: those to connect with again, or the refusal."""
    try:
        return dict(source.set_picture(values))
    except ConfigError as error:
        return error


class GrabbingCamera(Opened):
    """
    A :class:`arena_robot.drivers.base.Camera` that a thread reads from a :class:`FrameSource`.

    When the device fails, it is connected again once a second. It must then have the same serial
    number and geometry. ``adjustable`` are the settings of a subclass's pictures.
    """

    adjustable: ClassVar[Mapping[str, Setting]] = {}

    def __init__(self, source: FrameSource, clock: Clock | None, what: str) -> None:
        self._source, self._clock, self._what = source, clock or SystemClock(), what
        self._infos: Mapping[str, CameraInfo] = {}
        self._new = threading.Condition()       # guards what follows
        self._frame: StereoFrame | None = None
        self._arrivals = Arrivals()
        self._sequence, self._lost = 0, 0
        self._problem = ''
        self._changes = deque[tuple[Mapping[str, float], Future[None]]]()
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    @classmethod
    def settings(cls) -> Mapping[str, Setting]:
        """Return the settings of the picture."""
        return cls.adjustable

    @property
    def serial(self) -> str:
        """Return the serial number that the device has told; before open the one asked for."""
        return self._source.serial

    def open(self) -> None:
        """Connect and wait for the first frame."""
        if self._open:
            return
        try:
            self._infos = self._source.connect()
        except ArenaError:
            self._source.disconnect()
            raise
        with self._new:
            self._frame, self._arrivals, self._problem = None, Arrivals(), ''
            self._sequence = self._lost = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._read, args=(self._ended,), daemon=True,
                                        name=f'camera {self.serial}')
        self._thread.start()
        super().open()
        try:
            self.wait_frame(FIRST_S)
        except DriverError as error:
            self.close()
            raise NotConnected(f'{self._what} is connected, but sends no frames: {error}'
                               ) from error

    def close(self) -> None:
        """Let go of the device."""
        super().close()
        self._ended.set()
        thread, self._thread = self._thread, None
        if thread is None:
            return
        thread.join(JOIN_S)     # the thread itself disconnects: no library likes to be closed
        if thread.is_alive():   # while another thread waits in it
            log.warning('%s: its library does not return; it is closed when it does', self._what)

    def info(self) -> Mapping[str, CameraInfo]:
        """Return the geometry of the eyes."""
        self._require_open(self._what)
        return self._infos

    def frame(self, max_age_s: float = 0.2) -> StereoFrame:
        """Return the newest frame."""
        self._require_open(self._what)
        with self._new:
            frame, problem = self._frame, self._problem
        if frame is None:
            raise StaleData(f'{self._what} has sent no frame yet')
        age_s = (self._clock.now_ns() - frame.left.stamp_ns) * 1e-9
        if age_s > max_age_s:
            raise StaleData(f'newest frame of {self._what} is {age_s:.3f} s old, accepted are '
                            f'{max_age_s} s; {problem or "is it still plugged in?"}')
        return frame

    def wait_frame(self, timeout_s: float) -> StereoFrame:
        """Return the next new frame."""
        self._require_open(self._what)
        with self._new:
            before = self._sequence
            if not self._new.wait_for(lambda: self._sequence != before, timeout_s):
                raise ReadTimeout(f'no frame of {self._what} within {timeout_s} s; '
                                  f'{self._problem or "is it still plugged in?"}')
            assert self._frame is not None
            return self._frame

    def set_picture(self, values: Mapping[str, float]) -> None:
        """Have the thread change the settings of the picture before its next frame."""
        self._require_open(self._what)
        done = Future[None]()
        self._changes.append((values, done))
        try:
            done.result(CHANGE_S)
        except NotDone as error:
            done.cancel()
            raise ReadTimeout(f'{self._what} did not take the settings of its picture within '
                              f'{CHANGE_S:g} s; {self._problem or "is it still plugged in?"}'
                              ) from error

    def arrivals(self) -> Sequence[tuple[int, int]]:
        """Return when the newest frames were stamped, and when they were there."""
        return self._arrivals.pairs()

    # -- the thread ----------------------------------------------------------------------------

    def _read(self, ended: threading.Event) -> None:
        connected = True
        while not ended.is_set():
            try:
                if not connected:
                    self._connect_again()
                    connected = True
                self._change_picture()
                self._take(self._source.grab(), ended)
                continue
            except DriverError as error:
                self._lose(str(error))
            except Exception as error:      # whatever a library raises besides
                log.exception('%s', self._what)
                self._lose(f'{type(error).__name__}: {error}')
            if connected:
                self._source.disconnect()
            connected = False
            ended.wait(AGAIN_S)
        self._source.disconnect()

    def _connect_again(self) -> None:
        before = self._source.serial
        infos = self._source.connect()
        if self._source.serial != before or {e: (i.width, i.height) for e, i in infos.items()} != {
                e: (i.width, i.height) for e, i in self._infos.items()}:
            serial, self._source.serial = self._source.serial, before
            self._source.disconnect()
            raise NotConnected(f'{self._what}: another camera ({serial}) is plugged in now')
        self._infos = infos
        log.warning('%s is connected again', self._what)

    def _change_picture(self) -> None:
        """Change what :meth:`set_picture` was asked for, in the thread that uses the library."""
        while self._changes:
            values, done = self._changes.popleft()
            if not done.set_running_or_notify_cancel():
                continue
            try:
                self._source.set_picture(values)
            except ConfigError as error:
                done.set_exception(error)
            except Exception as error:
                done.set_exception(error)
                raise
            else:
                done.set_result(None)

    def _take(self, grab: Grab, ended: threading.Event) -> None:
        now_ns = self._clock.now_ns()
        stamp_ns = now_ns - max(0, round(grab.age_s * 1e9))
        with self._new:
            if ended.is_set():
                return
            self._sequence += 1
            self._frame = StereoFrame(
                Image(grab.left, stamp_ns), Image(grab.right, stamp_ns), self._sequence,
                self._lost + grab.dropped,
                None if grab.depth is None else DepthImage(grab.depth, stamp_ns))
            self._problem = ''
            self._arrivals.note(stamp_ns, now_ns)
            self._new.notify_all()

    def _lose(self, problem: str) -> None:
        """Store the error for readers."""
        with self._new:
            if not self._problem:
                log.warning('%s', problem)
            self._problem = problem
            if self._frame is not None:
                self._lost = self._frame.dropped


class Arrivals:
    """Stores (stamp_ns, came_ns) of the newest frames; one thread writes, any thread reads."""

    def __init__(self) -> None:
        self._pairs: tuple[tuple[int, int], ...] = ()
        self._newest: deque[tuple[int, int]] = deque(maxlen=KEPT)

    def note(self, stamp_ns: int, came_ns: int) -> None:
        """Store one frame's times."""
        self._newest.append((stamp_ns, came_ns))
        self._pairs = tuple(self._newest)

    def pairs(self) -> Sequence[tuple[int, int]]:
        """Return the newest frames' times, oldest first."""
        return self._pairs
