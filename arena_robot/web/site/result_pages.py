"""
Pages of results beside the leaderboard: all policies, two policies, groups of sessions.

On the page of a category of tasks a maintainer corrects the category of a session.
"""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from urllib.parse import parse_qs

from fastapi import FastAPI, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from fastapi.templating import Jinja2Templates

from arena_robot.core.episode import Preference
from arena_robot.core.errors import DataError, Unauthorised
from arena_robot.core.task_categories import CATEGORIES, PERSON
from arena_robot.ranking.intervals.choice import LEAST_SESSIONS
from arena_robot.ranking.intervals.shares import PooledShare, pooled_shares
from arena_robot.ranking.recommended import RECOMMENDED
from arena_robot.ranking.standings import not_relayed, place_words
from arena_robot.server.base import Caller, Role
from arena_robot.server.results.standings import LABS, Results
from arena_robot.server.store.browse import Browse, Filter, Page, PolicyCard
from arena_robot.server.store.categories import Categories, StoredCategory
from arena_robot.server.store.tallies import Score, TallyBy
from arena_robot.server.store.verdicts import Selection
from arena_robot.web.bounds import FORM_BYTES
from arena_robot.web.site import view_models

SHOWN_PAIRS = 5    # sessions of two policies with both films, the newest
LISTED = 10    # newest sessions of two policies: a page of them, its films above
LOOKED_AT = 40    # newest evaluations of a policy among which its clips are looked for
NEWEST_S = 10.0    # of the newest sessions; their videos may come later
SCENES_S = 60.0    # videos of a scene may come after its verdict
CLIPS = 2    # of successes, and of failures
SUCCESS, FAILURE = 0.99, 0.5    # progress of a success at least, of a failure at most


@dataclass(frozen=True)
class PolicyLine:
    """A policy in the index: its card, and its line of the default leaderboard if it has one."""

    card: PolicyCard
    row: view_models.Row | None


@dataclass(frozen=True)
class ScoreView:
    """A score as shown: counts always, share and interval only of enough comparisons."""

    name: str
    score: Score
    few: bool
    low: float
    high: float


@dataclass(frozen=True)
class WinChance:
    """How likely a policy is preferred to another, by the model and all sessions; with 95 %."""

    share: float
    low: float
    high: float


@dataclass(frozen=True)
class FilmPair:
    """One session of two policies with a video of each slot."""

    session_id: str
    prompt: str
    policies: tuple[str, str]
    addresses: tuple[str, str]
    preferred: str = ''


@dataclass(frozen=True)
class DecidingClips:
    """Both videos of one session on the first page, and in a sentence why it is that one."""

    film: FilmPair
    why: str


@dataclass(frozen=True)
class CategoryScene:
    """The newest video of a category of tasks, and how many sessions of it count."""

    category: str
    sessions: int
    film: FilmPair


@dataclass(frozen=True)
class RolloutClip:
    """A video of one rollout of a policy, 0 to 1 of the task done."""

    session_id: str
    prompt: str
    address: str
    progress: float


def clips(browse: Browse, policy: str) -> dict[str, list[RolloutClip]]:
    """Return the newest successes and failures of a policy that have a video."""
    found: dict[str, list[RolloutClip]] = {'Successes': [], 'Failures': []}
    for e in browse.page(Filter(policy=policy, limit=LOOKED_AT)).evaluations:
        slot = 'A' if e.policy_a == policy else 'B'
        progress = e.verdict.of_slot('progress', slot)
        if not e.counts or progress is None or FAILURE < progress < SUCCESS:
            continue
        kind = found['Successes' if progress >= SUCCESS else 'Failures']
        if len(kind) < CLIPS and (videos := browse.videos(e.id).get(slot)):
            kind.append(RolloutClip(e.id, e.prompt, f'/files/{e.id}/{slot}/{videos[0]}', progress))
    return {name: shown for name, shown in found.items() if shown}


def policy_lines(results: Results, browse: Browse) -> list[PolicyLine]:
    """Return every policy, the ranked ones first and best first; then those with too few."""
    rows = {row.policy: row for row in view_models.board(results, RECOMMENDED).rows}
    places = {policy: place for place, policy in enumerate(rows)}
    lines = [PolicyLine(card, rows.get(card.name)) for card in browse.cards()]
    return sorted(lines, key=lambda line: (places.get(line.card.name, math.inf), line.card.name))


def score_view(name: str, score: Score) -> ScoreView:
    """Return a score with the interval that reports state, or marked as too few to tell."""
    low, high = score.interval or (0.0, 1.0)
    return ScoreView(name, score, score.interval is None, low, high)


