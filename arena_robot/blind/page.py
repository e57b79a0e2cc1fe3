"""
The phone's page of a blind study, with a small JSON interface.

Everybody who has the link may press its buttons: two people can run a study together. ``/pause``
and ``/resume`` are for a pedal or a teleoperation program that takes over.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import FileResponse, JSONResponse
from fastapi.staticfiles import StaticFiles
from starlette.middleware.trustedhost import TrustedHostMiddleware

from arena_robot.blind.clips import CLIPS
from arena_robot.blind.desk import StudyDesk
from arena_robot.blind.report import NOT_HIDDEN
from arena_robot.core.episode import Slot
from arena_robot.core.errors import ArenaError, Conflict
from arena_robot.web import console
from arena_robot.web.console.guard import ConsoleGuard

PAGES = Path(__file__).parent / 'static'
CONSOLE_PAGES = Path(str(console.__file__)).parent / 'static'


def create_page(desk: StudyDesk, token: str, hosts: tuple[str, ...],
                words: Mapping[str, Any]) -> FastAPI:
    """Return the page's application; ``words`` are the fixed texts that it shows."""
    app = FastAPI(title='arena blind', docs_url=None, redoc_url=None, openapi_url=None)
    app.add_middleware(ConsoleGuard, token=token)
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=list(hosts))
    app.exception_handler(ArenaError)(_refused)
    options = {'success': desk.study.success, 'not_hidden': NOT_HIDDEN, 'fields': [
        field for field in desk.study.extras().shown() if field['slot'] == Slot.A], **words}
    _watching(app, desk, options)
    _pressing(app, desk)
    app.mount('/static', StaticFiles(directory=CONSOLE_PAGES), name='static')
    app.mount('/blind', StaticFiles(directory=PAGES), name='blind')
    app.mount(f'/{CLIPS}', StaticFiles(directory=desk.folder / CLIPS, check_dir=False), name=CLIPS)
    return app


def _watching(app: FastAPI, desk: StudyDesk, options: Mapping[str, Any]) -> None:
    @app.get('/')
    def page() -> FileResponse:
        return FileResponse(PAGES / 'index.html', headers={'Cache-Control': 'no-store'})

    @app.get('/api/options')
    def shown_options() -> Mapping[str, Any]:
        return options

    @app.get('/api/state')
    def state() -> dict[str, Any]:
        return desk.shown()


def _pressing(app: FastAPI, desk: StudyDesk) -> None:
    @app.post('/api/move')
    def move(words: dict[str, Any]) -> dict[str, Any]:
        desk.move(str(words.get('move', '')), words)
        return desk.shown()

    @app.post('/api/draft')
    def draft(words: dict[str, Any]) -> dict[str, Any]:
        desk.draft(words)
        return {}

    @app.post('/pause')
    def pause() -> dict[str, Any]:
        """Take over from the policy: nothing passes until ``/resume``."""
        desk.move('pause', {})
        return desk.shown()

    @app.post('/resume')
    def resume() -> dict[str, Any]:
        """Let the policy go on."""
        desk.move('resume', {})
        return desk.shown()


async def _refused(request: Request, error: Exception) -> JSONResponse:
    return JSONResponse({'detail': str(error)}, 409 if isinstance(error, Conflict) else 400)
