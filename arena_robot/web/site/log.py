"""The server's log as JSON, for `arena results verify` and for whoever watches it."""

import json
import threading
from typing import Any

from fastapi import FastAPI
from fastapi.responses import JSONResponse, Response

from arena_robot.core.errors import RankingError
from arena_robot.ranking.base import Comparisons
from arena_robot.ranking.methods import rank_comparable
from arena_robot.ranking.recommended import RECOMMENDED
from arena_robot.ranking.standings import plain
from arena_robot.server.transparency.log import TransparencyLog
from arena_robot.server.transparency.verify import counted_comparisons


class LogBundle:
    """
    The log with its standings as JSON, made once for each size of the log.

    The standings are those of the bundle's own entries, so both are of one moment. Requests that
    come while it is made wait for the same bytes.
    """

    def __init__(self, log: TransparencyLog) -> None:
        self._log = log
        self._lock = threading.Lock()
        self._size = -1
        self._body = b''

    def body(self) -> bytes:
        """Return the bytes of the JSON object."""
        with self._lock:
            if self._log.size() != self._size:
                values = self._log.bundle()
                values['standings'] = standings_of(values)
                self._body = json.dumps(values, ensure_ascii=False, allow_nan=False,
                                        separators=(',', ':')).encode()
                self._size = values['head']['size']
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


def add_log(app: FastAPI, log: TransparencyLog) -> None:
    """Add the pages below ``/api/log``."""
    cached = LogBundle(log)

    @app.get('/api/log')
    def bundle() -> Response:
        """Return the whole log with the standings of its entries, for `arena results verify`."""
        return Response(cached.body(), media_type='application/json')

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
