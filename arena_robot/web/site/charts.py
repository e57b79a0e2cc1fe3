"""
Pictures of the site's results as SVG: standings, history, counts by group.

Cards for links are PNG, badges are for other pages.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from fastapi import FastAPI, Request
from fastapi.responses import Response
from fastapi.templating import Jinja2Templates

from arena_robot.core.errors import RankingError
from arena_robot.core.figures import figure_bytes
from arena_robot.ranking.methods import METHODS
from arena_robot.ranking.plots import (
    CardLine,
    WonShare,
    card_figure,
    history_figure,
    shares_figure,
    standings_figure,
    win_matrix_figure,
)
from arena_robot.ranking.recommended import RECOMMENDED
from arena_robot.ranking.standings import (
    Shown,
    Standings,
    basis_words,
    is_few,
    place_words,
    shown,
    shown_order,
    stated_interval,
)
from arena_robot.server.results.standings import Results
from arena_robot.server.store.browse import Browse
from arena_robot.server.store.tallies import TallyBy
from arena_robot.server.store.verdicts import ALL, Selection
from arena_robot.web.site.history import History, curves, is_line
from arena_robot.web.site.result_pages import ScoreView, group_views, met_views
from arena_robot.web.site.view_models import Chosen

MAX_AGE = {'Cache-Control': 'public, max-age=300'}
TITLE = 'Standings of robot policies'
NOTHING = 'nothing to compare yet'
NO_LINE = 'no plot over time yet: it needs a policy with enough sessions on two days'
PREPARED = 100    # cards of policies that are drawn before somebody asks; others when asked for
LETTER, PAD = 6.6, 12    # px of a badge


class DrawnPictures:
    """Pictures of results, drawn again in the background when another verdict counts."""

    def __init__(self, results: Results) -> None:
        self._results = results

    def get(self, key: tuple[str, ...], draw: Callable[[], bytes],
            method: str = RECOMMENDED, chosen: Selection = ALL) -> bytes:
        """
        Return the picture of ``key``; NotComputed at first.

        ``draw`` reads the results by ``method`` itself.
        """
        return self._results.renewed(method, chosen).get(('picture', *key), draw, slow=True,
                                                         late=True)

    def ahead(self, name: str, get: Callable[[], object]) -> None:
        """Have what ``get`` returns drawn before anybody asks for it."""
        kept = self._results.kept
        kept.always(partial(kept.prepare, ('ahead', name), get))


@dataclass(frozen=True)
class Badge:
    """The two halves of a badge and their widths in pixels."""

    left: str
    right: str

    @property
    def widths(self) -> tuple[int, int]:
        """Return the widths of the halves."""
        left, right = (round(LETTER * len(text)) + PAD for text in (self.left, self.right))
        return left, right


def badge_of(standings: Standings | None, policy: str) -> Badge:
    """Return the badge of a policy: the rank that may be stated, never more."""
    if standings is None or policy not in standings.items:
        return Badge('arena', 'not ranked yet')
    k = standings.items.index(policy)
    if is_few(standings, k):
        return Badge('arena', place_words(standings, k))
    return Badge('arena', f'rank {place_words(standings, k)} of {len(standings.items)}')


def board_card(standings: Standings | None) -> bytes:
    """Return the card of the leaderboard, a PNG."""
    if standings is None:
        return figure_bytes(card_figure(TITLE, [], NOTHING), 'png')
    look = shown(standings)
    lines = [CardLine(standings.items[k], place_words(standings, k), bar_of(look[k]))
             for k in shown_order(standings)]
    return figure_bytes(card_figure(TITLE, lines, f'based on {basis_words(standings)}'), 'png')


def bar_of(look: Shown) -> tuple[float, float, float] | None:
    """Return where a policy's interval is on a card, None where none is stated."""
    if look.left is None or look.middle is None or look.right is None:
        return None
    return look.left / 100, look.middle / 100, look.right / 100


def policy_card(standings: Standings | None, policy: str) -> bytes:
    """Return the card of a policy, a PNG."""
    if standings is None or policy not in standings.items:
        return figure_bytes(card_figure(policy, [CardLine('Rank', 'not ranked yet')], TITLE),
                            'png')
    k = standings.items.index(policy)
    few = is_few(standings, k)
    interval = stated_interval(standings, k)
    lines = [CardLine('Rank', badge_of(standings, policy).right.removeprefix('rank ')),
             CardLine('Comparisons', str(standings.counts[k]))]
    if not few:
        lines.insert(1, CardLine('Score', f'{standings.scores[k]:.2f}'))
        lines.insert(2, CardLine('95 % interval', interval))
    foot = f'{METHODS.find(standings.method).unit}; based on {basis_words(standings)}'
    return figure_bytes(card_figure(policy, lines, foot), 'png')


def latest(results: Results, method: str = RECOMMENDED, chosen: Selection = ALL,
           ) -> Standings | None:
    """Return the newest standings, None where nobody can be compared yet."""
    try:
        return results.standings(method, chosen)[0]
    except RankingError:
        METHODS.find_named(method)
        return None


