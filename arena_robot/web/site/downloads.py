"""
The results as files: CSV, JSON lines, a feed; the pages about the data, the API, the method.

The server's log is JSON, for `arena results verify` and for whoever watches it.
"""

import dataclasses
import json
import re
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from email.utils import format_datetime
from functools import partial
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse, JSONResponse, Response, StreamingResponse
from fastapi.templating import Jinja2Templates

import arena_robot
from arena_robot.core.clock import Clock, to_iso, to_utc
from arena_robot.core.csv_tables import csv_line
from arena_robot.core.episode import Slot
from arena_robot.core.errors import DataError, NotComputed, RankingError
from arena_robot.core.verdict import FIELDS
from arena_robot.ranking.base import Comparisons
from arena_robot.ranking.methods import METHODS, rank_comparable
from arena_robot.ranking.recommended import RECOMMENDED
from arena_robot.ranking.standings import plain
from arena_robot.records.roboarena_files import SESSIONS_FILE
from arena_robot.server.base import UnknownSession
from arena_robot.server.files import FileId, digest_of
from arena_robot.server.results.standings import Results
from arena_robot.server.store.blobs import Blobs
from arena_robot.server.store.browse import (
    MOST,
    Browse,
    Evaluation,
    Filter,
    RolloutNotes,
    rollout_notes,
)
from arena_robot.server.store.database import Database
from arena_robot.server.store.log import RELEASES, releases
from arena_robot.server.store.log import size as log_size
from arena_robot.server.transparency.keys import LogKey
from arena_robot.server.transparency.log import TransparencyLog, release_entry
from arena_robot.server.transparency.verify import counted_comparisons, task_results
from arena_robot.web.site.history import MethodChanges

EXTRAS = tuple(field for field in FIELDS if field.optional)
# Columns of the table, as `arena rank --sessions` reads them, and what each one holds.
COLUMNS = (
    ('session_uuid', 'the session'),
    ('institution', 'where it was evaluated'),
    ('created', 'when it began, ISO 8601 in UTC'),
    ('valid', '1 if it counts, else 0'),
    ('preference', 'A, B or TIE; empty if there is none'),
    ('policy_a', 'the policy in slot A'),
    ('policy_b', 'the policy in slot B'),
    ('progress_a', 'how far A got, 0 to 1'),
    ('progress_b', 'how far B got, 0 to 1'),
    ('category', 'kind of task, from its words'),
    ('instruction', 'the task as the evaluator typed it'),
    ('feedback_text', 'why one was preferred, as the evaluator typed it'),
    *((field.name, f'{field.label.lower()}; empty if nobody said') for field in EXTRAS),
    ('chosen', '1 if the pair was chosen by earlier verdicts, else 0; empty if not known'),
    ('reruns_a', 'how often A was run again before the run that is compared; empty if not known'),
    ('reruns_b', 'the same for B'),
    ('waited_a', 'share of the time in which the arm waited for A; empty if not known'),
    ('waited_b', 'the same for B'),
    ('robot', 'kind of the robot; empty if not known'),
    ('mark', 'imported, or why it does not count; empty if it counts and passed the relay'),
)
Notes = Callable[[Sequence[str]], Mapping[str, Mapping[str, RolloutNotes]]]
NOTES = tuple(field.name for field in dataclasses.fields(RolloutNotes))
LOG_S = 1.0    # a correction is an entry too, and no verdict
FRESH_S = 60.0    # a server with a verdict every second can answer, and saved heads are older
FEED = 30    # sessions in the feed; readers ask for it every hour or so
NOT_XML = re.compile('[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]')


def every(browse: Browse,
          notes: Notes) -> Iterator[tuple[Evaluation, Mapping[str, RolloutNotes]]]:
    """Yield every evaluation that the public sees and the notes by slot, newest first."""
    before = ''
    while True:
        page = browse.page(Filter(before=before, limit=MOST))
        by_session = notes([e.id for e in page.evaluations])
        yield from ((e, by_session.get(e.id, {})) for e in page.evaluations)
        if not page.next:
            return
        before = page.next


