"""Routes of the site: HTML pages, and the same data as JSON under ``/api``."""

import dataclasses
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, Response
from fastapi.staticfiles import StaticFiles
from fastapi.templating import Jinja2Templates
from starlette.exceptions import HTTPException

import arena_robot
from arena_robot.core.clock import SystemClock
from arena_robot.core.errors import (
    ArenaError,
    Conflict,
    DataError,
    NotComputed,
    RankingError,
    Unauthorised,
)
from arena_robot.core.verdict import FIELDS
from arena_robot.ranking.intervals.choice import LEAST
from arena_robot.ranking.methods import METHODS
from arena_robot.ranking.recommended import RECOMMENDED
from arena_robot.ranking.standings import as_json, plain
from arena_robot.reports.policy_report.render import TEMPLATES
from arena_robot.server.access.call_guard import SiteCalls
from arena_robot.server.base import (
    Caller,
    PolicyRecord,
    PolicyReview,
    TooManyCalls,
    UnknownSession,
)
from arena_robot.server.config import ServerConfig
from arena_robot.server.results.standings import Results
from arena_robot.server.store.blobs import Blobs
from arena_robot.server.store.browse import MARKS, ORIGINS, OUTCOMES, Browse, Filter
from arena_robot.server.store.categories import Categories
from arena_robot.server.store.reports import CitationChecks, Reports
from arena_robot.server.transparency.keys import SignedHead
from arena_robot.server.transparency.log import TransparencyLog
from arena_robot.server.upkeep.maintenance import Maintenance
from arena_robot.web.bounds import HeadAsGet
from arena_robot.web.site import view_models
from arena_robot.web.site.audit_pages import (
    AuditIndex,
    AuditProfile,
    add_audit_pages,
    add_citation_checks,
    add_report_pages,
)
from arena_robot.web.site.charts import add_charts, add_share_charts
from arena_robot.web.site.downloads import (
    Notes,
    add_api_page,
    add_downloads,
    add_log,
    add_releases,
)
from arena_robot.web.site.history import History, MethodChanges, add_history
from arena_robot.web.site.people_pages import (
    add_admin_page,
    add_join_page,
    add_logo,
    add_owner_page,
)
from arena_robot.web.site.recorded import AuditCurves
from arena_robot.web.site.result_pages import (
    NEWEST_S,
    add_category_pages,
    add_result_pages,
    category_leaders,
    clips,
    deciding_clips,
)
from arena_robot.web.site.session_page import add_session_page
from arena_robot.web.site.view_models import Chosen

RULES_S = 10.0    # what became of sessions that do not count changes without a verdict
NEWEST = 3    # evaluations on the first page
HERE = Path(__file__).parent
HEADERS = {
    'Content-Security-Policy': "default-src 'self'; style-src 'self' 'unsafe-inline'; "
                               "frame-ancestors 'none'; base-uri 'none'; form-action 'self'",
    'X-Content-Type-Options': 'nosniff', 'Referrer-Policy': 'no-referrer',
    'X-Frame-Options': 'DENY'}
STATUS = {UnknownSession: 404, NotComputed: 503, Unauthorised: 403, DataError: 400,
          RankingError: 409, Conflict: 409, TooManyCalls: 429}
AGAIN_S = 5    # when who asked for what is being computed should ask again
DRAWN_LATER = ('<svg xmlns="http://www.w3.org/2000/svg" width="600" height="60">'
               '<text x="10" y="36" fill="#888">'
               f'This picture is being drawn; ask again in {AGAIN_S} s.</text></svg>')

Wanted = Annotated[Filter, Depends()]


@dataclass(frozen=True)
class SiteParts:
    """What the site shows; ``caller`` and ``mine`` serve the owners' page."""

    results: Results
    browse: Browse
    blobs: Blobs
    caller: Callable[[str], Caller]
    mine: Callable[[Caller], list[PolicyRecord]]
    credit: Callable[[str], int]
    log: TransparencyLog
    rules: Callable[[], dict[str, Any]]
    notes: Notes
    methods: MethodChanges
    categories: Categories
    reports: Reports
    checks: CitationChecks
    maintenance: Maintenance
    config: ServerConfig
    review: Callable[[PolicyRecord], PolicyReview]
    calls: SiteCalls
    example: bool = False