def add_charts(app: FastAPI, pages: Jinja2Templates, results: Results, browse: Browse,
               history: History) -> None:
    """Add the pictures to the site."""
    pictures = DrawnPictures(results)
    _add_plots(app, pictures, results, history)
    _add_shares(app, pages, pictures, results, browse)


def _add_plots(app: FastAPI, pictures: DrawnPictures, results: Results, history: History) -> None:
    @app.get('/plots/standings.svg')
    def standings(chosen: Chosen, method: str = RECOMMENDED) -> Response:
        """Return the standings as a picture."""
        unit = METHODS.find_named(method).unit
        return svg_response(pictures.get(
            ('standings', method, repr(chosen)), lambda: figure_bytes(standings_figure(
                _needed(latest(results, method, chosen)), unit), 'svg'), method, chosen))

    @app.get('/plots/matrix.svg')
    def matrix() -> Response:
        """Return who beats whom as a picture."""
        def draw() -> bytes:
            standings = _needed(latest(results))
            votes = results.votes().only(standings.items)
            return figure_bytes(win_matrix_figure(votes, standings), 'svg')
        return svg_response(pictures.get(('matrix',), draw))
    pictures.ahead('standings', partial(standings, ALL))
    pictures.ahead('matrix', matrix)

    @app.get('/plots/history.svg')
    def past() -> Response:
        """Return the standings over time as a picture."""
        def draw() -> bytes:
            past = history.past()
            if not is_line(past):
                return figure_bytes(card_figure(TITLE, [], NO_LINE), 'svg')
            return figure_bytes(history_figure([entry.day for entry in past], curves(past),
                                               METHODS.find(RECOMMENDED).unit), 'svg')
        return svg_response(pictures.get(('history', str(len(history.past()))), draw))
    pictures.ahead('history', past)


def _add_shares(app: FastAPI, pages: Jinja2Templates, pictures: DrawnPictures, results: Results,
                browse: Browse) -> None:
    @app.get('/card.png')
    def card() -> Response:
        """Return the leaderboard as a picture for links."""
        return _png(pictures.get(('card',), lambda: board_card(latest(results))))
    pictures.ahead('card', card)

    @app.get('/card/{name}.png')
    def card_of(name: str) -> Response:
        """Return a policy's standing as a picture for links."""
        browse.card(name)
        return _png(pictures.get(('card', name), partial(card_bytes, name)))

    def card_bytes(name: str) -> bytes:
        return policy_card(latest(results), name)

    def prepared() -> None:
        for shown_card in browse.cards()[:PREPARED]:
            name = shown_card.name
            results.kept.prepare(('picture', 'card', name), partial(card_bytes, name))
    results.kept.always(prepared)

    @app.get('/badge/{name}.svg')
    def badge(request: Request, name: str) -> Response:
        """Return a policy's rank as a badge for other pages."""
        browse.card(name)
        return pages.TemplateResponse(request, 'badge.svg', {
            'badge': badge_of(latest(results), name)}, media_type='image/svg+xml',
            headers=MAX_AGE)


def _needed(standings: Standings | None) -> Standings:
    if standings is None:
        raise RankingError(f'{NOTHING}: a plot needs two policies with a session')
    return standings


def svg_response(content: bytes) -> Response:
    """Return a picture that may be kept for some minutes."""
    return Response(content, media_type='image/svg+xml', headers=MAX_AGE)


def _png(content: bytes) -> Response:
    return Response(content, media_type='image/png', headers=MAX_AGE)


def won_share(view: ScoreView, name: str = '') -> WonShare:
    """Return a score for a plot: with its share only where one is stated."""
    label = name or view.name or 'other'
    if view.few:
        return WonShare(label, view.score.count)
    return WonShare(label, view.score.count, view.score.share, view.low, view.high)


def add_share_charts(app: FastAPI, results: Results, browse: Browse) -> None:
    """Add the pictures to the site."""
    pictures = DrawnPictures(results)

    @app.get('/plots/by/{group}.svg')
    def by(group: TallyBy) -> Response:
        """Return the shares won by category or institution as a picture."""
        def draw() -> bytes:
            groups = {name or 'other': [won_share(view) for view in views]
                      for name, views in group_views(results, group)}
            if not groups:
                raise RankingError(f'{NOTHING}: a plot needs a session that counts')
            return figure_bytes(shares_figure(groups), 'svg')
        return svg_response(pictures.get(('by', group.value), draw))
    for group in TallyBy:
        pictures.ahead(group.value, partial(by, group))

    @app.get('/plots/versus.svg')
    def versus(a: str, b: str) -> Response:
        """Return the shares that one policy won against another, by category, as a picture."""
        browse.card(a), browse.card(b)

        def draw() -> bytes:
            total, by_category = met_views(results, a, b)
            return figure_bytes(shares_figure({f'{a} against {b}': [
                won_share(total, 'all sessions'), *map(won_share, by_category)]}), 'svg')
        return svg_response(pictures.get(('versus', a, b), draw))