def group_views(results: Results, group: TallyBy) -> list[tuple[str, list[ScoreView]]]:
    """Return the scores of each group, those with too few comparisons last."""
    return [(name, sorted((score_view(policy, score) for policy, score in scores.items()),
                          key=lambda view: view.few))
            for name, scores in results.scores(group).items()]


def met_views(results: Results, first: str, second: str) -> tuple[ScoreView, list[ScoreView]]:
    """Return the score of ``first`` against ``second``, in all and in each category."""
    total, met = results.met(first, second)
    return score_view(first, total), [score_view(name, score) for name, score in met.items()]


def win_chance(results: Results, first: str, second: str) -> WinChance | None:
    """Return how likely ``first`` is preferred by the model; None with too few sessions."""
    difference = results.difference(first, second)
    if difference is None:
        return None
    share, low, high = (1 / (1 + math.exp(-min(max(x, -700.0), 700.0))) for x in difference)
    return WinChance(share, low, high)


def elsewhere(results: Results, first: str, second: str) -> str:
    """Return how many sessions of two policies did not pass a relay: '3 imported'."""
    return not_relayed(results.origins_of_pair(first, second))


def newest_page(browse: Browse, **wanted: str) -> Page:
    """Return the newest evaluations, among which those with videos are looked for."""
    return browse.page(Filter(limit=4 * SHOWN_PAIRS, **wanted))


def film_pairs(browse: Browse, page: Page, most: int = SHOWN_PAIRS,
               decided: bool = False) -> list[FilmPair]:
    """
    Return the sessions of a page that have a video of both policies.

    ``decided``: only those that count and in which one policy was preferred.
    """
    pairs: list[FilmPair] = []
    newest = page.evaluations
    filmed = browse.filmed([e.id for e in newest])
    for e in newest:
        if len(pairs) == most:
            break
        preferred = e.verdict.preference if e.counts else None
        if e.id not in filmed or (decided and preferred in (None, Preference.TIE)):
            continue
        videos = browse.videos(e.id)
        common = [path for path in videos.get('A', []) if path in videos.get('B', [])]
        if common:
            pairs.append(FilmPair(e.id, e.prompt, (e.policy_a, e.policy_b), (
                f'/files/{e.id}/A/{common[0]}', f'/files/{e.id}/B/{common[0]}'),
                preferred.value if preferred else ''))
    return pairs


def pair_sessions(browse: Browse, a: str, b: str) -> tuple[Page, list[FilmPair]]:
    """Return the newest sessions of two policies, and those of them with both videos."""
    newest = newest_page(browse, policy=a, against=b)
    return Page(newest.evaluations[:LISTED], ''), film_pairs(browse, newest)


def deciding_clips(results: Results, browse: Browse) -> DecidingClips | None:
    """
    Return the newest session with both videos in which a policy was preferred to its neighbour.

    Of the neighbours in the standings, those nearest to the top count. None without videos.
    """
    names = [row.policy for row in view_models.board(results, RECOMMENDED).rows
             if row.shown.left is not None]
    for place, (a, b) in enumerate(pairwise(names[:SHOWN_PAIRS + 1])):
        if films := film_pairs(browse, newest_page(browse, policy=a, against=b), 1,
                               decided=True):
            where = 'have the two highest scores, and their sessions decide who is first' \
                if place == 0 else 'are next to each other in the standings'
            return DecidingClips(films[0], f'{a} and {b} {where}. This is the newest one with '
                                 'both videos in which one of them was preferred.')
    newest = newest_page(browse)
    films = film_pairs(browse, newest, 1, decided=True) or film_pairs(browse, newest, 1)
    return DecidingClips(films[0], 'This is the newest session with both videos; too little is '
                         'known of neighbours in the standings.') if films else None


