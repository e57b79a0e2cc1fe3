"""
The page of one session: videos and curves in step, numbers, commitment and reveal.

Videos are sent with byte ranges, for players that jump.
"""

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import FileResponse, HTMLResponse, Response, StreamingResponse
from fastapi.templating import Jinja2Templates

from arena_robot.audit.aggregate import Marks
from arena_robot.audit.opd import METRICS
from arena_robot.core.episode import CONTROL_RATE_HZ, Slot
from arena_robot.core.observation import STILL_RAD_S
from arena_robot.ranking.standings import plain
from arena_robot.records.episode_file import Spread
from arena_robot.records.session_file import LOCAL_STUDY
from arena_robot.server.base import UnknownSession
from arena_robot.server.store.blobs import Blobs
from arena_robot.server.store.browse import Browse, StoredRollout
from arena_robot.server.transparency.log import TransparencyLog
from arena_robot.web.site.recorded import (
    AuditCurves,
    Curve,
    RecordedFiles,
    RecordedRollout,
    RecordedSession,
)
from arena_robot.web.site.view_models import ENDS, Gathered

WIDTH, HEIGHT = 640, 96
LEFT, RIGHT, TOP, BOTTOM = 58, 8, 16, 16    # px around a panel's plot
BY_JUDGE = 'Progress, by the judge '
NOT_READ = RecordedSession({slot.value: RecordedRollout() for slot in Slot}, {})
TIMES = {0: 'never', 1: 'once', 2: 'twice'}
_RANGE = re.compile(r'bytes=(\d+)-(\d*)')


@dataclass(frozen=True)
class Panel:
    """
    One plot of the curves of A and B: ``lines`` are (slot, points of an SVG polyline).

    ``dots`` are (slot, x, y, words), ``bars`` are (slot, kind, x, width, y, words).
    """

    title: str
    top: str
    bottom: str
    lines: tuple[tuple[str, str], ...]
    dots: tuple[tuple[str, float, float, str], ...] = ()
    bars: tuple[tuple[str, str, float, float, float, str], ...] = ()


@dataclass(frozen=True)
class CurvePlot:
    """The panels below the videos, with one time axis of ``seconds``."""

    panels: tuple[Panel, ...]
    seconds: float
    ticks: tuple[tuple[float, int], ...]

    @property
    def height(self) -> int:
        """Return the height of the whole picture."""
        return HEIGHT * len(self.panels) + BOTTOM


def curve_plot(recorded: RecordedSession) -> CurvePlot:
    """Return the plots that the recordings allow; without panels there is nothing to show."""
    seconds = max(recorded.seconds, 1e-3)
    fastest = max((value for rollout in recorded.rollouts.values() for _, value in rollout.speed),
                  default=0.0) or 1.0
    panels = []
    for title, curves, most, words in (
            ('Progress, by the simulator', _curves(recorded, 'progress'), 1.0, '100'),
            *_judges(recorded), ('Gripper', _curves(recorded, 'gripper'), 1.0, 'closed'),
            ('Fastest joint', _curves(recorded, 'speed'), fastest, f'{fastest:.1f} rad/s')):
        lines = tuple((slot, _points(curve, seconds, most))
                      for slot, curve in curves.items() if curve)
        if lines:
            judge = title.removeprefix(BY_JUDGE) if title.startswith(BY_JUDGE) else ''
            panels.append(Panel(title, words, 'open' if title == 'Gripper' else '0', lines,
                                _dots(recorded, judge, seconds), _bars(recorded, judge, seconds)))
    step = next((s for s in (1, 2, 5, 10, 20, 60, 120) if seconds / s <= 10), 600)
    ticks = tuple((_x(t, seconds), t) for t in range(0, int(seconds) + 1, step))
    return CurvePlot(tuple(panels), seconds, ticks)


def has_progress(recorded: RecordedSession) -> bool:
    """Tell whether a curve says how far A or B got over time."""
    return any(rollout.progress or rollout.judges for rollout in recorded.rollouts.values())


def _curves(recorded: RecordedSession, name: str) -> dict[str, Curve]:
    return {slot: getattr(rollout, name) for slot, rollout in recorded.rollouts.items()}


def _judges(recorded: RecordedSession) -> list[tuple[str, dict[str, Curve], float, str]]:
    names = dict.fromkeys(n for rollout in recorded.rollouts.values() for n in rollout.judges)
    return [(f'{BY_JUDGE}{name}', {
        slot: rollout.judges.get(name, ()) for slot, rollout in recorded.rollouts.items()},
        1.0, '100')
        for name in names]


