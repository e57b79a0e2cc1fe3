"""
Deletes or blurs uploaded content, with a tombstone: the log keeps the hash of what is gone.

A session that counts goes on counting: what the log says of it stays, and a new entry says which
files were deleted, why, and when. ``arena results verify`` checks that entry like any other.
Files are marked in the database first and deleted after that; :meth:`FileEraser.step` deletes what
a kill in between has left, and what is older than the server keeps files of a station. A blurred
video is a new file; what it was made of is deleted like any other.
"""

import json
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath

from arena_robot.core.clock import DAY_NS, Clock
from arena_robot.core.errors import DataError
from arena_robot.recording.episode.frames import Blur, blur_video
from arena_robot.records.episode_file import EPISODE_FILE, SCENE_MATCH_FILE, STEPS_FILE
from arena_robot.server.config import ServerConfig
from arena_robot.server.files import FileId, digest_of
from arena_robot.server.store import files as store
from arena_robot.server.store import log as entries
from arena_robot.server.store.audit import Audit
from arena_robot.server.store.blobs import Blobs
from arena_robot.server.store.database import Connection, Database
from arena_robot.server.store.uploads import SLOTS, Uploads
from arena_robot.server.transparency.keys import LogKey
from arena_robot.server.transparency.log import TransparencyLog, erasure_entry

MAX_REASON = 500    # characters: the log keeps them for ever
AT_ONCE = 100    # sessions that one step looks at, so that other chores get their turn
FILM, PICTURES = '.mp4', ('.jpg', '.jpeg', '.png')
WITHOUT_PICTURES = (STEPS_FILE, EPISODE_FILE, SCENE_MATCH_FILE)


@dataclass(frozen=True)
class BlurPlan:
    """
    What a blur does: ``source`` is the video that ``target`` replaces.

    ``removed`` are all files that would show its pictures unblurred, ``kept`` the videos of the
    other cameras of the slot, in which the same person may be.
    """

    source: FileId
    target: FileId
    removed: tuple[store.FileRow, ...]
    kept: tuple[str, ...]