def scenes(results: Results, browse: Browse) -> list[CategoryScene]:
    """Return the categories with a session of both videos, largest first; NotComputed at first."""
    return results.kept.get('scenes', lambda: [
        CategoryScene(category, sum(score.count for score in scores.values()) // 2, films[0])
        for category, scores in results.scores(TallyBy.CATEGORY).items()
        if category and (films := film_pairs(browse, newest_page(browse, category=category), 1))],
        SCENES_S, slow=True, late=True)


def add_result_pages(app: FastAPI, pages: Jinja2Templates, results: Results,
                     browse: Browse) -> None:
    """Add the pages to the site."""
    @app.get('/policies', response_class=HTMLResponse, include_in_schema=False)
    def policies(request: Request) -> Response:
        return pages.TemplateResponse(request, 'policies.html', {
            'lines': policy_lines(results, browse)})

    @app.get('/versus', response_class=HTMLResponse, include_in_schema=False)
    def versus(request: Request, a: str = '', b: str = '') -> Response:
        names = [card.name for card in browse.cards()]
        later = view_models.Gathered()
        shown: dict[str, object] = {'policies': names, 'a': a, 'b': b, 'total': None,
                                    'later': later}
        if a and b and a != b:
            browse.card(a), browse.card(b)
            total, by_category = met_views(results, a, b)
            page, films = results.kept.get(('pair', a, b), lambda: pair_sessions(browse, a, b),
                                           NEWEST_S)
            shown |= {'total': total, 'chance': later(lambda: win_chance(results, a, b)),
                      'elsewhere': elsewhere(results, a, b),
                      'films': films, 'by_category': by_category, 'page': page}
        return pages.TemplateResponse(request, 'versus.html', shown)

    @app.get('/by/{group}', response_class=HTMLResponse, include_in_schema=False)
    def by(request: Request, group: TallyBy) -> Response:
        later, by_task = view_models.Gathered(), group is TallyBy.CATEGORY
        return pages.TemplateResponse(request, 'groups.html', {
            'later': later, 'by': group.value, 'groups': group_views(results, group),
            'recommended': RECOMMENDED, 'words': later(results.words) if by_task else None,
            'scenes': later(lambda: scenes(results, browse)) if by_task else None,
            'labs': None if by_task else later(lambda: lab_table(results))})

    @app.get('/api/by/{group}')
    def by_json(group: TallyBy) -> dict[str, dict[str, dict[str, int]]]:
        """Return wins, ties and losses of each policy, by category or institution."""
        return {name: {policy: {'wins': s.wins, 'ties': s.ties, 'losses': s.losses}
                       for policy, s in scores.items()}
                for name, scores in results.scores(group).items()}


@dataclass(frozen=True)
class LabTable:
    """
    Institutions with their share of the sessions, and each policy's place without each of them.

    ``rows`` are (policy, its place in all, its places); a place is a dash where nobody is left.
    """

    labs: tuple[tuple[str, int, float], ...]
    effective: float
    rows: tuple[tuple[str, str, tuple[str, ...]], ...]


def lab_table(results: Results) -> LabTable:
    """Return the table of the institutions; NotComputed at first."""
    found, standings = results.labs(), view_models.board(results, RECOMMENDED)
    total = sum(count for _, count, _ in found.labs)
    left_out = [without for *_, without in found.labs[:LABS]]
    places = [{} if s is None else {name: place_words(s, k) for k, name in enumerate(s.items)}
              for s in left_out]
    return LabTable(tuple((name, count, count / total) for name, count, _ in found.labs),
                    found.effective, tuple(
        (row.policy, row.shown.place, tuple(of.get(row.policy, '–') for of in places))
        for row in standings.rows))


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


def rows_by_category(results: Results) -> Mapping[str, list[CategoryRow]]:
    """Return the rows of all categories; NotComputed at first."""
    return results.kept.get('categories', lambda: {
        category: category_rows(results, category) for category in CATEGORIES}, slow=True)


def category_leaders(results: Results) -> list[tuple[str, str]]:
    """
    Return the categories in which one policy is best, and that policy.

    Its pooled share is above that of every other policy there, the intervals apart.
    """
    leaders = []
    for category, rows in rows_by_category(results).items():
        shares = [(row.pooled, row.view.name) for row in rows if row.pooled is not None]
        if len(shares) > 1 and shares[0][0].low > max(share.high for share, _ in shares[1:]):
            leaders.append((category, shares[0][1]))
    return leaders


def add_category_pages(app: FastAPI, pages: Jinja2Templates, results: Results, browse: Browse,
                       categories: Categories, caller: Callable[[str], Caller]) -> None:
    """Add the pages to the site."""
    names = {slug(name): name for name in CATEGORIES}
    results.kept.always(lambda: rows_by_category(results))
    pages.env.globals['category_slug'] = slug
    pages.env.globals['all_categories'] = CATEGORIES
    pages.env.globals['said_category'] = categories.of

    @app.get('/categories/{name}', response_class=HTMLResponse, include_in_schema=False)
    def category(request: Request, name: str) -> Response:
        if name not in names:
            raise DataError(f"there is no category '{name:.60}'; known: {', '.join(names)}")
        wanted, later = names[name], view_models.Gathered()
        return pages.TemplateResponse(request, 'category.html', {
            'later': later, 'name': wanted, 'slugs': names,
            'rows': rows_by_category(results)[wanted],
            'board': later(lambda: view_models.board(
                results, RECOMMENDED, Selection(category=wanted))),
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
