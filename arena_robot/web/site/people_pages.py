"""
The pages for certain people: an owner's policies, what a maintainer looks at and does, joining.

An owner and a maintainer show a token, which is sent in the body of a form and not stored: there
is no cookie. The maintainer's page has it in its forms, so no cache may keep that page.

Who joins signs in at a provider that the configuration names. The cookie of ``/join`` alone says
who that was. It is signed, and ends after ``SESSION_S``.
"""

import json
import logging
import secrets
import time
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import httpx
from fastapi import FastAPI, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import FileResponse, HTMLResponse, RedirectResponse, Response
from fastapi.templating import Jinja2Templates
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from arena_robot.core.errors import ArenaError, ConfigError, Unauthorised
from arena_robot.server.access.call_guard import Confirmed, SiteCalls
from arena_robot.server.base import (
    PROVENANCE,
    Caller,
    PolicyRecord,
    PolicyReview,
    Role,
    UnknownSession,
)
from arena_robot.server.config import ServerConfig, SignIn, SignInProvider
from arena_robot.server.store.accounts import normalised
from arena_robot.server.store.policies import NewPolicy
from arena_robot.server.upkeep.maintenance import Maintenance
from arena_robot.web.bounds import FORM_BYTES

log = logging.getLogger(__name__)

SESSION_S = 3600      # long enough to fill in the form, short enough for a shared computer
PROVIDER_S = 10.0     # until a provider answers one question
LEEWAY_S = 60         # by which a provider's clock may differ
# Signatures that only the provider can make: its discovery may offer others, or none.
SIGNATURES = ('RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512', 'ES256', 'ES384', 'ES512',
              'EdDSA')
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
        values = _fields((await request.body())[:FORM_BYTES])
        response = await run_in_threadpool(answer, request, values)
        response.headers['Cache-Control'] = 'no-store'
        return response


def _fields(body: bytes) -> dict[str, str]:
    form: dict[str, list[Any]] = parse_qs(body.decode('utf-8', 'replace'))
    return {key: value[0].strip() for key, value in form.items()}


class _JoinSession:
    """Gives ``/join`` and the pages below it a session, and has no cache keep them."""

    def __init__(self, app: ASGIApp, secret: str, secure: bool) -> None:
        from starlette.middleware.sessions import SessionMiddleware
        self._app = app
        self._with_session = SessionMiddleware(
            app, secret, 'arena_join', SESSION_S, '/join', 'lax', https_only=secure)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if not f"{scope.get('path', '')}/".startswith('/join/'):
            await self._app(scope, receive, send)
            return

        async def unkept(message: Message) -> None:
            if message['type'] == 'http.response.start':
                MutableHeaders(scope=message)['Cache-Control'] = 'no-store'
            await send(message)
        await self._with_session(scope, receive, unkept)


def add_join_page(app: FastAPI, pages: Jinja2Templates, calls: SiteCalls) -> None:
    """Add ``/join``, where the configuration names providers; ConfigError without a secret."""
    if (config := calls.config) is None:
        return
    providers = {provider.name: provider for provider in config.providers}
    clients = _clients(config)
    app.add_middleware(_JoinSession, secret=calls.secret(),
                       secure=config.address.startswith('https://'))
    _add_join_form(app, pages, calls)

    def provider_of(request: Request, name: str) -> SignInProvider:
        if name not in providers:
            raise UnknownSession(f"nobody signs in here by '{name:.40}'")
        calls.stranger(request.client.host if request.client else '')
        return providers[name]

    @app.get('/join/{name}', include_in_schema=False)
    async def begin(request: Request, name: str) -> Response:
        provider = provider_of(request, name)
        try:
            answer: Response = await clients[name].authorize_redirect(
                request, f'{config.address}/join/{provider.name}/back')
        except _not_confirmed() as error:
            raise Unauthorised(f'{name} does not answer; try again later') from error
        return answer

    @app.get('/join/{name}/back', include_in_schema=False)
    async def back(request: Request, name: str) -> Response:
        provider = provider_of(request, name)
        try:
            who = await _confirmed(clients[name], provider, request)
        except _not_confirmed() as error:
            log.warning('a sign-in by %s was refused: %r', name, error)
            await run_in_threadpool(calls.refuse, name, f'{name} did not confirm who you are '
                                    f'({type(error).__name__}); sign in again')
        number = await run_in_threadpool(calls.enter, who)
        request.session.clear()
        request.session.update(account=number, until_s=time.time() + SESSION_S,
                               csrf=secrets.token_urlsafe(16))
        return RedirectResponse('/join', 303)


