"""Pictures of the counts: results by group, and two policies by category."""

from fastapi import FastAPI
from fastapi.responses import Response

from arena_robot.core.errors import RankingError
from arena_robot.reports.figures import figure_bytes
from arena_robot.reports.share_plots import WonShare, shares_figure
from arena_robot.server.results import Results
from arena_robot.server.store.browse import Browse
from arena_robot.server.store.tallies import TallyBy
from arena_robot.web.site.charts import NOTHING, DrawnPictures, svg_response
from arena_robot.web.site.result_pages import ScoreView, group_views, met_views


def won_share(one: ScoreView, name: str = '') -> WonShare:
    """Return a score for a plot: with its share only where one is stated."""
    label = name or one.name or 'other'
    if one.few:
        return WonShare(label, one.score.count)
    return WonShare(label, one.score.count, one.score.share, one.low, one.high)


def add_share_charts(app: FastAPI, results: Results, browse: Browse) -> None:
    """Add the pictures to the site."""
    kept = DrawnPictures(results)

    @app.get('/plots/by/{group}.svg')
    def by(group: TallyBy) -> Response:
        """Return the shares won by category or institution as a picture."""
        def draw() -> bytes:
            groups = {name or 'other': [won_share(one) for one in views]
                      for name, views in group_views(results, group)}
            if not groups:
                raise RankingError(f'{NOTHING}: a plot needs a session that counts')
            return figure_bytes(shares_figure(groups), 'svg')
        return svg_response(kept.get(('by', group.value), draw))

    @app.get('/plots/versus.svg')
    def versus(a: str, b: str) -> Response:
        """Return the shares that one policy won against another, by category, as a picture."""
        browse.card(a), browse.card(b)

        def draw() -> bytes:
            total, by_category = met_views(results, a, b)
            return figure_bytes(shares_figure({f'{a} against {b}': [
                won_share(total, 'all sessions'), *map(won_share, by_category)]}), 'svg')
        return svg_response(kept.get(('versus', a, b), draw))