def csv_lines(browse: Browse, notes: Notes) -> Iterator[str]:
    """Yield the table line by line."""
    yield csv_line([name for name, _ in COLUMNS])
    for e, runs in every(browse, notes):
        verdict, rollouts = e.verdict, [runs.get(slot.value) for slot in Slot]
        yield csv_line([e.id, e.institution, to_iso(e.created_ns) if e.created_ns else '',
                     int(e.counts), verdict.preference.value if verdict.preference else '',
                     e.policy_a, e.policy_b, _share(verdict.progress_a),
                     _share(verdict.progress_b), e.category, e.prompt, verdict.explanation,
                     *(field.plain(getattr(verdict, field.name)) for field in EXTRAS),
                     '' if e.chosen is None else int(e.chosen),
                     *('' if run is None else run.reruns for run in rollouts),
                     *(_share(run.waited if run else None) for run in rollouts), e.robot,
                     e.mark])


def json_lines(browse: Browse, notes: Notes) -> Iterator[str]:
    """Yield one JSON object a line, with every field."""
    for e, runs in every(browse, notes):
        yield json.dumps({**e.plain(), **{
            name: {slot: getattr(run, name) for slot, run in runs.items()} or None
            for name in NOTES}}, ensure_ascii=False, default=str) + '\n'


def feed(browse: Browse, site: str) -> str:
    """Return the newest evaluations as RSS 2.0; ``site`` is the address of the site."""
    items = ''.join(
        f'<item><title>{escape(_clean(_title(e)))}</title>'
        f'<link>{escape(f"{site}/evaluations/{e.id}")}</link>'
        f'<guid isPermaLink="false">{escape(e.id)}</guid>'
        f'<pubDate>{format_datetime(to_utc(e.created_ns))}</pubDate>'
        f'<description>{escape(_clean(e.verdict.explanation))}</description></item>\n'
        for e in browse.page(Filter(limit=FEED)).evaluations)
    return ('<?xml version="1.0" encoding="utf-8"?>\n<rss version="2.0"><channel>'
            f'<title>arena: evaluations</title><link>{escape(site)}/</link>'
            '<description>Double-blind comparisons of robot policies</description>\n'
            f'{items}</channel></rss>\n')


def add_downloads(app: FastAPI, pages: Jinja2Templates, browse: Browse, notes: Notes,
                  log: TransparencyLog) -> None:
    """Add files, feed, and the page about the data to the site."""
    @app.get(f'/data/{SESSIONS_FILE}')
    def table() -> Response:
        """Return all evaluations as CSV."""
        return _download(csv_lines(browse, notes), 'text/csv; charset=utf-8', SESSIONS_FILE)

    @app.get('/data/evaluations.jsonl')
    def lines() -> Response:
        """Return all evaluations as JSON, one a line."""
        return _download(json_lines(browse, notes), 'application/x-ndjson', 'evaluations.jsonl')

    @app.get('/feed.xml')
    def rss(request: Request) -> Response:
        """Return the newest evaluations as RSS 2.0."""
        site = str(request.base_url).rstrip('/')
        return Response(feed(browse, site), media_type='application/rss+xml')

    @app.get('/data', response_class=HTMLResponse, include_in_schema=False)
    def data(request: Request) -> Response:
        return pages.TemplateResponse(request, 'data.html', {
            'columns': COLUMNS, 'releases': log.releases()[::-1]})


RELEASE_NAME = re.compile(r'\d{4}-\d{2}[a-z]?')    # a month; a second release in it ends in b
DOI = re.compile(r'10\.\d{4,9}/\S+')
RELEASE_FILE = 'release.json'
TRIES = 5    # while sessions are accepted: each takes as long as reading the log


