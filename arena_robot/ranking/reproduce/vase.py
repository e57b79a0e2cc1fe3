"""The Atari tables of "Evaluating Agents using Social Choice Theory", from a table of scores."""

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np

from arena_robot.ranking.base import Comparisons, Floats
from arena_robot.ranking.bradley_terry import BradleyTerry
from arena_robot.ranking.deviation.ratings import normalised
from arena_robot.ranking.nash import nash_average
from arena_robot.ranking.reproduce.lines import PublishedLine, line
from arena_robot.ranking.reproduce.vase_tables import ELO, VOTES, WHY
from arena_robot.ranking.voting.profile import Profile, from_scores
from arena_robot.ranking.voting.result import VoteResult
from arena_robot.ranking.voting.rules import vote

LANCTOT = 'Lanctot et al. 2023'
TABLES = {8: 'table 6', 10: 'table 7'}
NASH = {8: {'a3c', 'distrib-dqn', 'rainbow', 'dueling-ddqn'},
        10: {'a3c', 'distrib-dqn', 'rainbow', 'human'}}
FOUR = 4


def atari_lines(agents: Sequence[str], scores: Floats) -> list[PublishedLine]:
    """Return the lines for ``scores`` (agents, games) of the 8 agents, or of 10 with two more."""
    count = len(agents)
    profile = from_scores(scores, agents)
    found = [line(LANCTOT, f'table 5, Elo ratings of {count} agents', _text(ELO[count]),
                  _text(ratings := elo(agents, scores)), all(
                      abs(ratings[name] - value) <= 1.0 for name, value in ELO[count].items()),
                  'scores that are equal count half here, and are ordered at random there')]
    found += [_rule(name, printed, vote(profile, name, 3, 3), agents, count)
              for name, printed in VOTES[count].items()]
    found.append(_nash(agents, scores))
    if count == min(ELO):
        found.append(_unique(profile))
    return found


def elo(agents: Sequence[str], scores: Floats) -> dict[str, float]:
    """Return Bradley–Terry's ratings of the games as Elo points, the lowest 0."""
    first, second = np.triu_indices(len(agents), 1)
    apart = scores[first] - scores[second]
    votes = Comparisons.build(np.repeat(first, scores.shape[1]), np.repeat(second,
                                                                          scores.shape[1]),
                              (np.sign(apart).ravel() + 1) / 2, items=agents)
    points = BradleyTerry()(votes).scores * 400 / np.log(10)
    return dict(zip(agents, (points - points.min()).tolist(), strict=True))


def _rule(name: str, printed: Mapping[str, float], result: VoteResult, agents: Sequence[str],
          count: int) -> PublishedLine:
    ours = {} if result.scores is None else dict(zip(agents, result.scores.tolist(), strict=True))
    same = bool(ours) and all(abs(ours[one] - value) < 0.006 for one, value in printed.items())
    order = ' > '.join(' = '.join(agents[k] for k in tier) for tier in result.tiers or ())
    place = {agents[k]: at for at, tier in enumerate(result.tiers or ()) for k in tier}
    names = sorted(printed, key=lambda one: -printed[one])
    fits = bool(place) and all(place[a] <= place[b] for a, b in pairwise(names)
                               if printed[a] > printed[b])
    why = ('the order is the same; ' if fits else 'the order differs; ') + WHY.get(
        name, 'ties in scores are broken at random there, and kept here')
    return line(LANCTOT, f'{TABLES[count]}, {name}', _text(printed), _text(ours) or order, same, why)


def _nash(agents: Sequence[str], scores: Floats) -> PublishedLine:
    """Return who shares the first place by Nash averaging of scores in [0, 1]."""
    table = normalised(scores)
    ratings = nash_average((table, -table)).ratings[0]
    first = {agents[k] for k in np.flatnonzero(ratings > ratings.max() - 1e-6).tolist()}
    count = len(agents)
    return line(LANCTOT, f'observation {5 if count == min(NASH) else 6}, Nash averaging of {count} '
                'agents: a tie of four', ', '.join(sorted(NASH[count])), ', '.join(sorted(first)),
                first == NASH[count] and len(first) == FOUR,
                'other agents are first on these scores')


def _unique(profile: Profile) -> PublishedLine:
    different = len(np.unique(profile.ranks, axis=0))
    return line(LANCTOT, 'observation 1, no two games order the agents alike', '54 of 54 different',
                f'{different} of {len(profile.ranks)} different',
                different == len(profile.ranks), 'some games agree on these scores')


def _text(table: Mapping[str, float]) -> str:
    return ', '.join(f'{name} {value:.5g}' for name, value in
                     sorted(table.items(), key=lambda one: -one[1]))
