"""
A video of each trial, from the pictures in the robot's own queries: the evidence of a verdict.

The router hands over each query that it passes on, as bytes. One thread of low priority looks for
pictures and writes them, so that no query waits; what it has no time for is left out. A query
without pictures, or with damaged ones, adds nothing. The files are named after the trials.
"""

import os
import queue
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from shutil import disk_usage
from typing import Any, NamedTuple

import cv2
import numpy as np

from arena_robot.core import jpeg
from arena_robot.core.clock import Clock
from arena_robot.core.errors import ArenaError, DataError, PolicyRefused
from arena_robot.core.files import PARTIAL
from arena_robot.core.observation import Pixels
from arena_robot.core.openable import Openable
from arena_robot.policy.grpc import wire
from arena_robot.policy.openpi import wire as openpi_wire
from arena_robot.policy.openpi.passing import Message
from arena_robot.policy.proto import arena_policy_pb2 as pb
from arena_robot.recording.episode.frames import (
    MOST_PIXELS,
    rgb_frame,
    timed_frames,
    write_video,
)

CLIPS = 'clips'                  # the folder in that of the study
MOST_WAITING = 64 << 20          # bytes of queries: some 200 with two pictures of 224x224
MOST_FRAMES = 20_000             # of a clip: 22 minutes at 15 Hz, some 200 MB
LEAST_GAP_NS = 10**9 // 31       # more than 30 pictures a second show nothing more
LEAST_FREE = 1 << 30             # bytes of the disk that are left to the study's journal
MOST_ITEMS = 100_000             # in a list of a query; histories of states are shorter
LEAST_SIDE = 16                  # pixels; arrays that are smaller are numbers of something else
HEIGHT, MOST_WIDTH = 360, 1920   # of the pictures side by side, in pixels
DEPTH = 3                        # of maps in maps; openpi's robots use one or two
PAUSE_NS = 10**9                 # between the parts of a trial whose end was taken back
JPEG_OR_PNG = (b'\xff\xd8\xff', b'\x89PNG')
LOWEST = 19                      # priority of the thread
CLOSE_S = 10.0                   # for what is left to write

Pictures = dict[str, Pixels]
FindPictures = Callable[[Message], Pictures]


class Seen(NamedTuple):
    """A query of a trial, which ``find`` takes the pictures from; no query ends the trial."""

    take: str
    stamp_ns: int = 0
    message: Message = b''
    find: FindPictures | None = None


def take_name(version: int, trial: int, attempt: int) -> str:
    """Return the name of one attempt at a trial, which says nothing of its policy."""
    return (f'v{version}-' * (version > 1)) + str(trial) + (f'-{attempt}' * (attempt > 1))


def pictures_of_frame(frame: Message) -> Pictures:
    """Return the pictures in a query of openpi's protocol, of any robot. Raises DataError."""
    if isinstance(frame, str):
        return {}
    return dict(_pictures(openpi_wire.unpack(frame, MOST_WAITING, MOST_ITEMS), ''))


def pictures_of_call(request: Message) -> Pictures:
    """Return the pictures in the bytes of an ``InferRequest``. Raises PolicyRefused."""
    assert isinstance(request, bytes)    # gRPC has no texts
    seen = wire.observation_of_request(wire.parsed(pb.InferRequest, request, 'request'))
    return {name: image.pixels for name, image in seen.images.items()}


def _pictures(value: Any, name: str, depth: int = 0) -> Iterator[tuple[str, Pixels]]:
    """Yield what is a picture in the maps of a query: arrays, JPEG and PNG."""
    if isinstance(value, Mapping) and depth < DEPTH:
        for key, item in value.items():
            yield from _pictures(item, f'{name}/{key}', depth + 1)
    elif isinstance(value, bytes) and value.startswith(JPEG_OR_PNG):
        yield name, jpeg.from_jpeg(value, MOST_PIXELS)
    elif isinstance(value, np.ndarray) and value.size:
        while value.ndim > 3:    # a history, or a batch; the newest is last
            value = value[-1]
        if sorted(value.shape)[1:2] >= [LEAST_SIDE] and value.size <= 3 * MOST_PIXELS:
            try:
                yield name, openpi_wire.pixels_of(value, name)
            except PolicyRefused:
                return    # numbers of something else


def _found(query: Seen) -> Pictures:
    """Return the pictures of a query; none of a damaged one, which the policy gets as it is."""
    try:
        return query.find(query.message) if query.find is not None else {}
    except (ArenaError, ValueError):
        return {}