class ReleaseFreezer:
    """Freezes what the log says on a day into files that never change."""

    def __init__(self, database: Database, blobs: Blobs, data: Path, clock: Clock) -> None:
        self._database, self._blobs, self._data, self._clock = database, blobs, data, clock
        self._log = TransparencyLog(database, LogKey(data / 'log.key'), clock)

    def freeze(self, name: str, doi: str, author: str) -> dict[str, Any]:
        """
        Store the files of a release, enter their hashes into the log, and return the entry.

        DataError for a name that exists or is no month, and for text that is no DOI.
        """
        if not RELEASE_NAME.fullmatch(name) or (doi and not DOI.fullmatch(doi)):
            raise DataError(f"a release is named by its month, such as 2026-11, and a DOI begins "
                            f"with 10. and has a slash; found '{name:.40}', '{doi:.80}'")
        spool = self._data / 'spool'
        spool.mkdir(exist_ok=True, mode=0o700)
        for _ in range(TRIES):
            with tempfile.TemporaryDirectory(dir=spool) as folder:
                files, size = self._write(Path(folder), name, doi)
                entry = self._enter(name, doi, author, files, size)
                if entry is not None:
                    return entry
        raise DataError('sessions were accepted all the while; try again when it is quieter')

    def _write(self, folder: Path, name: str, doi: str) -> tuple[list[Path], int]:
        methods = MethodChanges(self._data, self._clock)
        methods.open()
        bundle = self._log.bundle()
        release = {'name': name, 'doi': doi, 'version': arena_robot.__version__,
                   'methods': [dataclasses.asdict(row) for row in methods.methods],
                   'method': METHODS.find(RECOMMENDED).description}
        values = {**bundle, 'standings': standings_of(bundle), 'release': release,
                  'tasks': task_results(counted_comparisons(bundle))}
        main, table = folder / RELEASE_FILE, folder / SESSIONS_FILE
        main.write_text(_json(values), encoding='utf-8')
        with table.open('w', encoding='utf-8', newline='') as stream:
            stream.writelines(csv_lines(Browse(self._database),
                                        partial(rollout_notes, self._database)))
        return [main, table], int(bundle['head']['size'])

    def _enter(self, name: str, doi: str, author: str, files: Sequence[Path], size: int,
               ) -> dict[str, Any] | None:
        """Return the new entry; None when the log grew since the files were written."""
        sums = {path.name: {'sha256': digest_of(path), 'size': path.stat().st_size}
                for path in files}
        with self._database.write() as connection:
            self._log.lock(connection)
            if any(entry['name'] == name for entry in releases(connection)):
                raise DataError(f'release {name} exists, and never changes; choose another name')
            if log_size(connection) != size:
                return None
            for path in files:
                self._blobs.put(path, FileId(RELEASES, name, path.name).key)
            body = release_entry(name, doi, author, size, sums, self._clock.now_ns())
            self._log.append(connection, [(RELEASES, body)])
        return dict(json.loads(body))


def add_releases(app: FastAPI, pages: Jinja2Templates, log: TransparencyLog,
                 blobs: Blobs) -> None:
    """Add the pages and files of frozen releases."""
    def entry_of(name: str) -> dict[str, Any]:
        for entry in log.releases():
            if entry['name'] == name:
                return entry
        raise UnknownSession(f'there is no release {name:.40}; /data lists them')

    @app.get('/api/releases')
    def listed() -> list[dict[str, Any]]:
        """Return the frozen releases, oldest first: DOI, entries of the log, hashes of files."""
        return log.releases()

    @app.get('/data/{name}', response_class=HTMLResponse, include_in_schema=False)
    def page(request: Request, name: str) -> Response:
        return pages.TemplateResponse(request, 'data.html', {
            'release': entry_of(name), 'site': str(request.base_url).rstrip('/')})

    @app.get('/data/{name}/{file}', include_in_schema=False)
    def frozen(name: str, file: str) -> Response:
        if file not in entry_of(name)['files']:
            raise UnknownSession(f'release {name:.40} has no file {file:.40}')
        kind = 'application/json' if file == RELEASE_FILE else 'text/csv; charset=utf-8'
        return _download(blobs.read(FileId(RELEASES, name, file).key), kind, f'{name}-{file}')


def _json(values: Mapping[str, Any]) -> str:
    return json.dumps(values, ensure_ascii=False, allow_nan=False, separators=(',', ':'))


def _download(lines: Iterator[str] | Iterator[bytes], media_type: str, name: str) -> Response:
    return StreamingResponse(lines, media_type=media_type, headers={
        'Content-Disposition': f'attachment; filename="{name}"'})


def _share(value: float | None) -> str:
    return '' if value is None else f'{value:g}'


def _title(e: Evaluation) -> str:
    titles = {'A': f'{e.policy_a} preferred to {e.policy_b}',
              'B': f'{e.policy_b} preferred to {e.policy_a}'}
    preference = e.verdict.preference
    result = titles.get(preference.value if preference else '', f'{e.policy_a} and {e.policy_b}')
    return f'{e.prompt or "(no instruction kept)"}: {result}'


