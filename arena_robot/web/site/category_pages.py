"""A page per category of tasks, and the correction of a session's category by a maintainer."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import parse_qs

from fastapi import FastAPI, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from fastapi.templating import Jinja2Templates

from arena_robot.core.errors import DataError, Unauthorised
from arena_robot.core.task_categories import CATEGORIES, PERSON
from arena_robot.ranking.intervals.choice import LEAST_SESSIONS
from arena_robot.ranking.intervals.shares import PooledShare, pooled_shares
from arena_robot.server.base import Caller, Role
from arena_robot.server.results.standings import Results
from arena_robot.server.store.browse import Browse, Filter
from arena_robot.server.store.categories import Categories, StoredCategory
from arena_robot.server.store.tallies import TallyBy
from arena_robot.web.bounds import FORM_BYTES
from arena_robot.web.site.result_pages import ScoreView, score_view


@dataclass(frozen=True)
class CategoryRow:
    """
    A policy in a category: its own share, and the one pooled with its other categories.

    ``pooled`` is None where all categories together have too few comparisons to tell.
    """

    view: ScoreView
    pooled: PooledShare | None


def slug(category: str) -> str:
    """Return a category as a part of an address: 'open-close'."""
    return re.sub('[^a-z]+', '-', category.lower()).strip('-')


def category_rows(results: Results, category: str) -> list[CategoryRow]:
    """Return the policies of a category, best pooled share first."""
    groups = results.scores(TallyBy.CATEGORY)
    rows = []
    for policy, score in groups.get(category, {}).items():
        mine = [scores[policy] for scores in groups.values() if policy in scores]
        pooled = pooled_shares([scores.share for scores in mine],
                               [scores.effective for scores in mine])
        place = next(k for k, scores in enumerate(mine) if scores is score)
        enough = sum(scores.count for scores in mine) >= LEAST_SESSIONS
        rows.append(CategoryRow(score_view(policy, score), pooled[place] if enough else None))
    return sorted(rows, key=lambda row: (-(row.pooled.share if row.pooled else -1.0),
                                          row.view.name))


def category_leaders(results: Results) -> list[tuple[str, str]]:
    """
    Return the categories in which one policy is best, and that policy.

    Its pooled share is above that of every other policy there, the intervals apart.
    """
    leaders = []
    for category in CATEGORIES:
        shares = [(row.pooled, row.view.name) for row in category_rows(results, category)
                  if row.pooled is not None]
        if len(shares) > 1 and shares[0][0].low > max(share.high for share, _ in shares[1:]):
            leaders.append((category, shares[0][1]))
    return leaders


def add_category_pages(app: FastAPI, pages: Jinja2Templates, results: Results, browse: Browse,
                       categories: Categories, caller: Callable[[str], Caller]) -> None:
    """Add the pages to the site."""
    names = {slug(name): name for name in CATEGORIES}
    pages.env.globals['category_slug'] = slug
    pages.env.globals['all_categories'] = CATEGORIES
    pages.env.globals['said_category'] = categories.of

    @app.get('/categories/{name}', response_class=HTMLResponse, include_in_schema=False)
    def category(request: Request, name: str) -> Response:
        if name not in names:
            raise DataError(f"there is no category '{name:.60}'; known: {', '.join(names)}")
        wanted = names[name]
        return pages.TemplateResponse(request, 'category.html', {
            'name': wanted, 'slugs': names, 'rows': category_rows(results, wanted),
            'page': browse.page(Filter(category=wanted, limit=10))})

    # The token is sent in the body of a form and not stored: there is no cookie.
    @app.post('/evaluations/{session_id}/category', include_in_schema=False)
    async def correct(request: Request, session_id: str) -> Response:
        form = parse_qs((await request.body())[:FORM_BYTES].decode('utf-8', 'replace'))
        token, chosen = (form.get(key, [''])[0].strip() for key in ('token', 'category'))
        return await run_in_threadpool(corrected, session_id, token, chosen)

    def corrected(session_id: str, token: str, chosen: str) -> Response:
        person = caller(token)
        if Role.MAINTAINER not in person.roles:
            raise Unauthorised('only a maintainer corrects a category')
        browse.evaluation(session_id)
        categories.store(session_id, StoredCategory(chosen, PERSON, actor=person.name))
        results.forget()
        return RedirectResponse(f'/evaluations/{session_id}', 303)
