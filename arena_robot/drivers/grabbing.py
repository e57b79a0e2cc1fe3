"""
A camera behind a library that blocks until the next frame: the thread that reads it.

:class:`Arrivals` has the capture and arrival times of the newest frames.
"""

import logging
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from arena_robot.core.clock import Clock, SystemClock
from arena_robot.core.errors import DriverError, NotConnected, ReadTimeout, StaleData
from arena_robot.core.observation import CameraInfo, Image, Pixels
from arena_robot.drivers.base import StereoFrame
from arena_robot.drivers.part import Opened

log = logging.getLogger(__name__)

FIRST_S = 2.0    # until the first frame
AGAIN_S = 1.0    # between two attempts to connect
JOIN_S = 2.0     # until the thread has ended
KEPT = 120       # eight seconds at 15 Hz


@dataclass(frozen=True)
class Grab:
    """
    What the library handed over: both eyes, (H, W, 3) RGB each, copied out of its memory.

    ``age_s`` is how long ago the library stamped it, ``dropped`` counts frames lost since the
    device was connected. A camera with one eye has a right picture of shape (0, 0, 3).
    """

    left: Pixels
    right: Pixels
    age_s: float
    dropped: int = 0


class FrameSource(Protocol):
    """One device and its library; used by one thread at a time."""

    serial: str

    def connect(self) -> Mapping[str, CameraInfo]:
        """Connect, return the geometry of the eyes. NotConnected, closed again, if it fails."""

    def grab(self) -> Grab:
        """Return the next frame; DriverError that says what to do when the device has failed."""

    def disconnect(self) -> None:
        """Release the device; can be called twice, and never raises."""


class GrabbingCamera(Opened):
    """
    A :class:`arena_robot.drivers.base.Camera` that a thread reads from a :class:`FrameSource`.

    When the device fails, it is connected again once a second. It must then have the same serial
    number and geometry.
    """

    def __init__(self, source: FrameSource, clock: Clock | None, what: str) -> None:
        self._source, self._clock, self._what = source, clock or SystemClock(), what
        self._infos: Mapping[str, CameraInfo] = {}
        self._new = threading.Condition()       # guards what follows
        self._frame: StereoFrame | None = None
        self._arrivals = Arrivals()
        self._sequence, self._lost = 0, 0
        self._problem = ''
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def serial(self) -> str:
        """Return the serial number that the device has told; before open the one asked for."""
        return self._source.serial

    def open(self) -> None:
        """Connect and wait for the first frame."""
        if self._open:
            return
        self._infos = self._source.connect()
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
                self._take(self._source.grab(), ended)
            except DriverError as error:
                self._lose(str(error))
                self._source.disconnect()
                connected = False
                ended.wait(AGAIN_S)
            except Exception as error:      # whatever a library raises besides
                log.exception('%s', self._what)
                self._lose(f'{type(error).__name__}: {error}')
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
            raise NotConnected(f'{self._what}: another camera ({serial}) is plugged in now')
        self._infos = infos
        log.warning('%s is connected again', self._what)

    def _take(self, grab: Grab, ended: threading.Event) -> None:
        now_ns = self._clock.now_ns()
        stamp_ns = now_ns - max(0, round(grab.age_s * 1e9))
        with self._new:
            if ended.is_set():
                return
            self._sequence += 1
            self._frame = StereoFrame(Image(grab.left, stamp_ns), Image(grab.right, stamp_ns),
                                      self._sequence, self._lost + grab.dropped)
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
