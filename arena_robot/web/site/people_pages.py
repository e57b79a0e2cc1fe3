"""
The pages that want a token: an owner's policies, and what a maintainer looks at and does.

The token is sent in the body of a form and not stored: there is no cookie. The maintainer's page
has it in its forms, so no cache may keep that page.
"""

from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import parse_qs

from fastapi import FastAPI, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import FileResponse, HTMLResponse, Response
from fastapi.templating import Jinja2Templates

from arena_robot.core.errors import Unauthorised
from arena_robot.server.base import Caller, PolicyRecord, PolicyReview, Role, UnknownSession
from arena_robot.server.config import ServerConfig
from arena_robot.server.upkeep.maintenance import Maintenance
from arena_robot.web.bounds import FORM_BYTES

Answer = Callable[[Request, Mapping[str, str]], Response]


def add_owner_page(app: FastAPI, pages: Jinja2Templates, caller: Callable[[str], Caller],
                   mine: Callable[[Caller], list[PolicyRecord]],
                   credit: Callable[[str], int],
                   review: Callable[[PolicyRecord], PolicyReview]) -> None:
    """Add the page of an owner's policies."""
    def answer(request: Request, form: Mapping[str, str]) -> Response:
        person = caller(form.get('token', ''))
        return pages.TemplateResponse(request, 'owner.html', {
            'caller': person, 'policies': [(p, review(p).activity) for p in mine(person)],
            'credit': credit(f'account:{person.name}')})

    _add_private(app, pages, '/owner', 'owner.html', answer)


def add_admin_page(app: FastAPI, pages: Jinja2Templates, caller: Callable[[str], Caller],
                   maintenance: Maintenance) -> None:
    """Add the page of the maintainers; ``do`` in a form is one of their actions."""
    def answer(request: Request, form: Mapping[str, str]) -> Response:
        person = caller(form.get('token', ''))
        if Role.MAINTAINER not in person.roles:
            raise Unauthorised('this page is for maintainers')
        if form.get('do'):
            maintenance.act(person, form['do'], form.get('target', ''), form.get('why', ''))
        return pages.TemplateResponse(request, 'admin.html', {
            'caller': person, 'token': form['token'], 'now': maintenance.overview(),
            'done': f"{form['do']}: {form.get('target', '')}" if form.get('do') else ''})

    _add_private(app, pages, '/admin', 'admin.html', answer)


def _add_private(app: FastAPI, pages: Jinja2Templates, path: str, template: str,
                 answer: Answer) -> None:
    """Add a page that asks for a token, and what it shows to who has one."""
    @app.get(path, response_class=HTMLResponse, include_in_schema=False)
    def ask(request: Request) -> Response:
        return pages.TemplateResponse(request, template, {'caller': None})

    @app.post(path, response_class=HTMLResponse, include_in_schema=False)
    async def show(request: Request) -> Response:
        form: dict[str, list[Any]] = parse_qs(
            (await request.body())[:FORM_BYTES].decode('utf-8', 'replace'))
        values = {key: value[0].strip() for key, value in form.items()}
        response = await run_in_threadpool(answer, request, values)
        response.headers['Cache-Control'] = 'no-store'
        return response


def add_logo(app: FastAPI, config: ServerConfig) -> None:
    """Add the arena's logo, where its configuration names one."""
    @app.get('/logo', include_in_schema=False)
    def logo() -> Response:
        if config.logo is None or not config.logo.is_file():
            raise UnknownSession('this arena has no logo')
        return FileResponse(config.logo)