def _clean(text: str) -> str:
    """Return the text without characters that XML does not allow."""
    return NOT_XML.sub('', text)


@dataclass(frozen=True)
class ApiCall:
    """An address that programs read: its parameters, and in a sentence what it answers."""

    path: str
    parameters: tuple[str, ...]
    words: str


def api_calls(description: dict[str, Any]) -> list[ApiCall]:
    """Return the addresses of an OpenAPI description, by name."""
    calls = []
    for path, kinds in sorted(description['paths'].items()):
        call = kinds['get']
        names = tuple(p['name'] for p in call.get('parameters', ()) if p['in'] == 'query')
        words = call.get('description', call['summary']).strip()
        calls.append(ApiCall(path, names, words.removeprefix('Return ').rstrip('.')))
    return calls


def add_api_page(app: FastAPI, pages: Jinja2Templates, methods: MethodChanges) -> None:
    """Add the pages to the site."""
    @app.get('/api', response_class=HTMLResponse, include_in_schema=False)
    def api(request: Request) -> Response:
        return pages.TemplateResponse(request, 'api.html', {'calls': api_calls(app.openapi())})

    @app.get('/about', response_class=HTMLResponse, include_in_schema=False)
    def about(request: Request) -> Response:
        return pages.TemplateResponse(request, 'about.html', {
            'methods': methods.methods, 'description': METHODS.find(RECOMMENDED).description,
            'site': str(request.base_url).rstrip('/')})


class LogBundle:
    """
    The log with its standings as JSON, made once for each size of the log.

    The standings are those of the bundle's own entries, so both are of one moment.
    """

    def __init__(self, log: TransparencyLog) -> None:
        self._log = log
        self._lock = threading.Lock()
        self._size, self._made_s = -1, 0.0
        self._body = b''

    def is_fresh(self) -> bool:
        """Tell whether the last bundle has every entry, or all but those of the last minute."""
        return time.monotonic() - self._made_s < FRESH_S or self._log.size() == self._size

    def body(self) -> bytes:
        """Return the bytes of the JSON object."""
        with self._lock:
            if self._log.size() != self._size:
                began_s = time.monotonic()
                values = self._log.bundle()
                values['standings'] = standings_of(values)
                self._body = _json(values).encode()
                self._size, self._made_s = values['head']['size'], began_s
            return self._body


def standings_of(bundle: dict[str, Any]) -> dict[str, Any]:
    """Return scores and counts, best first; {} when nothing can be compared."""
    try:
        standings, _ = rank_comparable(Comparisons.from_words(counted_comparisons(bundle)),
                                   RECOMMENDED)
    except RankingError:
        return {}
    rows = [{'policy': standings.items[k], 'score': standings.scores[k],
             'n': int(standings.counts[k])} for k in standings.order]
    return {'method': standings.method, 'standings': plain(rows)}


def add_log(app: FastAPI, log: TransparencyLog, results: Results) -> None:
    """Add the pages below ``/api/log``; the whole log is put together in the background."""
    cached = LogBundle(log)

    @app.get('/api/log')
    def bundle() -> Response:
        """Return the whole log with the standings of its entries, for `arena results verify`."""
        body = results.others.get('log', cached.body, LOG_S, slow=True, late=True)
        if not cached.is_fresh():
            raise NotComputed('the log is being put together anew; ask for it again')
        return Response(body, media_type='application/json')

    @app.get('/api/log/head')
    def head() -> Response:
        """Return size and root of the log, signed."""
        return JSONResponse(log.head().plain())

    @app.get('/api/log/entries')
    def entries(start: int = 0) -> Response:
        """Return a batch of entries of the log."""
        return JSONResponse({'start': start, 'entries': log.entries(start)})

    @app.get('/api/log/inclusion')
    def inclusion(number: int, size: int) -> Response:
        """Return the proof that an entry is in the log of a size."""
        return JSONResponse({'path': log.inclusion(number, size)})

    @app.get('/api/log/consistency')
    def consistency(old: int, new: int) -> Response:
        """Return the proof that the log only grew."""
        return JSONResponse({'path': log.consistency(old, new)})
