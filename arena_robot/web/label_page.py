"""
The page on which a lab labels its own episodes, with a small JSON interface.

It shows an episode's videos in step, and writes what a person says of it at once into
``labels.csv`` of the folder. Nothing else of the folder is shown: no policy, no verdict.
"""

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import FileResponse, JSONResponse
from fastapi.staticfiles import StaticFiles
from starlette.middleware.trustedhost import TrustedHostMiddleware

from arena_robot.core.clock import Clock, to_iso
from arena_robot.core.errors import ArenaError, Conflict, DataError
from arena_robot.core.observation import view
from arena_robot.core.openable import Openable
from arena_robot.recording.episode.derive import PlayableEpisode, playable, video_name
from arena_robot.records.clip import MOST_STAGES, EpisodeLabel, read_labels, write_labels
from arena_robot.reports.audit_agreement import task_words
from arena_robot.web import console
from arena_robot.web.console.guard import ConsoleGuard

PAGES = Path(__file__).parent / 'labelling'
CONSOLE_PAGES = Path(str(console.__file__)).parent / 'static'
HOUR_S = 3600.0
NEXT_READY = 2    # episodes whose videos are written ahead while a person looks at this one


def episode_folders(folder: Path) -> list[Path]:
    """Return the folders with a bag below ``folder``, sorted; DataError when there is none."""
    found = sorted({path.parent for path in folder.rglob('*.mcap')})
    if not found:
        raise DataError(f'{folder} has no episodes: no folder in it has a .mcap file')
    return found


class LabelDesk(Openable):
    """
    The labels of a folder's episodes, one of which is open; safe to use from several threads.

    An episode that was labelled before is not shown again until the others are.
    """

    def __init__(self, folder: Path, clock: Clock) -> None:
        self.folder, self._clock = folder, clock
        self._files = [path.relative_to(folder).as_posix() for path in episode_folders(folder)]
        self._labels = read_labels(folder)
        self._lock = threading.RLock()
        self._worker = ThreadPoolExecutor(1, 'videos')
        self._ready: dict[str, Future[PlayableEpisode]] = {}
        self._begun_ns, self._finished = clock.steady_ns(), set[str]()
        self._at = 0

    def open(self) -> None:
        """Begin at the first episode without a label."""
        self._at = self._open_after(-1)

    def close(self) -> None:
        """Stop writing videos; can be called twice."""
        self._worker.shutdown(wait=True, cancel_futures=True)

    def shown(self) -> dict[str, Any]:
        """Return what the page shows."""
        with self._lock:
            ready = self._ready_at(self._at)
            state: dict[str, Any] = {
                'file': self._files[self._at], 'number': self._at + 1, 'total': len(self._files),
                'labelled': len(self._done()), 'per_hour': self._per_hour(),
                'ready': False}
            if not ready.done():
                return state
            try:
                episode = ready.result()
            except (ArenaError, OSError) as error:
                return {**state, 'unreadable': str(error)}
            row = self._label(episode)
            return {**state, 'ready': True, 'duration_s': episode.duration_s,
                    'views': [{'role': role, 'src': f'/video/{self._at}/{role}', 'ahead_s': s}
                              for role, s in episode.ahead_s.items()],
                    'instruction': row.instruction, 'label': row.label, 'scene': row.scene,
                    'task': row.task, 'stages': row.stages,
                    'marks': [[mark.time_s, mark.stage] for mark in row.marks]}

    def video(self, number: int, role: str) -> Path:
        """Return the video of a view. DataError where there is none."""
        if not 0 <= number < len(self._files) or role not in self._ready_at(
                number).result().ahead_s:
            raise DataError(f'there is no video {role} of the episode {number}')
        return self.folder / self._files[number] / video_name(view(role))

    def press(self, key: str, words: Mapping[str, Any]) -> None:
        """Do what a key of the page says. Raises Conflict where it is not possible now."""
        with self._lock:
            if words.get('file') != self._files[self._at]:
                raise Conflict('another page went on to another episode; look again')
            if key not in KEYS:
                raise Conflict(f"there is no key '{key}'; known: {', '.join(KEYS)}")
            KEYS[key](self, words)

    # What the keys do. The lock is held.

    def _next(self, words: Mapping[str, Any]) -> None:
        self._at = self._open_after(self._at)

    def _previous(self, words: Mapping[str, Any]) -> None:
        self._at = (self._at - 1) % len(self._files)

    def _mark(self, words: Mapping[str, Any]) -> None:
        row = self._open_label()
        if not row.stages:
            raise Conflict('name the stages of the task first')
        time_s, stage = round(float(words['time_s']), 2), words.get('stage')
        before = [mark.stage for mark in row.marks if mark.time_s < time_s]
        if stage is None:
            stage = min((before or [0])[-1] + 1, len(row.stages))
        self._keep(row.marked(time_s, int(stage)))

    def _judge(self, words: Mapping[str, Any]) -> None:
        row = self._open_label()
        self._keep(row.judged(str(words.get('label', ''))))
        self._finished.add(row.file)

    def _undo(self, words: Mapping[str, Any]) -> None:
        row = self._open_label()
        self._keep(row.undone())
        self._finished.discard(row.file)

    def _name_stages(self, words: Mapping[str, Any]) -> None:
        """Name the stages of the task: of this episode and of all others of the same task."""
        stages = tuple(filter(None, (' '.join(name.replace(';', ' ').split())
                                     for name in str(words.get('text', '')).split(','))))
        if not 1 <= len(stages) <= MOST_STAGES:
            raise Conflict(f'a task has 1 to {MOST_STAGES} stages, separated by commas; '
                           f'found {len(stages)}')
        open_row = self._open_label()
        rows = [row for row in {**self._labels, open_row.file: open_row}.values()
                if row.task == open_row.task]
        if any(row.marks and len(row.stages) != len(stages) for row in rows):
            raise Conflict('episodes of this task have marks already: its stages can get other '
                           'names, but not another number')
        self._keep(*(replace(row, stages=stages) for row in rows))

    def _name_task(self, words: Mapping[str, Any]) -> None:
        """Say which task the episode's is; it gets the stages of that task."""
        row = self._open_label()
        if row.marks:
            raise Conflict('the episode has marks of its task already; take them back first: U')
        task = ' '.join(str(words.get('text', '')).split())
        self._keep(replace(row, task=task, stages=self._stages_of(task)))

    def _name_scene(self, words: Mapping[str, Any]) -> None:
        """Name the scene: of this episode and of those beside it, which had the same scene."""
        row = self._open_label()
        beside = [other for other in self._labels.values()
                  if Path(other.file).parent == Path(row.file).parent != Path('.')]
        scene = ' '.join(str(words.get('text', '')).split())
        self._keep(*(replace(other, scene=scene) for other in (*beside, row)))

    # What the others are made of.

    def _keep(self, *rows: EpisodeLabel) -> None:
        labels = {**self._labels, **{row.file: row for row in rows}}
        write_labels(self.folder, labels)
        self._labels = labels

    def _open_label(self) -> EpisodeLabel:
        ready = self._ready_at(self._at)
        if not ready.done():
            raise Conflict('the videos of this episode are still being written')
        return self._label(ready.result())

    def _label(self, episode: PlayableEpisode) -> EpisodeLabel:
        """Return the label so far; the first time with the stages of the task and a scene."""
        file = self._files[self._at]
        row = self._labels.get(file) or EpisodeLabel(file, str(episode.info.get('prompt', '')))
        beside = next((r.scene for r in self._labels.values() if r.scene and Path(r.file).parent
                       == Path(file).parent != Path('.')), _scene_of(episode.info))
        task = row.task or task_words(row.instruction)
        return replace(row, task=task, stages=row.stages or self._stages_of(task),
                       scene=row.scene or beside)

    def _stages_of(self, task: str) -> tuple[str, ...]:
        return next((row.stages for row in self._labels.values()
                     if row.stages and row.task == task), ())

    def _ready_at(self, number: int) -> 'Future[PlayableEpisode]':
        """Return the episode's videos in the making, and have the next ones made too."""
        with self._lock:
            for k in range(number, min(number + 1 + NEXT_READY, len(self._files))):
                file = self._files[k]
                if file not in self._ready:
                    self._ready[file] = self._worker.submit(playable, self.folder / file)
            return self._ready[self._files[number]]

    def _open_after(self, number: int) -> int:
        """Return the next episode without a label; the next one when all have one."""
        count = len(self._files)
        order = [(number + k) % count for k in range(1, count + 1)]
        done = self._done()
        return next((k for k in order if self._files[k] not in done), order[0])

    def _done(self) -> set[str]:
        return {file for file in self._files
                if file in self._labels and self._labels[file].label}

    def _per_hour(self) -> float | None:
        """Return how many episodes an hour were finished here, None before the first."""
        spent_s = 1e-9 * (self._clock.steady_ns() - self._begun_ns)
        return len(self._finished) * HOUR_S / spent_s if self._finished and spent_s else None