def site(parts: SiteParts) -> FastAPI:
    """Return the site as an ASGI application."""
    app = FastAPI(title='arena', version=arena_robot.__version__, docs_url=None, redoc_url=None)
    app.mount('/static', StaticFiles(directory=HERE / 'static'), name='static')
    pages = Jinja2Templates(directory=[HERE / 'templates', TEMPLATES])
    pages.env.auto_reload = False    # a page looks at none of its files for changes
    pages.env.filters.update(view_models.FILTERS)
    pages.env.globals.update(
        version=arena_robot.__version__, outcomes=OUTCOMES, fields=FIELDS, marks=MARKS,
        origins=ORIGINS, counted_origins=parts.results.origins,
        counted=parts.results.counted,
        recommended=RECOMMENDED, least=LEAST, arena=parts.config, example=parts.example)
    _protect(app, pages)
    _leaderboard_page(app, pages, parts)
    audits = AuditCurves(parts.blobs, parts.browse)
    index = AuditIndex(parts.browse, audits, parts.results.kept)
    _public_pages(app, pages, parts, index.profile)
    _evaluation_pages(app, pages, parts)
    add_owner_page(app, pages, parts.caller, parts.mine, parts.credit, parts.review)
    add_admin_page(app, pages, parts.caller, parts.maintenance)
    add_join_page(app, pages, parts.calls)
    add_logo(app, parts.config)
    _standings_api(app, parts)
    _evaluations_api(app, parts.browse)
    add_log(app, parts.log, parts.results)
    add_result_pages(app, pages, parts.results, parts.browse)
    history = History(parts.results)
    add_session_page(app, pages, parts.browse, parts.blobs, audits, parts.log)
    add_audit_pages(app, pages, index)
    add_history(app, pages, parts.results, history)
    add_charts(app, pages, parts.results, parts.browse, history)
    add_share_charts(app, parts.results, parts.browse)
    add_report_pages(app, pages, parts.reports, parts.checks)
    add_citation_checks(app, parts.reports, parts.checks, parts.caller)
    add_category_pages(app, pages, parts.results, parts.browse, parts.categories, parts.caller)
    add_downloads(app, pages, parts.browse, parts.notes, parts.log)
    add_releases(app, pages, parts.log, parts.blobs)
    add_api_page(app, pages, parts.methods)
    app.add_middleware(HeadAsGet)
    return app


def _protect(app: FastAPI, pages: Jinja2Templates) -> None:
    @app.middleware('http')
    async def headers(request: Request,
                      call: Callable[[Request], Awaitable[Response]]) -> Response:
        response = await call(request)
        response.headers.update(HEADERS)
        return response

    @app.exception_handler(ArenaError)
    async def refused(request: Request, error: ArenaError) -> Response:
        status = next((s for kind, s in STATUS.items() if isinstance(error, kind)), 500)
        headers = {'Retry-After': str(AGAIN_S)} if isinstance(error, NotComputed) else None
        if request.url.path.startswith('/api'):
            return JSONResponse({'code': error.code, 'message': str(error)}, status, headers)
        if isinstance(error, NotComputed) and request.url.path.endswith('.svg'):
            return Response(DRAWN_LATER, status, headers, 'image/svg+xml')
        return pages.TemplateResponse(request, 'error.html', {'error': error}, status, headers)

    @app.exception_handler(HTTPException)
    async def not_there(request: Request, error: HTTPException) -> Response:
        unknown = UnknownSession(f'{error.detail}: {request.url.path:.200}')
        if request.url.path.startswith('/api'):
            return JSONResponse({'code': unknown.code, 'message': str(unknown)}, error.status_code)
        return pages.TemplateResponse(request, 'error.html', {'error': unknown}, error.status_code)

    @app.exception_handler(RequestValidationError)
    async def wrong(request: Request, error: RequestValidationError) -> Response:
        problem = '; '.join(f"{row['loc'][-1]}: {row['msg']}" for row in error.errors())
        return await refused(request, DataError(problem))


def _leaderboard_page(app: FastAPI, pages: Jinja2Templates, parts: SiteParts) -> None:
    methods = [name for name, row in METHODS.rows().items() if row.on_site]

    @app.get('/', response_class=HTMLResponse, include_in_schema=False)
    def leaderboard(request: Request, chosen: Chosen, method: str = RECOMMENDED,
                    sort: str = 'score',
                    columns: Annotated[tuple[str, ...], Query()] = ()) -> Response:
        known('sort by', sort, view_models.SORTS)
        for name in columns:
            known('show the column', name, view_models.COLUMNS)
        board = view_models.board(parts.results, method, chosen)
        kept, later = parts.results.kept, view_models.Gathered()
        labs, categories, robots = choices(parts)
        return pages.TemplateResponse(request, 'leaderboard.html', {
            'board': board, 'method': method, 'methods': methods, 'chosen': chosen,
            'labs': labs, 'categories': categories, 'robots': robots,
            'shown': columns or (*view_models.COLUMNS,), 'all_columns': view_models.COLUMNS,
            'rows': board.sorted_by(sort), 'sort': sort,
            'query': view_models.board_query(method, chosen, columns),
            'data_query': view_models.board_query(board.method, chosen),
            'pooling': later(parts.results.pooling) if len(robots) > 1 else '',
            'leaders': later(lambda: category_leaders(parts.results)), 'later': later,
            'deciding': kept.get('deciding', lambda: deciding_clips(parts.results, parts.browse),
                                 NEWEST_S),
            'newest': kept.get('newest', lambda: parts.browse.page(Filter(limit=NEWEST)),
                               NEWEST_S),
            'announcement': parts.methods.announcement()})