class SideBySide:
    """Draws pictures beside each other, each at the place and size that its first one had."""

    def __init__(self, first: Pictures) -> None:
        height = min(HEIGHT, max(picture.shape[0] for picture in first.values()))
        wide = sum(height * picture.shape[1] / picture.shape[0] for picture in first.values())
        height = max(2, int(height * min(1.0, MOST_WIDTH / wide)))
        self._tiles = {name: (max(2, round(height * picture.shape[1] / picture.shape[0])), height)
                       for name, picture in first.items()}

    def drawn(self, pictures: Pictures) -> Pixels:
        """Return one picture of all; a missing one is black, one that is new is left out."""
        tiles = [cv2.resize(pictures[name], size, interpolation=cv2.INTER_AREA)
                 if name in pictures else np.zeros((size[1], size[0], 3), np.uint8)
                 for name, size in self._tiles.items()]
        return np.asarray(np.hstack(tiles), np.uint8)


class TrialClips(Openable):
    """
    Writes the clips of a study into ``folder``; ``tell`` gets a sentence where one cannot be.

    It may be called from several threads.
    """

    def __init__(self, folder: Path, clock: Clock, tell: Callable[[str], None]) -> None:
        self._folder, self._clock, self._tell = folder, clock, tell
        self._waiting: queue.SimpleQueue[Seen | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._bytes = self._last_ns = 0
        self._taken: set[str] = set()    # attempts of which a query was kept
        self._without: set[str] = set()  # attempts without a picture, or whose clip failed
        self._back: Seen | None = None    # a query that was looked at and is of the next trial
        self._thread: threading.Thread | None = None

    def open(self) -> None:
        """Start the thread that writes; what a router that was killed had begun is removed."""
        for part in (self._folder / CLIPS).glob(f'.*{PARTIAL}'):
            part.unlink()
        self._thread = threading.Thread(target=self._run, name='clips', daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Write what is waiting, and end the thread; can be called twice."""
        thread, self._thread = self._thread, None
        if thread is not None:
            self._waiting.put(None)
            thread.join(CLOSE_S)

    def add(self, take: str, message: Message, find: FindPictures) -> None:
        """Keep the pictures of a query that is passed on; returns at once."""
        now_ns = self._clock.steady_ns()
        with self._lock:
            if now_ns - self._last_ns < LEAST_GAP_NS or self._bytes > MOST_WAITING:
                return
            self._last_ns = now_ns
            self._bytes += len(message)
            self._taken.add(take)
        self._waiting.put(Seen(take, now_ns, message, find))

    def end(self, take: str) -> None:
        """Finish the clip of a trial; later queries of it are added to its end."""
        self._waiting.put(Seen(take))

    def clip(self, take: str) -> str:
        """
        Return the clip's path in the study's folder, '' where no picture was seen.

        A query that waits to be looked at is believed to have one.
        """
        kept = take in self._taken - self._without or self._path(take).is_file()
        return f'{CLIPS}/{take}.mp4' if kept else ''

    def ready(self, clip: str) -> bool:
        """Tell whether a clip can be shown."""
        return bool(clip) and (self._folder / clip).is_file()

    def _path(self, take: str) -> Path:
        return self._folder / CLIPS / f'{take}.mp4'

    def _run(self) -> None:
        if sys.platform == 'linux':    # elsewhere a thread has no priority of its own
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), LOWEST)
        while (query := self._got()) is not None:
            take, self._back = query.take, query
            try:
                write_video(self._path(take), self._frames(take))
            except (ArenaError, OSError) as error:
                self._without.add(take)
                self._tell(f'no video of trial {take} is kept: {error}')
                for _ in self._queries(take):
                    continue    # none is written again before the trial ends

    def _got(self) -> Seen | None:
        """Return the next query, and None at the end of all."""
        query, self._back = self._back, None
        if query is None and (query := self._waiting.get()) is not None:
            with self._lock:
                self._bytes -= len(query.message)
        return query

    def _queries(self, take: str) -> Iterator[Seen]:
        """Yield the queries of a trial until it ends, or another one begins."""
        while (query := self._got()) is not None and query.take == take:
            if query.find is None:
                return
            yield query
        self._back = query
        if query is None:
            self._waiting.put(None)

    def _frames(self, take: str) -> Iterator[tuple[int, Any]]:
        """Yield the frames of a clip with their times: those of its file, then the new ones."""
        count, shift_ns, board = 0, 0, None
        path = self._path(take)
        for query in self._queries(take):
            pictures = _found(query)
            if board is None and not pictures:
                self._without.add(take)
            if not pictures or count >= MOST_FRAMES:
                continue
            if disk_usage(self._folder).free < LEAST_FREE:
                raise DataError(f'the disk of {self._folder} has less than 1 GiB free')
            if board is None:
                path.parent.mkdir(exist_ok=True)
                board, shift_ns = SideBySide(pictures), query.stamp_ns
                self._without.discard(take)
                for _, stamp_ns, pixels in timed_frames(path) if path.is_file() else ():
                    yield stamp_ns, rgb_frame(pixels)
                    shift_ns = query.stamp_ns - stamp_ns - PAUSE_NS
            count += 1
            yield query.stamp_ns - shift_ns, rgb_frame(board.drawn(pictures))