def _scene_of(info: Mapping[str, Any]) -> str:
    """Return station and day of a recording: what a scene is called until a person names it."""
    started_ns = int(info.get('started_ns') or 0)
    day = to_iso(started_ns).split('T')[0] if started_ns else ''
    return ' '.join(filter(None, (str(info.get('station', '')), day)))


KEYS: dict[str, Callable[[LabelDesk, Mapping[str, Any]], None]] = {
    'next': LabelDesk._next, 'previous': LabelDesk._previous, 'mark': LabelDesk._mark,
    'judge': LabelDesk._judge, 'undo': LabelDesk._undo, 'task': LabelDesk._name_task,
    'stages': LabelDesk._name_stages, 'scene': LabelDesk._name_scene}


def create_page(desk: LabelDesk, token: str, hosts: tuple[str, ...]) -> FastAPI:
    """Return the page's application."""
    app = FastAPI(title='arena judge label', docs_url=None, redoc_url=None, openapi_url=None)
    app.add_middleware(ConsoleGuard, token=token)
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=list(hosts))
    app.exception_handler(ArenaError)(_refused)

    @app.get('/')
    def page() -> FileResponse:
        return FileResponse(PAGES / 'label.html', headers={'Cache-Control': 'no-store'})

    @app.get('/api/state')
    def state() -> dict[str, Any]:
        return desk.shown()

    @app.get('/video/{number}/{role}')
    def video(number: int, role: str) -> FileResponse:
        return FileResponse(desk.video(number, role), media_type='video/mp4')

    @app.post('/api/press')
    def press(words: dict[str, Any]) -> dict[str, Any]:
        desk.press(str(words.get('key', '')), words)
        return desk.shown()

    app.mount('/static', StaticFiles(directory=CONSOLE_PAGES), name='static')
    app.mount('/label', StaticFiles(directory=PAGES), name='label')
    return app


async def _refused(request: Request, error: Exception) -> JSONResponse:
    return JSONResponse({'detail': str(error)}, 409 if isinstance(error, Conflict) else 400)