def _public_pages(app: FastAPI, pages: Jinja2Templates, parts: SiteParts,
                  audits: Callable[[str], list[AuditProfile]]) -> None:
    @app.get('/matrix', response_class=HTMLResponse, include_in_schema=False)
    def matrix(request: Request) -> Response:
        return pages.TemplateResponse(request, 'matrix.html',
                                      {'matrix': view_models.matrix(parts.results)})

    def rules_now() -> dict[str, Any]:
        return parts.results.kept.get('rules', parts.rules, RULES_S, slow=True, late=True)
    def head_now() -> SignedHead:    # the first one hashes every entry there is
        return parts.results.kept.get('head', parts.log.head, RULES_S, slow=True, late=True)
    for renewed in (rules_now, head_now):
        parts.results.kept.always(renewed, late=True)

    @app.get('/rules', response_class=HTMLResponse, include_in_schema=False)
    def rules(request: Request) -> Response:
        return pages.TemplateResponse(request, 'rules.html', {
            'rules': rules_now(), 'head': head_now()})

    @app.get('/policies/{name}', response_class=HTMLResponse, include_in_schema=False)
    def policy(request: Request, name: str) -> Response:
        card, kept = parts.browse.card(name), parts.results.kept
        later = view_models.Gathered()
        return pages.TemplateResponse(request, 'policy.html', {
            'card': card,
            'served': kept.get(('served', name), lambda: parts.browse.served(card), NEWEST_S),
            'days': kept.get(('days', name), lambda: parts.browse.days(
                card, SystemClock().now_ns()), NEWEST_S),
            'clips': kept.get(('clips', name), lambda: clips(parts.browse, name), NEWEST_S),
            'row': view_models.row_of(parts.results, name),
            'against': later(lambda: parts.results.against(name)), 'later': later,
            'audits': later(lambda: audits(name)),
            'site': str(request.base_url).rstrip('/'),
            'page': parts.browse.page(Filter(policy=name, limit=10))})


def choices(parts: SiteParts) -> tuple[list[str], list[str], list[str]]:
    """Return the values of the menus: institutions, categories, robots, at most 10 s old."""
    return parts.results.kept.get('choices', parts.browse.choices, NEWEST_S)


def known(what: str, name: str, names: Iterable[str]) -> None:
    """Raise DataError where a name is none of the names."""
    if name not in names:
        raise DataError(f"cannot {what} '{name:.40}'; known: {', '.join(names)}")


def _evaluation_pages(app: FastAPI, pages: Jinja2Templates, parts: SiteParts) -> None:
    @app.get('/evaluations', response_class=HTMLResponse, include_in_schema=False)
    def evaluations(request: Request, wanted: Wanted) -> Response:
        institutions, categories, robots = choices(parts)
        return pages.TemplateResponse(request, 'evaluations.html', {
            'page': parts.browse.page(wanted), 'wanted': wanted, 'institutions': institutions,
            'categories': categories, 'robots': robots, 'policies': parts.browse.cards(),
            'more': view_models.query(wanted)})


def _standings_api(app: FastAPI, parts: SiteParts) -> None:
    @app.get('/api/standings')
    def standings(chosen: Chosen, method: str = RECOMMENDED) -> Response:
        """Return the standings, best policy first, with intervals and ranks."""
        standing, not_placed = parts.results.standings(method, chosen)
        return JSONResponse({**as_json(standing), 'not_comparable': not_placed,
                             'recommended': RECOMMENDED,
                             'announcement': parts.methods.announcement()})

    @app.get('/api/matrix')
    def matrix() -> Response:
        """Return wins, ties and losses of each pair."""
        return JSONResponse(plain(dataclasses.asdict(view_models.matrix(parts.results))))

    @app.get('/api/rules')
    def rules() -> Response:
        """Return what counts, and what became of the sessions."""
        return JSONResponse(parts.results.kept.get('rules', parts.rules, RULES_S, slow=True,
                                                   late=True))

    @app.get('/api/policies')
    def policies() -> Response:
        """Return all policies."""
        return JSONResponse([card.__dict__ for card in parts.browse.cards()])

    @app.get('/api/policies/{name}')
    def policy(name: str) -> Response:
        """Return one policy with its standing."""
        row = view_models.row_of(parts.results, name)
        return JSONResponse(plain({**parts.browse.card(name).__dict__,
                                   'standing': None if row is None else dataclasses.asdict(row)}))


def _evaluations_api(app: FastAPI, browse: Browse) -> None:
    @app.get('/api/evaluations')
    def evaluations(wanted: Wanted) -> Response:
        """Return evaluations, newest first, that pass the filter."""
        page = browse.page(wanted)
        return JSONResponse({'evaluations': [e.plain() for e in page.evaluations],
                             'next': page.next})

    @app.get('/api/evaluations/{session_id}')
    def evaluation(session_id: str) -> Response:
        """Return one evaluation with its rollouts, commitment and reveal."""
        evaluation, rollouts = browse.evaluation(session_id)
        return JSONResponse({**evaluation.plain(), 'rollouts': [r.__dict__ for r in rollouts],
                             'videos': browse.videos(session_id)})
