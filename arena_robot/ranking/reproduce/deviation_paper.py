"""The examples of "Deviation ratings" (Marris et al. 2025) that its text or public data give."""

from collections.abc import Sequence

import numpy as np

from arena_robot.ranking.base import Floats
from arena_robot.ranking.deviation.ratings import (
    MODEL_MODEL_TASK,
    MODEL_TASK,
    deviation_ratings,
    normalised,
    rate_table,
    uniform_ratings,
)
from arena_robot.ranking.reproduce.lines import PublishedLine, line, unchecked

MARRIS = 'Marris et al. 2025'
# Table 2a: what R, P and S get against each other, and with the equilibrium N as a fourth.
SHAPLEY = np.array([
    [-8, -2, 4, -680 / 241], [2, -8, -1, -680 / 241], [-4, 1, -8, -680 / 241],
    [-712 / 241, -920 / 241, -184 / 241, -680 / 241]])
UNIFORM = (-2126, -2367, -3331, -2497)
ATARI_FIRST = {MODEL_TASK: 4, MODEL_MODEL_TASK: 3}


def table_2_lines() -> list[PublishedLine]:
    """Return the lines of the biased Shapley game."""
    rated = np.concatenate(deviation_ratings([SHAPLEY, SHAPLEY.T]).ratings)
    equal = bool(np.ptp(rated) < 1e-9)
    found = [line(MARRIS, 'table 2, four strategies have one deviation rating', 'R = P = S = N',
                  f'all {rated[0]:.6f}' if equal else str(rated.round(4).tolist()), equal,
                  'the ratings are not equal')]
    uniform = np.rint(964 * uniform_ratings([SHAPLEY, SHAPLEY.T])[0]).astype(int).tolist()
    return found + [line(MARRIS, f'table 2, uniform rating of {name}', f'{printed}/964',
                         f'{ours}/964', ours == printed, 'the printed payoffs give this value')
                    for name, printed, ours in zip('RPSN', UNIFORM, uniform, strict=True)]


def livebench_lines(models: Sequence[str], scores: Floats | None) -> list[PublishedLine]:
    """Return the line of LiveBench's four-way tie, for scores (models, tasks) where given."""
    what, published = 'figure 2, four models share the first place', 'a tie of four at -0.0497'
    if scores is None:
        return [unchecked(MARRIS, what, published, 'the scores of 18 August 2024 are not in a '
                          'public repository; give them with --livebench')]
    rated = rate_table(scores).ratings[0]
    first = np.flatnonzero(rated > rated.max() - 1e-6).tolist()
    return [line(MARRIS, what, published, f'{", ".join(models[k] for k in first)} at '
                 f'{rated.max():.4f}', len(first) == 4 and abs(rated.max() + 0.0497) < 6e-5,
                 'these are other scores')]


def atari_tie_lines(agents: Sequence[str], scores: Floats) -> list[PublishedLine]:
    """Return how many agents share the first place on the scores of eight agents."""
    found = []
    for kind, count in ATARI_FIRST.items():
        rated = rate_table(normalised(scores), kind).ratings[0]
        first = [agents[k] for k in np.flatnonzero(rated > rated.max() - 1e-6).tolist()]
        known = {'r2d2(bandit)', 'agent57', 'muzero'} <= set(first)
        found.append(line(
            MARRIS, f'figure 4, agents that share the first place, {kind}',
            f'{count} of 20, with r2d2(bandit), agent57 and muzero',
            f'{len(first)} of {len(agents)}: {", ".join(first)}', known and len(first) == count,
            'the scores of 20 agents are only printed; these are the newest 8 of them'))
    return found
