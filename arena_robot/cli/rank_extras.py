"""What `arena rank` tells on request beside the standings: sessions needed, and waiting."""

import argparse
from typing import Any


def needed(args: argparse.Namespace, comparisons: Any) -> dict[str, Any]:
    """Return how many more sessions are needed; ConfigError for an unknown goal."""
    from dataclasses import asdict

    from arena_robot.core.errors import ConfigError
    from arena_robot.ranking.intervals.needed import first_known, needed_words, sessions_needed
    goal = 'top' if args.needed.isdecimal() else args.needed
    if goal not in ('first', 'top', 'order'):
        raise ConfigError(f"--needed '{args.needed}' is neither first nor order nor a number")
    found = sessions_needed(comparisons, goal, int(args.needed) if goal == 'top' else 1,
                            level=args.level, cluster=args.cluster_by, seed=args.seed)
    return {**(asdict(found) if found else {'goal': goal}), 'words': needed_words(found),
            'first_known_at_any_look': first_known(comparisons, alpha=1 - args.level,
                                                   cluster=args.cluster_by)}


def waiting_told(comparisons: Any, level: float) -> dict[str, Any]:
    """Return how much waiting explains, and abilities with and without it; ConfigError."""
    import numpy as np

    from arena_robot.core.errors import ConfigError
    from arena_robot.ranking.pairwise.covariates import adjusted, known_waits
    kept, gap = known_waits(comparisons)
    if not len(kept):
        raise ConfigError('--waiting needs sessions with waited_a and waited_b, the shares of the '
                          'steps in which the arm waited; none of these has both')
    found = adjusted(kept, gap, ['waiting'], level)
    plain = adjusted(kept, np.zeros((len(kept), 0)))
    return {'known': len(kept), 'of': len(comparisons), 'gamma': found.gamma[0],
            'low': found.low[0], 'high': found.high[0],
            'standings': [{'policy': kept.items[k], 'score': found.fit.scores[k],
                           'with_waiting': plain.fit.scores[k]}
                          for k in np.argsort(-found.fit.scores, kind='stable')]}


def waiting_lines(told: dict[str, Any]) -> list[str]:
    """Return that as text."""
    width = max(len('policy'), *(len(one['policy']) for one in told['standings']))
    change, low, high = (0.1 * told[name] for name in ('gamma', 'low', 'high'))
    return ['', f"waiting is known of {told['known']} of {told['of']} comparisons; by "
            'Bradley–Terry, waiting in 10 % of the time more than the other',
            f'changes a score by {change:+.2f} ({low:+.2f} to {high:+.2f})',
            f"{'policy':{width}}  without waiting  as it was",
            *(f"{one['policy']:{width}}  {one['score']:15.3f}  {one['with_waiting']:9.3f}"
              for one in told['standings'])]