class FileEraser:
    """Deletes the files of sessions; ``keep_days`` by station, '' for the others, 0 for ever."""

    def __init__(self, database: Database, blobs: Blobs, uploads: Uploads, log: TransparencyLog,
                 clock: Clock, keep_days: Mapping[str, int]) -> None:
        self._database, self._blobs, self._uploads = database, blobs, uploads
        self._log, self._clock, self._keep_days = log, clock, keep_days
        self._audit = Audit(database, clock)

    def erase(self, session_id: str, slot: str, reason: str, author: str) -> int:
        """
        Delete the files of a slot (``A``, ``B``, ``-`` for the session's own, '' for all).

        Returns how many. DataError when there are none, or without a reason.
        """
        reason = _checked(reason)
        if slot and slot not in SLOTS:
            raise DataError(f"a slot is A, B or '-', found '{slot:.20}'")
        now = self._clock.now_ns()
        with self._database.write() as connection:
            store.lock_session(connection, session_id)
            rows = [row for row in store.of_session(connection, session_id)
                    if not row.erased and slot in ('', row.file.slot)]
            if not rows:
                raise DataError(f'session {session_id:.40} has no file to delete'
                                + (f' in slot {slot}' if slot else ''))
            store.mark_erased(connection, [row.file for row in rows], now)
            if entries.of_session(connection, session_id):
                self._log.append(connection, [(session_id, erasure_entry(
                    session_id, author, reason, {row.file.key: row.sha256 for row in rows},
                    now))])
        self._audit.write(author, 'erase', f'{session_id} {slot or "all"}: {reason}', 'ok')
        for row in rows:
            self._delete(row.file)
        return len(rows)

    def blur_plan(self, session_id: str, slot: str, camera: str, blur: Blur) -> BlurPlan:
        """
        Return what :meth:`blur` would do with the video of a camera of slot A or B.

        DataError when there is none, when it was blurred just so before, or when the session is
        not in the log.
        """
        with self._database.read() as connection:
            return self._plan(connection, session_id, slot, camera, blur)

    def blur(self, plan: BlurPlan, blur: Blur, reason: str, author: str,
             progress: Callable[[int, int, str], None]) -> BlurPlan:
        """Replace a video by a blurred one and delete what shows it; return what was done."""
        reason, source = _checked(reason), plan.source
        with tempfile.TemporaryDirectory(prefix='arena-blur-') as folder:
            old, new = Path(folder) / PurePosixPath(source.path).name, Path(folder) / 'new.mp4'
            local = self._blobs.local_path(source.key)
            if local is None:
                with old.open('wb') as stream:
                    stream.writelines(self._blobs.read(source.key))
            blur_video(local or old, new, blur, progress)
            made = store.FileRow(plan.target, new.stat().st_size, digest_of(new), True)
            staged = self._blobs.stage(new, made.file.key)
            try:
                done = self._replace(plan, made, staged, blur, reason, author)
            except BaseException:
                if staged != str(new):
                    self._blobs.drop(staged)
                raise
        self._audit.write(author, 'blur', f'{source.key}: {reason}', 'ok')
        for row in done.removed:
            self._delete(row.file)
        return done

    def _replace(self, plan: BlurPlan, made: store.FileRow, staged: str, blur: Blur, reason: str,
                 author: str) -> BlurPlan:
        """Enter a blurred video and the tombstone of what it replaces; return what goes now."""
        source, now = plan.source, self._clock.now_ns()
        with self._database.write() as connection:
            store.lock_session(connection, source.session_id)
            plan = self._plan(connection, source.session_id, source.slot, _stem(source.path), blur)
            if (plan.source, plan.target) != (source, made.file):
                raise DataError(f'{source.key} was changed meanwhile: begin again')
            store.announce(connection, made, now)
            store.mark_complete(connection, made, now)
            store.mark_erased(connection, [row.file for row in plan.removed], now)
            self._log.append(connection, [(source.session_id, erasure_entry(
                source.session_id, author, reason,
                {row.file.key: row.sha256 for row in plan.removed}, now,
                {'file': made.file.key, 'sha256': made.sha256, 'of': source.key,
                 **asdict(blur)}))])
            self._blobs.place(staged, made.file.key)
        return plan

    def _plan(self, connection: Connection, session_id: str, slot: str, camera: str, blur: Blur
              ) -> BlurPlan:
        bodies = [json.loads(entry.body) for entry in entries.of_session(connection, session_id)]
        if not bodies:
            raise DataError(f'session {session_id:.40} is not in the log, which would tell of the '
                            'blurred video: delete its files instead (arena admin erase)')
        every = store.of_session(connection, session_id)
        rows = [row for row in every if not row.erased]
        films = [row.file for row in rows if row.file.slot == slot and row.complete
                 and row.file.path.endswith(FILM)]
        source = next((film for film in reversed(films) if _stem(film.path) == camera), None)
        if source is None:
            raise DataError(f"slot {slot} of session {session_id} has no video '{camera:.40}'; it "
                            f"has {', '.join(_stem(film.path) for film in films) or 'none'}")
        same = json.loads(json.dumps(asdict(blur))).items()
        if any(same <= entry['blurred'].items() for entry in bodies if entry.get(
                'blurred', {}).get('file') == source.key):
            raise DataError(f'{source.key} is blurred just so already')
        numbers, taken = ('', *map(str, range(2, len(every) + 3))), {row.file for row in every}
        target = next(free for n in numbers if (free := FileId(session_id, slot, str(
            PurePosixPath(source.path).with_name(f'{camera}.blurred{n}.mp4')))) not in taken)
        return BlurPlan(source, target, tuple(row for row in rows if _shows(row.file, source)),
                        tuple(film.path for film in films if not _shows(film, source)))

    def step(self) -> None:
        """Delete what an earlier run left behind, and what was kept long enough."""
        with self._database.read() as connection:
            left = store.erased_since(connection, self._clock.now_ns() - DAY_NS)
        for file in left:
            self._delete(file)
        named = [name for name in self._keep_days if name]
        for name, days in self._keep_days.items():
            if not days:
                continue
            with self._database.read() as connection:
                old = store.sessions_with_files(
                    connection, self._clock.now_ns() - days * DAY_NS, AT_ONCE, name, named)
            for session_id in old:
                self.erase(session_id, '', f'files are kept for {days} days', 'retention')

    def _delete(self, file: FileId) -> None:
        self._uploads.forget_part(file)
        self._blobs.remove(file.key)


def _checked(reason: str) -> str:
    reason = ' '.join(reason.split())
    if not 0 < len(reason) <= MAX_REASON:
        raise DataError(f'a reason has 1 to {MAX_REASON} characters; it is public in the log')
    return reason


def _stem(path: str) -> str:
    """Return the camera and eye of a video: 'left' of left.mp4, 'left_right' of its other eye."""
    return PurePosixPath(path).name.split('.')[0]


def _camera(path: str) -> str:
    return _stem(path).removesuffix('_left').removesuffix('_right')


def _shows(file: FileId, film: FileId) -> bool:
    """Tell whether a file may hold pictures of the camera of ``film``, of either eye."""
    same = _camera(file.path) == _camera(film.path)
    if file.slot == '-':
        return same and file.path.lower().endswith(PICTURES)
    return file.slot == film.slot and file.path not in WITHOUT_PICTURES and (
        same or not file.path.endswith(FILM))


def eraser_of(config: ServerConfig, database: Database, clock: Clock) -> FileEraser:
    """Return the eraser of a server's database and store, for a person at its machine."""
    blobs = Blobs(config.blobs_url())
    blobs.open()
    log = TransparencyLog(database, LogKey(config.data / 'log.key'), clock)
    return FileEraser(database, blobs, Uploads(database, blobs, config.data / 'spool', clock), log,
                      clock, {})