def _marks(recorded: RecordedSession, judge: str) -> list[tuple[str, Marks]]:
    return [(slot, rollout.audits[judge].marks) for slot, rollout in recorded.rollouts.items()
            if judge in rollout.audits]


def _dots(recorded: RecordedSession, judge: str, seconds: float
          ) -> tuple[tuple[str, float, float, str], ...]:
    """Return where each quarter was reached first."""
    return tuple((slot, _x(t, seconds), _y(quarter),
                  f'{slot} first reached {quarter:.0%} at {t:.1f} s')
                 for slot, marks in _marks(recorded, judge) for t, quarter in marks.milestones)


def _bars(recorded: RecordedSession, judge: str, seconds: float
          ) -> tuple[tuple[str, str, float, float, float, str], ...]:
    """Return where a slot was below its best, and where it did not change; A over B."""
    return tuple(
        (slot, kind, _x(a, seconds), max(_x(b, seconds) - _x(a, seconds), 1.0),
         HEIGHT - 7.0 + 3.0 * (slot == 'B'), f'{slot} {words} from {a:.1f} to {b:.1f} s')
        for slot, marks in _marks(recorded, judge)
        for kind, words, spans in (('fall', 'fell back', marks.falls),
                                   ('still', 'did not change', marks.still))
        for a, b in spans)


def _y(share: float) -> float:
    return TOP + (HEIGHT - TOP - 8) * (1 - share)


def _x(t: float, seconds: float) -> float:
    return LEFT + (WIDTH - LEFT - RIGHT) * t / seconds


def _points(curve: Curve, seconds: float, most: float) -> str:
    return ' '.join(f'{_x(t, seconds):.1f},{_y(value / most):.1f}'
                    for t, value in curve)


@dataclass(frozen=True)
class RolloutMeasure:
    """A number of both rollouts: its name, what it is in a sentence, and the words of A and B."""

    name: str
    about: str
    values: tuple[str, str]


def measures(rollouts: Mapping[str, StoredRollout], recorded: RecordedSession,
             relayed: bool) -> list[RolloutMeasure]:
    """Return what is known of at least one of the rollouts; ``relayed``: by this server."""
    files = recorded.rollouts
    ends = {slot: ENDS.get(run.end_reason, run.end_reason.replace('_', ' '))
            for slot, run in rollouts.items()}
    reruns = {slot: TIMES.get(run.reruns, f'{run.reruns} times')
              for slot, run in rollouts.items() if relayed}
    waited = {slot: f'{run.waited:.0%} of the time'.replace('%', ' %')
              for slot, run in rollouts.items() if run.waited is not None}
    still = {slot: f'{100 * file.still:.0f} % of the time, at most {file.longest_still_s:.1f} s '
                   'on end' for slot, file in files.items() if file.still is not None}
    numbers = {slot: file.numbers for slot, file in files.items() if file.numbers}
    rates = {slot: f' at {n.control.mean_hz:.1f} Hz' for slot, n in numbers.items()
             if n.control.mean_hz}
    rows = (
        ('Ended', 'Why the rollout was over.', ends),
        ('Steps', f'Actions, {CONTROL_RATE_HZ:g} a second.',
         {slot: f'{run.steps}{rates.get(slot, "")}' for slot, run in rollouts.items()}),
        ('Run again', 'How often the station repeated the slot; the last run is shown.', reruns),
        ('Waited for the policy', 'The arm held still because no answer had come.', waited),
        ('Stood still', f'No joint was faster than {STILL_RAD_S:g} rad/s.', still),
        ('Wait for an inference', 'From the question to the policy’s answer.',
         _spreads({slot: n.inference.wait_s for slot, n in numbers.items()})),
        ('Age of the observation', 'How old the pictures were that an action was made from.',
         _spreads({slot: n.observation_age_s for slot, n in numbers.items()})),
        ('Late steps', 'Steps that began a period or more too late.',
         {slot: str(n.control.missed_ticks) for slot, n in numbers.items()}),
        ('Limited by safety', 'Steps whose action the safety layer changed.',
         {slot: f'{n.clamps.steps} steps' for slot, n in numbers.items()}))
    return [RolloutMeasure(name, about, (values.get('A', '–'), values.get('B', '–')))
            for name, about, values in rows if values]


def _spreads(values: Mapping[str, Spread | None]) -> dict[str, str]:
    return {slot: f'{1e3 * value.p50:.0f} ms, 99th percentile {1e3 * value.p99:.0f} ms'
            for slot, value in values.items() if value}


