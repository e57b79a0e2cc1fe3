"""The server's log as JSON, for `arena verify` and for whoever watches it."""

from fastapi import FastAPI
from fastapi.responses import JSONResponse, Response

from arena_robot.core.errors import RankingError
from arena_robot.ranking.as_json import as_json
from arena_robot.server.results import Results
from arena_robot.server.transparency.service import TransparencyLog


def add_log(app: FastAPI, log: TransparencyLog, results: Results) -> None:
    """Add the pages below ``/api/log``."""

    @app.get('/api/log')
    def bundle() -> Response:
        values = log.bundle()
        try:
            values['standings'] = as_json(results.standings('bt')[0])
        except RankingError:
            values['standings'] = {}
        return JSONResponse(values)

    @app.get('/api/log/head')
    def head() -> Response:
        return JSONResponse(log.head().plain())

    @app.get('/api/log/entries')
    def entries(start: int = 0) -> Response:
        return JSONResponse({'start': start, 'entries': log.entries(start)})

    @app.get('/api/log/inclusion')
    def inclusion(number: int, size: int) -> Response:
        return JSONResponse({'path': log.inclusion(number, size)})

    @app.get('/api/log/consistency')
    def consistency(old: int, new: int) -> Response:
        return JSONResponse({'path': log.consistency(old, new)})
