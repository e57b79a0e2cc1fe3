"""
Evaluator console: web app for a :class:`arena_robot.session.evaluator.desk.Desk`.

Serves three static files and a small JSON interface. Watching needs no control; commands need
control, which one browser has at a time. STOP needs no control (see :mod:`.stop_line`). The arm is
stopped when the page in control is closed or cannot be reached while the arm moves.
"""

import dataclasses
import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from pathlib import Path
from types import MappingProxyType
from typing import Any

from fastapi import FastAPI, HTTPException, Query, Request, Response
from fastapi.responses import FileResponse, JSONResponse
from fastapi.staticfiles import StaticFiles
from starlette.middleware.trustedhost import TrustedHostMiddleware

from arena_robot.core.episode import Slot
from arena_robot.core.errors import ArenaError, Conflict, DataError
from arena_robot.core.tuning import switch_threads_soon
from arena_robot.core.verdict import (
    FIELDS,
    Asked,
    Kind,
    Verdict,
    VerdictField,
    asked_at,
    to_plain,
)
from arena_robot.session.evaluator.checks import (
    CLEAR,
    EXAMPLES,
    Control,
    instruction_problem,
    is_repeat,
)
from arena_robot.session.evaluator.desk import (
    ENDS,
    NEEDS,
    REPAIRS,
    RUBRIC,
    Button,
    Desk,
    DeskState,
)
from arena_robot.session.loop.match import AMBER_FROM, GREEN_FROM
from arena_robot.session.protocol.states import State
from arena_robot.web.console.guard import ConsoleGuard
from arena_robot.web.console.stop_line import add_stop
from arena_robot.web.page_server import LOCAL, PageServer

log = logging.getLogger(__name__)

PAGES = Path(__file__).parent / 'static'
SEAT = 'X-Seat'
NAME = 'web page'
LONGEST_WAIT_S = 15.0    # of a page for the next state; proxies end requests that take longer
ATTENDED_S = 5.0         # a page that is open asks for the state more often


