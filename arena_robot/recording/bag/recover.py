"""
Recovery of bags that were cut off or damaged: copy what can be read into complete ones.

The damaged files are never changed: the copy is made beside them, or replaces them while they are
moved to ``<folder>_damaged``.
"""

import fcntl
import shutil
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from mcap.records import Metadata

from arena_robot.core.errors import RecordingError
from arena_robot.core.files import move
from arena_robot.recording.bag.base import Topic
from arena_robot.recording.bag.reader import BagReader
from arena_robot.recording.bag.salvage import Damage, salvage
from arena_robot.recording.bag.writer import RECORD, BagWriter
from arena_robot.records.episode_file import has_episode

RECOVERING = '_recovering'
_FLUSH_BYTES = 64 * 2**20    # written to the disk at once, so that a recovery takes little memory


@dataclass(frozen=True)
class Recovery:
    """
    Result of a recovery: in ``folder``, from files now in ``damaged``; times in nanoseconds.

    ``skipped`` are the parts that could not be read, ``bytes`` the size of the damaged files,
    ``took_s`` the duration of the recovery.
    """

    folder: Path
    damaged: Path
    messages: int
    topics: int
    start_ns: int
    end_ns: int
    skipped: tuple[Damage, ...] = ()
    bytes: int = 0
    took_s: float = 0.0


def cut_off(sessions: Path) -> list[Path]:
    """Return the episodes below a folder that are not complete and not being written."""
    return [folder for folder in sorted(sessions.glob('*/[AB]'))
            if not (folder / 'metadata.yaml').exists()
            and (files := list(folder.glob('*.mcap'))) and not any(map(is_growing, files))]


def tidy(sessions: Path) -> None:
    """
    Finish or undo the recoveries below a folder during which the process was killed.

    A complete copy whose original was moved away takes its place; any other copy is removed, for
    its original is where it was.
    """
    for copy in sorted(sessions.glob(f'*/[AB]{RECOVERING}*')):
        home = copy.with_name(copy.name[0])
        originals = [*_files(home), *_files(copy)]
        if any(map(is_growing, originals)):
            continue
        if not home.exists() and (copy / 'metadata.yaml').exists():
            move(copy, home)
        elif _files(home):
            shutil.rmtree(copy)


def underived(sessions: Path, younger_s: float) -> list[Path]:
    """Return the complete episodes of the last ``younger_s`` without derived files."""
    since_s = time.time() - younger_s
    return [path.parent for path in sorted(sessions.glob('*/[AB]/metadata.yaml'))
            if path.stat().st_mtime > since_s and not has_episode(path.parent)]


def is_growing(file: Path) -> bool:
    """Whether a process writes or recovers the file."""
    with file.open('rb') as opened:
        try:
            fcntl.flock(opened, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def is_complete(folder: Path) -> bool:
    """Whether a bag can be opened without recovery; its chunks are not read."""
    try:
        with BagReader(folder):
            return True
    except RecordingError:
        return False


def damages(folder: Path) -> tuple[Damage, ...]:
    """Return the parts of a bag that cannot be read; every byte of it is checked."""
    return tuple(item for path in _files(folder) for item in salvage(path)
                 if isinstance(item, Damage))


def recover(folder: Path, output: Path | None = None) -> Recovery:
    """
    Copy what can be read of the bag in ``folder`` into a complete bag; see :mod:`salvage`.

    Without ``output`` the copy takes the folder's place and the damaged files are kept in
    ``<folder>_damaged`` (``_damaged_2`` …). Raises RecordingError when there is no file, a
    recorder still writes it, nothing in it can be read, or ``output`` exists.
    """
    folder = folder.absolute()
    files = _files(folder)
    if not files:
        raise RecordingError(f'{folder} holds no .mcap file; name the folder of an episode')
    with _locked(files):
        return _recover(folder, files, output)


@contextmanager
def _locked(files: list[Path]) -> Iterator[None]:
    """Lock the bag; RecordingError when another process writes or recovers it."""
    with ExitStack() as stack:
        for path in files:
            opened = stack.enter_context(path.open('rb'))
            try:
                fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise RecordingError(f'{path.parent} is being recorded or recovered by another '
                                     'process; wait until that has ended') from None
        yield


def _recover(folder: Path, files: list[Path], output: Path | None) -> Recovery:
    begin_s = time.monotonic()
    target = output.absolute() if output else _free(folder, RECOVERING)
    if target.exists():
        raise RecordingError(f'{target} exists already; recordings are never overwritten')
    bag = BagWriter(target, {'recovered_from': ', '.join(f.name for f in files)},
                    name=folder.name)
    bag.open()
    try:
        skipped: list[Damage] = []
        span = _copy(files, bag, skipped)
        if span is None:
            raise RecordingError(f'nothing can be read from {files[0]}; it was cut off before '
                                 'the first half second was on the disk')
        summary = bag.close()
    except BaseException:
        bag.abandon()
        shutil.rmtree(target, ignore_errors=True)
        raise
    size = sum(path.stat().st_size for path in files)
    damaged = folder
    if output is None:
        damaged = _free(folder, '_damaged')
        _swap(folder, target, damaged)
        target = folder
    return Recovery(target, damaged, summary.message_count, len(summary.topics), *span,
                    tuple(skipped), size, time.monotonic() - begin_s)


def _copy(files: list[Path], bag: BagWriter,
          skipped: list[Damage]) -> tuple[int, int] | None:
    start, end, pending = None, 0, 0
    for path in files:
        for item in salvage(path):
            if isinstance(item, Topic):
                bag.add_topic(item)
            elif isinstance(item, Damage):
                skipped.append(item)
            elif isinstance(item, Metadata):
                if item.name == RECORD:
                    bag.custom.update(item.metadata)
            else:
                bag.write(item)
                start = item.log_ns if start is None else min(start, item.log_ns)
                end, pending = max(end, item.log_ns), pending + len(item.data)
        if pending > _FLUSH_BYTES:
            bag.flush()
            pending = 0
    return None if start is None else (start, end)


def _files(folder: Path) -> list[Path]:
    return sorted(folder.glob('*.mcap'), key=_number)


def _number(path: Path) -> tuple[int, str]:
    tail = path.stem.rsplit('_', 1)[-1]
    return (int(tail) if tail.isdigit() else 0, path.name)


def _free(folder: Path, ending: str) -> Path:
    names = [f'{folder.name}{ending}', *(f'{folder.name}{ending}_{k}' for k in range(2, 1000))]
    return next(folder.with_name(n) for n in names if not folder.with_name(n).exists())


def _swap(folder: Path, target: Path, damaged: Path) -> None:
    try:
        move(folder, damaged)
        move(target, folder)
    except OSError as error:
        raise RecordingError(f'the recovered bag is in {target}, but cannot take the place of '
                             f'{folder}: {error.strerror}') from error
