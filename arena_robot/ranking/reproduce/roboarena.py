"""What RoboArena's paper says of its evaluations, from its public tables."""

from collections.abc import Sequence

import numpy as np

from arena_robot.ranking import quality
from arena_robot.ranking.base import Comparisons
from arena_robot.ranking.methods import method
from arena_robot.ranking.quality import reference, splits
from arena_robot.ranking.reproduce.lines import (
    Margin,
    PublishedLine,
    close,
    line,
    mean_margin,
    ordered,
    unchecked,
)
from arena_robot.ranking.rollouts import ArenaTables
from arena_robot.ranking.voting.profile import Profile, from_scores

PAPER = 'RoboArena 2025'
POLICIES = tuple(f'{name}_droid' for name in (
    'paligemma_binning', 'paligemma_diffusion', 'paligemma_fast', 'paligemma_fast_specialist',
    'paligemma_vq', 'pi0', 'pi0_fast'))
SNAPSHOT = 'this is a snapshot of 29 April 2025, before the paper'
ORDERED = ('elo', 'bt', 'progress', 'task')
NEAR = 0.02    # of Pearson: what "near" is taken to mean here
ROUNDED = 0.0005    # of a share printed as percent with one decimal


def session_lines(arena: ArenaTables, count: int = 20) -> list[PublishedLine]:
    """Return the lines of figures 5 to 7 and of the disagreement; ``count`` splits."""
    means = reference(arena.rollouts, arena.comparisons.n)
    names = arena.comparisons.items
    of = dict(zip(names, means, strict=True))
    scored = len(arena.rollouts.score)
    opposed = disagreement(arena.comparisons)
    order = sorted(names, key=lambda name: of[name])
    last, diffusion = order[0], 'paligemma_diffusion_droid'
    discrete = [f'paligemma_{kind}_droid' for kind in ('fast', 'fast_specialist', 'vq')]
    lines = [
        line(PAPER, 'rollouts behind the oracle', '4284', str(scored), scored == 4284, SNAPSHOT),
        line(PAPER, 'preference does not agree with progress', '11 % of sessions',
             f'{100 * opposed:.1f} %', round(100 * opposed) == 11, SNAPSHOT),
        ordered(PAPER, 'figure 5, simple binning is the worst policy', 'paligemma_binning_droid',
                last, [margin(arena, name, 'paligemma_binning_droid') for name in names
                       if name != 'paligemma_binning_droid'], SNAPSHOT),
        ordered(PAPER, 'figure 5, discrete tokens are better than diffusion (PaliGemma)',
                'every one of three is better',
                f'worst of three {min(of[name] for name in discrete):.3f}, diffusion '
                f'{of[diffusion]:.3f}',
                [margin(arena, name, diffusion) for name in discrete], SNAPSHOT),
        ordered(PAPER, 'figure 5, FAST is better than flow (pi0)', 'better',
                f'{of["pi0_fast_droid"]:.3f} against {of["pi0_droid"]:.3f}',
                [margin(arena, 'pi0_fast_droid', 'pi0_droid')], SNAPSHOT)]
    return [*lines, *_figure_6(arena, count), unchecked(
        PAPER, 'figures 6 and 7, "Regular": evaluations at one place', 'correlates less',
        'the 44 episodes per policy at one place are not public')]


def margin(arena: ArenaTables, first: str, second: str) -> Margin:
    """
    Return by how much ``first`` gets further than ``second`` in the sessions that scored both.

    The mean of the differences with its 95 % interval (Student's t).
    """
    rows, items = arena.rollouts, arena.comparisons.items
    scores = []
    for name in (first, second):
        own = (rows.policy == items.index(name)) & (rows.session >= 0)
        scores.append(dict(zip(rows.session[own], rows.score[own], strict=True)))
    return mean_margin([scores[0][k] - scores[1][k] for k in scores[0].keys() & scores[1].keys()])


def session_ballots(arena: ArenaTables) -> Profile:
    """Return the sessions as ballots over the policies that ran in them, by progress."""
    rows, inside = arena.rollouts, arena.rollouts.session >= 0
    table = np.full((arena.comparisons.n, rows.session.max() + 1), np.nan)
    table[rows.policy[inside], rows.session[inside]] = rows.score[inside]
    return from_scores(table, arena.comparisons.items, missing_unlisted=True)


def disagreement(votes: Comparisons) -> float:
    """Return the share of sessions whose preference their scores do not explain."""
    apart, said = votes.score_first - votes.score_second, votes.outcome - 0.5
    known = np.isfinite(apart)
    return float(np.mean(((apart == 0) & (said != 0) | (apart * said < 0))[known]))


def _figure_6(arena: ArenaTables, count: int) -> list[PublishedLine]:
    measured = splits(arena, {name: method(name) for name in ORDERED}, count)
    of = {name: {what: quality.summary(scored.values[what])[0] for what in ('pearson', 'mmrv')}
          for name, scored in measured.items()}
    text = '; '.join(f'{name} {of[name]["pearson"]:.3f}, {of[name]["mmrv"]:.3f}'
                     for name in ORDERED)
    task = measured['task'].values
    margins = [quality.summary(sign * (task[what] - measured[name].values[what]))
               for name in ('elo', 'bt') for what, sign in (('pearson', 1.0), ('mmrv', -1.0))]
    return [ordered(
                PAPER, 'figure 6, TASK agrees better with the oracle than Elo and Bradley–Terry',
                'larger Pearson, smaller MMRV (drawn, not printed)', text, margins, SNAPSHOT),
            close(PAPER, 'figure 6, mean progress agrees well too', 'Pearson near that of TASK',
                  f'{of["progress"]["pearson"]:.3f} against {of["task"]["pearson"]:.3f}',
                  quality.summary(measured['progress'].values['pearson'] - task['pearson']), NEAR,
                  SNAPSHOT)]


def category_lines(said: Sequence[bool], true: Sequence[bool]) -> list[PublishedLine]:
    """Return the line of figure 8: how often the model's categories were right."""
    right = np.equal(said, true)
    return [close(PAPER, 'figure 8, accuracy of task categories', '94.6 % of 448 samples',
                  f'{100 * right.mean():.1f} % of {len(true)}, half of the samples',
                  mean_margin(right - 0.946), ROUNDED, 'half of the samples are public')]