class Console:
    """Shared state of the routes: the desk, and the browser that has control."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.seats = Control()
        self._seen_s = 0.0

    def shown(self, request: Request) -> dict[str, Any]:
        """Return the state for the page of the calling browser."""
        state = self.desk.state()
        run = self.desk.running()
        return {**plain(state), 'ready': state.ready, 'running': plain(run) if run else None,
                'seat': self.seats.holder, 'mine': state.control == NAME,
                'seated': self.holds(request)}

    def attended(self) -> bool:
        """Return whether the page in control made a request in the last seconds."""
        return time.monotonic() - self._seen_s < ATTENDED_S

    def holds(self, request: Request) -> bool:
        """Return whether a browser has control, and store that it is active."""
        seated = self.seats.holds(request.headers.get(SEAT, ''))
        if seated:
            self._seen_s = time.monotonic()
        return seated

    def sit(self, who: str, take_over: bool) -> str:
        """Give control of the session to a browser."""
        if self.desk.state().control not in ('', NAME) and not take_over:
            raise Conflict(f"'{self.desk.state().control}' controls this session; watch, or "
                           'take over')
        seat = self.seats.take(who, take_over)
        self.desk.take(NAME, True)
        self._seen_s = time.monotonic()
        return seat

    def command(self, request: Request) -> Desk:
        """Return the desk to the browser in control. Raises Conflict."""
        seat = request.headers.get(SEAT, '')
        if not self.seats.holder:
            raise Conflict('take control first')
        self.seats.check(seat)
        self._seen_s = time.monotonic()
        return self.desk


def create_app(desk: Desk, token: str = '', hosts: tuple[str, ...] = LOCAL,
               audits: Callable[[], Sequence[Mapping[str, Any]]] = tuple) -> FastAPI:
    """
    Return the console's application; ``audits`` returns those of finished sessions.

    ``token`` (empty: not required) is sent once as ``?token=`` or as a bearer token; ``hosts`` are
    the names under which the page may be opened.
    """
    app = FastAPI(title='arena console', docs_url=None, redoc_url=None, openapi_url=None)
    console = Console(desk)
    app.add_middleware(ConsoleGuard, token=token)
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=list(hosts))
    app.exception_handler(ArenaError)(_refused)
    add_stop(app, desk)
    _watching(app, console)
    _picturing(app, desk)
    _commanding(app, console)
    _typing(app, console)
    _auditing(app, desk, audits)
    app.mount('/static', StaticFiles(directory=PAGES), name='static')
    return app


def _watching(app: FastAPI, console: Console) -> None:
    desk = console.desk

    @app.get('/')
    def page() -> FileResponse:
        return FileResponse(PAGES / 'index.html', headers={'Cache-Control': 'no-store'})

    @app.get('/api/options')
    def options() -> dict[str, Any]:
        return {'views': desk.views(), 'fields': plain(desk.extras().shown()),
                'examples': EXAMPLES, 'rubric': RUBRIC, 'consent': desk.consent(),
                'repairs': REPAIRS, 'needs': NEEDS, 'clear': CLEAR, 'ends': ENDS,
                'site': desk.site(),
                'states': [state.value for state in State],
                'lights': {'green': GREEN_FROM, 'amber': AMBER_FROM}}

    @app.get('/api/state')
    def state(request: Request, seen: int = 0,
              wait: float = Query(0.0, ge=0.0, le=LONGEST_WAIT_S)) -> dict[str, Any]:
        now = desk.state()
        if wait and seen == fingerprint(now) and not now.state.running:
            now = desk.wait_change(now, wait)
        return {**console.shown(request), 'version': fingerprint(now)}

    @app.get('/api/today')
    def today() -> list[dict[str, Any]]:
        return [plain(session) for session in desk.today()]

    @app.get('/api/instruction')
    def instruction(text: str) -> dict[str, Any]:
        earlier = [session.instruction for session in desk.today() if session.state is State.DONE]
        return {'problem': instruction_problem(text), 'repeat': is_repeat(text, earlier)}


def _picturing(app: FastAPI, desk: Desk) -> None:
    @app.get('/api/frame/{view}')
    def frame(view: str) -> Response:
        age_s = desk.frame_age_s(view)
        return _picture(desk.frame(view), {} if age_s is None else {'X-Age-S': f'{age_s:.3f}'})

    @app.get('/api/reference/{view}')
    def reference(view: str) -> Response:
        return _picture(desk.reference(view))

    @app.get('/api/clip/{slot}/{view}')
    def clip(slot: str, view: str) -> Response:
        """Return the pictures of a rollout: per picture its length in 4 bytes, then the JPEG."""
        pictures = desk.clip(_slot({'slot': slot}), view)
        return Response(b''.join(len(jpeg).to_bytes(4, 'big') + jpeg for jpeg in pictures),
                        media_type='application/octet-stream')


def _commanding(app: FastAPI, console: Console) -> None:
    @app.post('/api/sit')
    def sit(words: dict[str, Any]) -> dict[str, Any]:
        seat = console.sit(str(words.get('name') or NAME), bool(words.get('take_over')))
        return {'seat': seat}

    @app.post('/api/open')
    def open_session(request: Request, words: dict[str, Any]) -> dict[str, Any]:
        console.command(request).open_session(str(words.get('evaluator', '')),
                                              str(words.get('instruction', '')),
                                              bool(words.get('repeat')),
                                              str(words.get('third_person', '')))
        return console.shown(request)

    @app.post('/api/press')
    def press(request: Request, words: dict[str, Any]) -> dict[str, Any]:
        console.command(request).press(str(words.get('button', '')), str(words.get('text', '')))
        return console.shown(request)

    @app.post('/api/sign_in')
    def sign_in(request: Request, words: dict[str, Any]) -> dict[str, str]:
        return {'evaluator': console.command(request).press(
            Button.SIGN_IN, str(words.get('token', '')))}

    @app.post('/api/start')
    def start(request: Request, words: dict[str, Any]) -> dict[str, Any]:
        console.command(request).start(_slot(words), console.attended)
        return console.shown(request)

    @app.post('/api/submit')
    def submit(request: Request) -> dict[str, Any]:
        console.command(request).submit()
        return console.shown(request)


def _typing(app: FastAPI, console: Console) -> None:
    @app.post('/api/score')
    def score(request: Request, words: dict[str, Any]) -> dict[str, Any]:
        slot = _slot(words)
        verdict = _verdict(words, asked_at(Asked.SCORE, slot))
        if verdict.of_slot('progress', slot) is None:
            raise HTTPException(422, 'progress is a number from 0 to 100')
        console.command(request).score(slot, verdict)
        return console.shown(request)

    @app.post('/api/judge')
    def judge(request: Request, words: dict[str, Any]) -> dict[str, Any]:
        console.command(request).judge(_verdict(words, asked_at(Asked.JUDGE)))
        return console.shown(request)

    @app.post('/api/draft')
    def draft(request: Request, words: dict[str, Any]) -> dict[str, Any]:
        slot = _slot(words) if words.get('slot') else None
        fields = [field for field in FIELDS if field.slot is slot and field.key in words]
        verdict = to_plain(_verdict(words, fields))
        typed = {field.name: verdict[field.name] for field in fields}
        typed |= {name: str(words[name] or '') for name in ('evaluator', 'instruction')
                  if name in words}
        console.command(request).draft(typed)
        return {}


def _auditing(app: FastAPI, desk: Desk, audits: Callable[[], Sequence[Mapping[str, Any]]]
              ) -> None:
    @app.get('/api/audit')
    def audit() -> Mapping[str, Any]:
        """Return the audit of the session that is shown; nothing before its verdict is final."""
        now = desk.state()
        if now.state is not State.DONE:
            return {}
        return next((a for a in audits() if a.get('session_id') == now.session_id), {})


def plain(value: Any) -> Any:
    """Return a dataclass as JSON values; enums as their values, slots as keys."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {str(plain(key)): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value.value if isinstance(value, Enum) else value


