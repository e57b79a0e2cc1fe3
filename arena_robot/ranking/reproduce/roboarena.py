"""What RoboArena's paper says of its evaluations, from its public tables."""

from collections.abc import Sequence

import numpy as np
from scipy.special import stdtrit

from arena_robot.ranking import quality
from arena_robot.ranking.base import Comparisons
from arena_robot.ranking.methods import method
from arena_robot.ranking.quality import reference, splits
from arena_robot.ranking.reproduce.lines import PublishedLine, line, ordered, unchecked
from arena_robot.ranking.rollouts import ArenaTables

PAPER = 'RoboArena 2025'
POLICIES = tuple(f'{name}_droid' for name in (
    'paligemma_binning', 'paligemma_diffusion', 'paligemma_fast', 'paligemma_fast_specialist',
    'paligemma_vq', 'pi0', 'pi0_fast'))
SNAPSHOT = 'this is a snapshot of 29 April 2025, before the paper'
ORDERED = ('elo', 'bt', 'progress', 'task')


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


def margin(arena: ArenaTables, first: str, second: str) -> tuple[float, float, float]:
    """
    Return by how much ``first`` gets further than ``second`` in the sessions that scored both.

    The mean of the differences with its 95 % interval (Student's t).
    """
    rows, items = arena.rollouts, arena.comparisons.items
    scores = []
    for name in (first, second):
        own = (rows.policy == items.index(name)) & (rows.session >= 0)
        scores.append(dict(zip(rows.session[own], rows.score[own], strict=True)))
    apart = np.array([scores[0][k] - scores[1][k] for k in scores[0].keys() & scores[1].keys()])
    mean = float(apart.mean())
    reach = float(stdtrit(len(apart) - 1, 0.975) * apart.std(ddof=1) / np.sqrt(len(apart)))
    return mean, mean - reach, mean + reach


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
            line(PAPER, 'figure 6, mean progress agrees well too', 'Pearson near that of TASK',
                 f'{of["progress"]["pearson"]:.3f} against {of["task"]["pearson"]:.3f}',
                 abs(of['progress']['pearson'] - of['task']['pearson']) < 0.02, SNAPSHOT)]


def category_lines(said: Sequence[bool], true: Sequence[bool]) -> list[PublishedLine]:
    """Return the line of figure 8: how often the model's categories were right."""
    right = float(np.mean(np.asarray(said) == np.asarray(true))) if len(true) else float('nan')
    return [line(PAPER, 'figure 8, accuracy of task categories', '94.6 % of 448 samples',
                 f'{100 * right:.1f} % of {len(true)}', round(100 * right, 1) == 94.6,
                 'half of the samples are public')]
