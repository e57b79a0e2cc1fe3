"""
The tables of two papers on ratings of agents, from tables of scores.

"Evaluating Agents using Social Choice Theory" (Lanctot et al. 2023): tables 5 to 7 as printed, by
the names of the table of scores that open_spiel keeps. "Deviation ratings" (Marris et al. 2025):
the examples that its text or public data give.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np

from arena_robot.ranking.base import Comparisons, Floats
from arena_robot.ranking.games.deviation import deviation_ratings, rate_table, uniform_ratings
from arena_robot.ranking.games.nash_alpha import nash_average
from arena_robot.ranking.games.payoffs import MODEL_MODEL_TASK, MODEL_TASK, normalised
from arena_robot.ranking.pairwise.bradley_terry import BradleyTerry
from arena_robot.ranking.reproduce.lines import PublishedLine, line, unchecked
from arena_robot.ranking.voting.profile import Profile, from_scores
from arena_robot.ranking.voting.rules import vote
from arena_robot.ranking.voting.scoring import VoteResult

LANCTOT = 'Lanctot et al. 2023'
TABLES = {8: 'table 6', 10: 'table 7'}
NASH = {8: {'a3c', 'distrib-dqn', 'rainbow', 'dueling-ddqn'},
        10: {'a3c', 'distrib-dqn', 'rainbow', 'human'}}
FOUR = 4
_NAMES = {'rain': 'rainbow', 'dist': 'distrib-dqn', 'prio': 'prior-ddqn', 'duel': 'dueling-ddqn',
          'noisy': 'noisy-dqn'}
MARRIS = 'Marris et al. 2025'
# Table 2a: what R, P and S get against each other, and with the equilibrium N as a fourth.
SHAPLEY = np.array([
    [-8, -2, 4, -680 / 241], [2, -8, -1, -680 / 241], [-4, 1, -8, -680 / 241],
    [-712 / 241, -920 / 241, -184 / 241, -680 / 241]])
UNIFORM = (-2126, -2367, -3331, -2497)
ATARI_FIRST = {MODEL_TASK: 4, MODEL_MODEL_TASK: 3}


def atari_lines(agents: Sequence[str], scores: Floats) -> list[PublishedLine]:
    """Return the lines for ``scores`` (agents, games) of the 8 agents, or of 10 with two more."""
    count = len(agents)
    profile = from_scores(scores, agents)
    lines = [line(LANCTOT, f'table 5, Elo ratings of {count} agents', _text(ELO[count]),
                  _text(ratings := elo(agents, scores)), all(
                      abs(ratings[name] - value) <= 1.0 for name, value in ELO[count].items()),
                  'scores that are equal count half here, and are ordered at random there')]
    lines += [_rule(name, printed, vote(profile, name, 3, 3), agents, count)
              for name, printed in VOTES[count].items()]
    lines.append(_nash(agents, scores))
    if count == min(ELO):
        lines.append(_unique(profile))
    return lines


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
    same = bool(ours) and all(abs(ours[agent] - value) < 0.006 for agent, value in printed.items())
    order = ' > '.join(' = '.join(agents[k] for k in tier) for tier in result.tiers or ())
    place = {agents[k]: at for at, tier in enumerate(result.tiers or ()) for k in tier}
    names = sorted(printed, key=lambda agent: -printed[agent])
    fits = bool(place) and all(place[a] <= place[b] for a, b in pairwise(names)
                               if printed[a] > printed[b])
    why = ('the order is the same; ' if fits else 'the order differs; ') + WHY.get(
        name, 'ties in scores are broken at random there, and kept here')
    return line(LANCTOT, f'{TABLES[count]}, {name}', _text(printed), _text(ours) or order, same,
                why)


def _nash(agents: Sequence[str], scores: Floats) -> PublishedLine:
    """Return who shares the first place by Nash averaging of scores in [0, 1]."""
    table = normalised(scores)
    ratings = nash_average((table, -table)).ratings[0]
    first = {agents[k] for k in np.flatnonzero(ratings > ratings.max() - 1e-6).tolist()}
    count = len(agents)
    number = 5 if count == min(NASH) else 6
    return line(LANCTOT, f'observation {number}, Nash averaging of {count} agents: a tie of four',
                ', '.join(sorted(NASH[count])), ', '.join(sorted(first)),
                first == NASH[count] and len(first) == FOUR,
                'other agents are first on these scores')


def _unique(profile: Profile) -> PublishedLine:
    different = len(np.unique(profile.ranks, axis=0))
    return line(LANCTOT, 'observation 1, no two games order the agents alike',
                '54 of 54 different', f'{different} of {len(profile.ranks)} different',
                different == len(profile.ranks), 'some games agree on these scores')


def _text(table: Mapping[str, float]) -> str:
    return ', '.join(f'{name} {value:.5g}' for name, value in
                     sorted(table.items(), key=lambda entry: -entry[1]))


def _table(text: str) -> dict[str, float]:
    words = text.split()
    return {_NAMES.get(name, name): float(score)
            for name, score in zip(words[::2], words[1::2], strict=True)}


ELO = {
    8: _table('rain 424 dist 325 prio 274 duel 238 a3c 213 ddqn 162 noisy 92 dqn 0'),
    10: _table('rain 1049 dist 953 prio 912 duel 880 a3c 855 human 849 ddqn 810 noisy 748 '
               'dqn 658 random 0')}


VOTES = {
    8: {name: _table(text) for name, text in {
        'approval': 'rain 41 dist 35 prio 23 a3c 22 duel 19 ddqn 11 noisy 8 dqn 3',
        'borda': 'rain 295 dist 247 prio 222 duel 201 a3c 187 ddqn 159 noisy 122 dqn 79',
        'copeland': 'rain 7 dist 6 prio 5 duel 3.5 a3c 3.5 ddqn 2 noisy 1 dqn 0',
        'kemeny_young': 'rain 295 dist 232 prio 188 a3c 125 duel 123 ddqn 78 noisy 36 dqn 0',
        'iterative_maximal_lotteries':
            'rain 7 dist 6 prio 5 a3c 3.98 duel 3.02 ddqn 3 noisy 2 dqn 1',
        'plurality': 'rain 19 a3c 12 dist 8 prio 6 duel 5 noisy 2 ddqn 2 dqn 0',
        'ranked_pairs': 'rain 642 dist 430 prio 292 duel 152 a3c 102 ddqn 68 noisy 20 dqn 0',
        'schulze': 'rain 241 dist 204 prio 168 a3c 137 duel 110 ddqn 73 noisy 36 dqn 0',
        'stv': 'rain 16.19 dist 15.14 a3c 14.16 duel 8.12 prio 7.6 noisy 6.3 ddqn 5.2 dqn 4',
    }.items()},
    10: {name: _table(text) for name, text in {
        'approval': 'rain 38 dist 29 human 23 prio 20 a3c 20 duel 13 noisy 8 ddqn 8 dqn 3 '
                    'random 0',
        'borda': 'rain 384 dist 331 prio 304 duel 284 a3c 268 human 264 ddqn 239 noisy 200 '
                 'dqn 152 random 4',
        'copeland': 'rain 9 dist 8 prio 7 duel 5.5 a3c 5.5 ddqn 4 human 3 noisy 2 dqn 1 random 0',
        'kemeny_young': 'rain 384 dist 314 prio 271 a3c 206 duel 206 ddqn 158 human 119 noisy 90 '
                        'dqn 54 random 0',
        'iterative_maximal_lotteries': 'rain 9 dist 8 prio 7 duel 5.83 a3c 5.17 ddqn 5 human 4 '
                                       'noisy 3 dqn 2 random 1',
        'plurality': 'human 19 rain 11 a3c 9 dist 5 duel 5 prio 3 ddqn 2 random 0 noisy 0 dqn 0',
        'ranked_pairs': 'rain 1172 dist 890 prio 696 duel 444 a3c 390 ddqn 302 human 202 '
                        'noisy 126 dqn 54 random 0',
        'schulze': 'rain 315 dist 278 prio 242 a3c 211 duel 184 ddqn 147 human 119 noisy 90 '
                   'dqn 54 random 0',
        'stv': 'human 20.19 rain 19.14 a3c 18.14 dist 10.12 duel 9.6 prio 8.5 ddqn 7.2 random 6 '
               'noisy 5 dqn 4',
    }.items()}}


# Why a rule's scores differ where the order is the same; docs/ranking_voting_games.md.
WHY = {
    'schulze': 'the printed scores add only neighbours of the order, the text of the paper all '
               'lower ones',
    'iterative_maximal_lotteries': 'a level whose lottery is not unique gets no score here, and '
                                   "the solver's there",
    'stv': 'surplus votes are transferred as fractions here, and whole ballots there'}


def table_2_lines() -> list[PublishedLine]:
    """Return the lines of the biased Shapley game."""
    rated = np.concatenate(deviation_ratings([SHAPLEY, SHAPLEY.T]).ratings)
    equal = bool(np.ptp(rated) < 1e-9)
    lines = [line(MARRIS, 'table 2, four strategies have one deviation rating', 'R = P = S = N',
                  f'all {rated[0]:.6f}' if equal else str(rated.round(4).tolist()), equal,
                  'the ratings are not equal')]
    uniform = np.rint(964 * uniform_ratings([SHAPLEY, SHAPLEY.T])[0]).astype(int).tolist()
    return lines + [line(MARRIS, f'table 2, uniform rating of {name}', f'{printed}/964',
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
    lines = []
    for kind, count in ATARI_FIRST.items():
        rated = rate_table(normalised(scores), kind).ratings[0]
        first = [agents[k] for k in np.flatnonzero(rated > rated.max() - 1e-6).tolist()]
        known = {'r2d2(bandit)', 'agent57', 'muzero'} <= set(first)
        lines.append(line(
            MARRIS, f'figure 4, agents that share the first place, {kind}',
            f'{count} of 20, with r2d2(bandit), agent57 and muzero',
            f'{len(first)} of {len(agents)}: {", ".join(first)}', known and len(first) == count,
            'the scores of 20 agents are only printed; these are the newest 8 of them'))
    return lines