def fingerprint(state: DeskState) -> int:
    """Return a number that changes with the state; never 0."""
    return hash(repr(state)) & 0x7FFFFFFFFFFF or 1


def _picture(data: bytes | None, headers: Mapping[str, str] = MappingProxyType({})) -> Response:
    if data is None:
        raise HTTPException(404, 'no image yet')
    return Response(data, media_type='image/jpeg',
                    headers={'Cache-Control': 'no-store', **headers})


def _slot(words: dict[str, Any]) -> Slot:
    try:
        return Slot(words.get('slot'))
    except ValueError:
        raise HTTPException(422, 'a slot is A or B') from None


def _verdict(words: dict[str, Any], fields: Iterable[VerdictField]) -> Verdict:
    """Return what a page says of some fields, by their keys; shares come as 0 to 100."""
    try:
        values = {field.name: field.parse(words[field.key]) for field in fields
                  if field.key in words}
    except DataError as error:
        raise HTTPException(422, str(error)) from error
    shares = {field.name: values[field.name] / 100.0 for field in fields
              if field.kind is Kind.SHARE and values.get(field.name) is not None}
    return Verdict(**{**values, **shares})


async def _refused(request: Request, error: Exception) -> JSONResponse:
    code = 409 if isinstance(error, Conflict) else 400
    return JSONResponse({'detail': str(error)}, code)


class ConsoleServer(PageServer):
    """
    Serves a desk at ``http://host:port``; ``port`` 0 uses a free one.

    On any host but this machine's own a token is required: ``token``, or a random one. ``names``
    are further names under which the page may be opened, such as the station's. ``audits`` returns
    the audits of finished sessions, as audit_node publishes them.
    """

    def __init__(self, desk: Desk, host: str = '127.0.0.1', port: int = 8600, token: str = '',
                 names: tuple[str, ...] = (),
                 audits: Callable[[], Sequence[Mapping[str, Any]]] = tuple) -> None:
        super().__init__(lambda given, hosts: create_app(desk, given, hosts, audits), host, port,
                         token, names, 'console')

    def open(self) -> None:
        """Start serving; NotConnected when the address is in use."""
        switch_threads_soon()    # STOP passes several
        super().open()