def add_session_page(app: FastAPI, pages: Jinja2Templates, browse: Browse, blobs: Blobs,
                     audits: AuditCurves, log: TransparencyLog) -> None:
    """Add the page, its curves as a picture and as JSON, and its videos."""
    files = RecordedFiles(blobs, audits)
    pages.env.globals['panel'] = {'width': WIDTH, 'height': HEIGHT, 'left': LEFT, 'top': TOP,
                                  'right': WIDTH - RIGHT, 'bottom': HEIGHT - 8}

    def shown(session_id: str) -> dict[str, Any]:
        return _shown(browse, files, session_id)

    @app.get('/evaluations/{session_id}', response_class=HTMLResponse, include_in_schema=False)
    def evaluation(request: Request, session_id: str) -> Response:
        return pages.TemplateResponse(request, 'evaluation.html', {
            **shown(session_id), 'erasures': log.erasures(session_id)})

    @app.get('/plots/evaluations/{session_id}.svg')
    def picture(request: Request, session_id: str) -> Response:
        """Return the curves of a session as a picture."""
        values = shown(session_id)
        if not values['plot'].panels:
            raise UnknownSession('no curves were uploaded with this session')
        return pages.TemplateResponse(request, 'curves.svg', values,
                                      media_type='image/svg+xml')

    @app.get('/api/evaluations/{session_id}/curves')
    def curves(session_id: str) -> dict[str, Any]:
        """Return what was recorded: gripper, joint speed, progress, latencies, scene matches."""
        browse.evaluation(session_id)
        recorded = files.session(session_id, browse.videos(session_id))
        values: dict[str, Any] = plain(asdict(recorded))
        return values

    _add_videos(app, browse, blobs)


def _shown(browse: Browse, files: RecordedFiles, session_id: str) -> dict[str, Any]:
    evaluation, rollouts = browse.evaluation(session_id)
    videos = browse.videos(session_id)
    later = Gathered()
    recorded = later(lambda: files.session(session_id, videos)) or NOT_READ
    return {'later': later, 'e': evaluation, 'rollouts': {r.slot: r for r in rollouts if r.slot},
            'others': [r for r in rollouts if not r.slot], 'videos': videos,
            'has_both': {*videos} == {*Slot}, 'recorded': recorded, 'plot': curve_plot(recorded),
            'has_progress': has_progress(recorded), 'audit_metrics': METRICS,
            'measures': measures({r.slot: r for r in rollouts if r.slot}, recorded,
                                 evaluation.mark not in ('imported', LOCAL_STUDY)),
            'audits': [(judge, slot, note) for slot, rollout in recorded.rollouts.items()
                       for judge, note in rollout.audits.items()],
            'refused': sorted({(judge, metric, why) for rollout in recorded.rollouts.values()
                               for judge, note in rollout.audits.items()
                               for metric, why in note.refused.items()})}


def _add_videos(app: FastAPI, browse: Browse, blobs: Blobs) -> None:
    @app.get('/files/{session_id}/{slot}/{path:path}', include_in_schema=False)
    def file(request: Request, session_id: str, slot: Slot, path: str) -> Response:
        if path not in browse.videos(session_id).get(slot.value, []):
            raise UnknownSession('there is no such video')
        browse.evaluation(session_id)
        return file_response(request, blobs, f'{session_id}/{slot.value}/{path}', 'video/mp4')


def file_response(request: Request, blobs: Blobs, key: str, media_type: str) -> Response:
    """Return the file of ``key``, or the requested range of it."""
    local = blobs.local_path(key)
    if local is not None and local.exists():
        return FileResponse(local, media_type=media_type)
    size = blobs.size(key)
    start, end = _asked(request.headers.get('range', ''), size)
    if start >= size > 0:
        return Response(status_code=416, headers={'Content-Range': f'bytes */{size}'})
    headers = {'Accept-Ranges': 'bytes', 'Content-Length': str(end - start)}
    part = (start, end) != (0, size)
    if part:
        headers['Content-Range'] = f'bytes {start}-{end - 1}/{size}'
    return StreamingResponse(blobs.read(key, start, end), 206 if part else 200, headers,
                             media_type)


def _asked(header: str, size: int) -> tuple[int, int]:
    match = _RANGE.fullmatch(header.strip())
    if not match:
        return 0, size
    start = int(match[1])
    end = min(int(match[2]) + 1, size) if match[2] else size
    return start, max(start, end)