def _clients(config: SignIn) -> dict[str, Any]:
    """Return a client of each provider, by name."""
    from authlib.deprecate import AuthlibDeprecationWarning
    # It asks for the successor of httpx, and works with httpx.
    warnings.filterwarnings('ignore', 'The httpx module', AuthlibDeprecationWarning)
    from authlib.integrations.starlette_client import OAuth
    registry = OAuth()
    return {one.name: registry.register(
        one.name, client_id=one.client_id, client_secret=_secret(one.secret_file),
        server_metadata_url=one.discovery or None, authorize_url=one.authorise or None,
        access_token_url=one.token or None, client_kwargs={
            'scope': one.scopes(), 'code_challenge_method': 'S256', 'timeout': PROVIDER_S})
        for one in config.providers}


def _secret(path: Path) -> str:
    try:
        return path.read_text(encoding='utf-8').strip()
    except OSError as error:
        raise ConfigError(f'sign_in: cannot read {path}: {error.strerror}') from error


def _not_confirmed() -> tuple[type[Exception], ...]:
    """Return what is raised where a provider's answer is not as it must be."""
    from authlib.common.errors import AuthlibBaseError
    from joserfc.errors import JoseError
    return (AuthlibBaseError, JoseError, httpx.HTTPError, RuntimeError, LookupError, TypeError,
            ValueError)


async def _confirmed(client: Any, provider: SignInProvider, request: Request) -> Confirmed:
    """Return who came back from a provider; raises what :func:`_not_confirmed` has."""
    if provider.discovery:
        about = await client.load_server_metadata()
        offered = 'id_token_signing_alg_values_supported'
        about[offered] = [name for name in about.get(offered, ()) if name in SIGNATURES]
        token = await client.authorize_access_token(request, leeway=LEEWAY_S, claims_options={
            'iss': {'essential': True, 'values': [about['issuer']]},
            'aud': {'essential': True, 'values': [provider.client_id]}})
        said = token['userinfo']
        return Confirmed(provider.name, str(said['sub']), str(said.get('preferred_username', '')),
                         str(said['email']) if said.get('email_verified') is True else '')
    token = await client.authorize_access_token(request)
    user, emails = [(await client.get(url, token=token)).raise_for_status().json() if url else []
                    for url in (provider.user, provider.emails)]
    mine = [row['email'] for row in emails if row['primary'] and row['verified']]
    return Confirmed(provider.name, str(user['id']), str(user['login']), str((*mine, '')[0]))


def _add_join_form(app: FastAPI, pages: Jinja2Templates, calls: SiteCalls) -> None:
    """Add the page of who signed in: a token for machines, a policy to submit, the way out."""
    def shown(request: Request, status: int = 200, **more: Any) -> Response:
        number = _account(request)
        person, mine = (calls.who(number), calls.mine(number)) if number else (None, [])
        return pages.TemplateResponse(request, 'join.html', {
            'caller': person, 'policies': mine, 'csrf': request.session.get('csrf', ''),
            'provenance': PROVENANCE, 'form': {}, **more}, status)

    @app.get('/join', response_class=HTMLResponse, include_in_schema=False)
    def join(request: Request) -> Response:
        return shown(request)

    def done(request: Request, what: str, number: int, form: Mapping[str, str]) -> Response:
        if what == 'token':
            return shown(request, token=calls.new_token(number))
        try:
            return shown(request, submitted=calls.submit(number, _policy(form), form.get(
                'token', '')).name)
        except ArenaError as error:
            return shown(request, 400, form=form, problem=str(error))

    @app.post('/join/{what}', response_class=HTMLResponse, include_in_schema=False)
    async def act(request: Request, what: str) -> Response:
        form, number = _fields(await request.body()), _account(request)
        if not number or not secrets.compare_digest(
                form.get('csrf', '').encode(), str(request.session['csrf']).encode()):
            raise Unauthorised('this form is not of your session; open /join and sign in')
        if what == 'leave':
            request.session.clear()
            return RedirectResponse('/join', 303)
        if what not in ('token', 'policy'):
            raise UnknownSession(f"there is no form '{what:.40}'")
        return await run_in_threadpool(done, request, what, number, form)


def _account(request: Request) -> int:
    """Return the number of the account that signed in, 0 when none did or it was too long ago."""
    session = request.session
    return int(session['account']) if session.get('until_s', 0.0) > time.time() else 0


def _policy(form: Mapping[str, str]) -> NewPolicy:
    said = {name: form[name] for name in PROVENANCE if form.get(name)}
    return NewPolicy(normalised(form.get('name', '')), form.get('address', ''),
                     form.get('description', ''), 'open_source' in form,
                     provenance=json.dumps(said) if said else None)


def add_logo(app: FastAPI, config: ServerConfig) -> None:
    """Add the arena's logo, where its configuration names one."""
    @app.get('/logo', include_in_schema=False)
    def logo() -> Response:
        if config.logo is None or not config.logo.is_file():
            raise UnknownSession('this arena has no logo')
        return FileResponse(config.logo)
