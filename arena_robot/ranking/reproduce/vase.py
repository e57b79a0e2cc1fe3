"""
The statements of "Evaluating Agents using Social Choice Theory" (Lanctot et al. 2023).

The pentathlon of figure 1; tables 5 to 7 and the observations on Atari games, as printed, by the
names of the tables of scores that open_spiel keeps; the prediction of observation 9, on the
sessions of RoboArena. Beside them two statements on Soft Condorcet Optimisation (Lanctot et al.
2024) on the same ballots.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice, pairwise, permutations, product

import numpy as np
from scipy.special import expit

from arena_robot.ranking.base import Comparisons, Floats, Ints
from arena_robot.ranking.games.nash_alpha import NashAverage, alpha_rank, nash_average
from arena_robot.ranking.games.payoffs import normalised
from arena_robot.ranking.pairwise.bradley_terry import BradleyTerry
from arena_robot.ranking.quality import summary
from arena_robot.ranking.reproduce.lines import PublishedLine, line, ordered, unchecked
from arena_robot.ranking.voting.profile import Profile, from_scores
from arena_robot.ranking.voting.rules import vote
from arena_robot.ranking.voting.scoring import Tiers, VoteResult, votes_over_lower, widest_paths

LANCTOT = 'Lanctot et al. 2023'
SOFT = 'Lanctot et al. 2024'
TABLES = {8: 'table 6', 10: 'table 7'}
NASH = {8: {'a3c', 'distrib-dqn', 'rainbow', 'dueling-ddqn'},
        10: {'a3c', 'distrib-dqn', 'rainbow', 'human'}}
ALPHA_RANK = ('rainbow', 'distrib-dqn', 'dueling-ddqn', 'prior-ddqn', 'a3c', 'ddqn', 'noisy-dqn',
              'dqn')
_NAMES = {'rain': 'rainbow', 'dist': 'distrib-dqn', 'prio': 'prior-ddqn', 'duel': 'dueling-ddqn',
          'noisy': 'noisy-dqn'}
# Two of the five events rank C > A > B; the statements of the text leave no other profile.
PENTATHLON = Profile(('A', 'B', 'C'), np.array([[0, 1, 2], [0, 2, 1], [1, 2, 0], [2, 0, 1]]),
                     np.array([1.0, 1.0, 2.0, 1.0]))
MOST_WAYS = 4096    # ways to break the ties that are tried; a second of work
# The paper does not say how its ratings are smoothed; these wins of each over each give them.
SMOOTHING = 0.02
SOFT_DISTANCE = 0.043
PREDICTING = ('copeland', 'approval', 'plurality', 'borda')
WHERE = 'policies of robots are no players of Diplomacy'
WITHOUT_DATA = (
    ('observation 9, Copeland predicts games of Diplomacy better than Elo', 'figure 5'),
    ('appendix G, adaptive agents', 'tables 8 and 9'),
    ('appendix K, prompts for summaries', 'table 17'))


def pentathlon_lines() -> list[PublishedLine]:
    """Return the lines of the running example, and of copies that Elo takes for more agents."""
    results = {name: vote(PENTATHLON, name) for name in (*VOTES[8], 'soft_condorcet')}
    condorcet = ('copeland', 'kemeny_young', 'schulze', 'ranked_pairs',
                 'iterative_maximal_lotteries')
    paths, copeland = widest_paths(PENTATHLON.preferences), _scores(results['copeland'])
    strengths = [paths[0, 1], paths[2, 0], paths[2, 1]]
    points = elo(PENTATHLON.preferences)
    errors = [_copied(copies) for copies in range(1, 11)]
    soft = results['soft_condorcet']
    return [
        line(LANCTOT, 'figure 1, the Condorcet winner C is first by five Condorcet rules',
             'C > A > B', ', '.join(sorted({_order('ABC', results[name].tiers)
                                            for name in condorcet})),
             all(results[name].tiers == ((2,), (0,), (1,)) for name in condorcet)),
        line(LANCTOT, 'figure 1, A and C tie by plurality and Borda', 'A = C > B',
             _order('ABC', results['borda'].tiers), all(
                 results[name].tiers == ((0, 2), (1,)) for name in ('borda', 'plurality'))),
        line(LANCTOT, 'appendix C, Copeland scores of A, B, C and strongest paths A-B, C-A, C-B',
             '1, 0, 2 and 4, 3, 3', f'{_numbers(copeland)} and {_numbers(strengths)}',
             [*copeland, *strengths] == [1, 0, 2, 4, 3, 3]),
        line(LANCTOT, 'appendix B, Elo rates A and C alike, although C beats both', 'A = C > B',
             ', '.join(f'{name} {value:.1f}' for name, value in zip('ABC', points, strict=True)),
             abs(points[0] - points[2]) < 1e-6 and points[0] > points[1] + 1),
        line(LANCTOT, 'figure 2, copies of an agent raise the error of predictions by Elo '
             '(here in a cycle of win rates 0.7)', 'the error rises quickly',
             f'largest error {errors[0]:.2f}, with ten copies {errors[-1]:.2f}',
             all(low < high for low, high in pairwise(errors))),
        line(SOFT, 'a Condorcet winner has the largest rating, which Elo does not promise',
             'C alone is first', _order('ABC', soft.tiers), soft.winners == (2,)),
        *(unchecked(LANCTOT, what, where, 'the data are not public')
          for what, where in WITHOUT_DATA)]


def _copied(copies: int) -> float:
    """Return the largest error of Elo's predictions in a cycle A, B, C with ``copies`` of B."""
    kind = np.array([0, *[1] * copies, 2])
    rate = np.array([[0.5, 0.7, 0.3], [0.3, 0.5, 0.7], [0.7, 0.3, 0.5]])[np.ix_(kind, kind)]
    points = elo(rate * (1 - np.eye(len(kind)))) * np.log(10) / 400
    return float(np.abs(expit(points[:, None] - points) - rate).max())


def elo(preferences: Floats, smoothing: float = 0.0) -> Floats:
    """
    Return Bradley–Terry's ratings of N[x, y] wins of x over y as Elo points, the lowest 0.

    ``smoothing`` wins of each over each other one are added.
    """
    N = preferences + smoothing * (1 - np.eye(len(preferences)))
    x, y = np.nonzero(N)
    votes = Comparisons.build(x, y, np.ones(len(x)), weight=N[x, y])
    points = BradleyTerry()(votes).scores * 400 / np.log(10)
    return np.asarray(points - points.min())


def atari_lines(agents: Sequence[str], games: Sequence[str], scores: Floats,
                ) -> list[PublishedLine]:
    """Return the lines for ``scores`` (agents, games) of the 8 agents, or of 10 with two more."""
    count, profile = len(agents), from_scores(scores, agents)
    ways = list(islice(broken_ties(profile), MOST_WAYS))
    tables = [_tables(way, count) for way in ways]
    same = np.array([[table.same for table in row] for row in tables])
    best = int(same.sum(axis=1).argmax())
    lines = [line(LANCTOT, f'appendix E, the {len(ways)} ways to break ties: one is behind all '
                  f'tables of {count} agents', f'{same.shape[1]} of {same.shape[1]} tables',
                  f'{same[best].sum()} of {same.shape[1]} by the best, {same.any(axis=0).sum()} '
                  'by one each', bool(same[best].all()), 'the printed rules broke the ties in '
                  'different ways')]
    for k in range(same.shape[1]):
        way = best if same[best, k] or not same[:, k].any() else int(same[:, k].argmax())
        table, broken = tables[way][k], _broken(profile, ways[way], games)
        found = table.found if same[:, k].all() else f'{table.found}, with {broken}'
        lines.append(line(LANCTOT, table.what, _text(table.printed), found, table.same, table.why))
    lines.append(line(LANCTOT, f'the Condorcet winner of {count} agents', 'rainbow', _order(
        agents, (profile.condorcet_winners(),)), profile.condorcet_winners() == (
            agents.index('rainbow'),), 'these are other scores'))
    lines += _nash(agents, games, scores)
    if count == min(ELO):
        lines += _eight(agents, games, scores, profile, ways[best])
    return lines


def broken_ties(profile: Profile) -> Iterator[Profile]:
    """Yield the profiles of strict ballots that agree with complete ballots with ties."""
    tied = np.flatnonzero(profile.ranks.max(axis=1) < len(profile.names) - 1)
    for rows in product(*(_strict(profile.ranks[k]) for k in tied)):
        ranks = profile.ranks.copy()
        if rows:
            ranks[tied] = rows
        yield Profile(profile.names, ranks, profile.weights)


def _strict(ranks: Ints) -> list[Ints]:
    tiers = [np.flatnonzero(ranks == rank) for rank in range(ranks.max() + 1)]
    return [np.argsort(list(chain(*parts))) for parts in product(*map(permutations, tiers))]


def _broken(profile: Profile, strict: Profile, games: Sequence[str]) -> str:
    """Return as text how ``strict`` breaks the ties of ``profile``."""
    texts = []
    for game, ranks, order in zip(games, profile.ranks, strict.ranks, strict=True):
        for rank in range(ranks.max() + 1):
            tied = np.flatnonzero(ranks == rank)
            if len(tied) > 1:
                texts.append(f'{game}: ' + ' > '.join(
                    profile.names[k] for k in tied[np.argsort(order[tied])]))
    return '; '.join(texts)


@dataclass(frozen=True)
class _Table:
    """A printed table beside ours; ``same`` where the scores agree."""

    what: str
    printed: Mapping[str, float]
    found: str
    same: bool
    why: str


def _tables(profile: Profile, count: int) -> list[_Table]:
    points = dict(zip(profile.names, elo(profile.preferences, SMOOTHING).tolist(),
                      strict=True))
    same = all(abs(points[name] - value) <= 1.0 for name, value in ELO[count].items())
    return [_Table(f'table 5, Elo ratings of {count} agents', ELO[count], _text(points), same,
                   'the ratings of these orders are others'),
            *(_rule(profile, name, printed, f'{TABLES[count]}, {name}')
              for name, printed in VOTES[count].items())]


def _rule(profile: Profile, name: str, printed: Mapping[str, float], what: str) -> _Table:
    result = vote(profile, name, 3, 3, as_printed=True)
    scores, tiers = result.scores, result.tiers or ()
    if name == 'kemeny_young':    # of equally good orders the tables show one
        scores = votes_over_lower(profile.preferences, tuple((x,) for tier in tiers for x in tier))
    ours = {} if scores is None else {agent: value for agent, value in zip(
        profile.names, scores.tolist(), strict=True) if not np.isnan(value)}
    same = bool(ours) and all(abs(ours[agent] - printed[agent]) < 0.006 for agent in ours)
    found = _text(ours) if ours else _order(profile.names, tiers)
    if any(agent not in ours for agent in printed) and ours:
        levels = [level for level in result.levels or () if profile.names[level[0]] not in ours]
        same = same and all(_is_lottery(profile, printed, level, result.levels or ())
                            for level in levels)
        found += ', and any lottery of ' + _order(profile.names, levels)
    place = {profile.names[k]: at for at, tier in enumerate(tiers) for k in tier}
    names = sorted(printed, key=lambda agent: -printed[agent])
    fits = all(place[a] <= place[b] for a, b in pairwise(names) if printed[a] > printed[b])
    return _Table(what, printed, found, same, 'single scores differ, the order is the same'
                  if fits else 'the order differs')


def _is_lottery(profile: Profile, printed: Mapping[str, float], level: tuple[int, ...],
                levels: Tiers) -> bool:
    """Tell whether what is printed of a level is a maximal lottery, to two decimals."""
    base = len(levels) - 1 - levels.index(level)
    chance = np.array([printed[profile.names[k]] - base for k in level])
    margins = profile.margins[np.ix_(level, level)]
    return bool(abs(chance.sum() - 1) < 0.011 and chance.min() > -0.006
                and (chance @ margins).min() >= -0.011 * np.abs(margins).max())


def _nash(agents: Sequence[str], games: Sequence[str], scores: Floats) -> list[PublishedLine]:
    """Return who shares the first place by Nash averaging, and by which games."""
    count = len(agents)
    nash = _averaged(normalised(scores))
    first = {agents[k] for k in np.flatnonzero(nash.ratings[0] > nash.value - 1e-6).tolist()}
    used = {games[k] for k in nash.second.essential}
    number = 5 if count == min(NASH) else 6
    lines = [line(LANCTOT, f'observation {number}, Nash averaging of {count} agents: a tie of '
                  'four', ', '.join(sorted(NASH[count])), ', '.join(sorted(first)),
                  first == NASH[count], 'other agents are first on these scores')]
    if count == min(NASH):
        raw = [games[k] for k in _averaged(scores).second.essential]
        return [*lines, line(LANCTOT, 'observation 5, of 54 games it uses four', '4 games',
                             f'{len(used)}: {", ".join(sorted(used))}', len(used) == 4,
                             'other games are used on these scores'),
                line(LANCTOT, 'observation 4, of raw scores it uses one game', 'skiing',
                     ', '.join(raw), raw == ['skiing'], 'these are other scores')]
    eight = _averaged(normalised(scores[:min(NASH)])).second.essential
    shared = used & {games[k] for k in eight}
    return [*lines, line(LANCTOT, 'observation 6, it uses four games, one of which it uses of 8 '
                         'agents too', '4 games, 1 of them', f'{len(used)} games, {len(shared)} '
                         f'of them: {", ".join(sorted(shared))}',
                         (len(used), len(shared)) == (4, 1), 'other games are used here')]


def _averaged(table: Floats) -> NashAverage:
    return nash_average((table, -table))


def _eight(agents: Sequence[str], games: Sequence[str], scores: Floats, profile: Profile,
           best: Profile) -> list[PublishedLine]:
    """Return the lines that are stated of eight agents alone."""
    different = len(np.unique(profile.ranks, axis=0))
    clash = clashes([places(best, name) for name in VOTES[8]])
    pairs = [' and '.join(agents[k] for k in pair) for pair in np.argwhere(np.triu(clash))
             if agents.index('a3c') not in pair]
    table = normalised(scores)
    chance = alpha_rank((table, -table)).ratings[0]
    order = tuple(agents[k] for k in np.argsort(-chance))
    near = clashes([places(best, 'kemeny_young'), places(best, 'soft_condorcet')])
    apart = float(np.triu(near).sum()) / (len(agents) * (len(agents) - 1) / 2)
    return [
        line(LANCTOT, 'observation 1, no two games order the agents alike',
             f'{len(games)} of {len(games)} different', f'{different} of {len(games)} different',
             different == len(games), 'some games agree on these scores'),
        line(LANCTOT, 'observation 2, only a3c changes its place among the others between rules',
             'no other pair', ', '.join(pairs) or 'no other pair', not pairs,
             'the printed tables themselves order these pairs both ways'),
        line(LANCTOT, 'appendix F.0.3, α-Rank', ' > '.join(ALPHA_RANK), ' > '.join(order),
             order == ALPHA_RANK, 'the order differs on these scores'),
        line(SOFT, "Kendall's distance to the order of Kemeny–Young (averages, on other ballots)",
             f'0 to {SOFT_DISTANCE}', f'{apart:.3f}', apart <= SOFT_DISTANCE,
             'the distance is larger on these ballots')]


def places(profile: Profile, name: str) -> Floats:
    """Return (m,) the tier of each alternative by a rule, as the tables count."""
    place = np.zeros(len(profile.names))
    for at, tier in enumerate(vote(profile, name, 3, 3, as_printed=True).tiers or ()):
        place[list(tier)] = at
    return place


def clashes(orders: Sequence[Floats]) -> np.ndarray:
    """Return (m, m) the pairs that are put both ways round by some of several (m,) places."""
    way = np.sign(np.array(orders)[:, :, None] - np.array(orders)[:, None, :])
    return np.asarray((way > 0).any(axis=0) & (way < 0).any(axis=0))


def regime_line(agents: Sequence[str], scores: Floats, other: Floats) -> PublishedLine:
    """Return observation 3 for the (agents, games) ``scores`` of two ways to start a game."""
    what, published = 'observation 3, both ways to start a game rank alike', '9 of 9 rules'
    if np.array_equal(scores, other):
        return unchecked(LANCTOT, what, published, 'the files of both tables have the same scores')
    profiles = [next(broken_ties(from_scores(table, agents))) for table in (scores, other)]
    alike = [name for name in VOTES[8] if not clashes([places(p, name) for p in profiles]).any()]
    return line(LANCTOT, what, published, f'{len(alike)} of {len(VOTES[8])} rules: '
                f'{", ".join(alike)}', len(alike) == len(VOTES[8]), 'the orders differ')


def prediction_lines(profile: Profile, count: int = 50) -> list[PublishedLine]:
    """
    Return observation 9 on other ballots: who predicts the order of a ballot better than Elo.

    ``count`` times the rules and Elo order four fifths of the ballots; the error is Kendall's
    distance of that order to the order of each other ballot, on average.
    """
    gain = prediction_gains(profile, count)
    text = 'errors ' + ', '.join(f'{name} {error:.4f}' for name, (error, _) in gain.items())
    margins = {name: summary(better) for name, (_, better) in gain.items()}
    return [
        ordered(LANCTOT, "observation 9, on RoboArena's sessions: Copeland and approval predict "
                'better than Elo', 'significantly, in Diplomacy', text,
                [margins['copeland'], margins['approval']], WHERE),
        ordered(LANCTOT, "observation 9, on RoboArena's sessions: Borda predicts worse than Elo",
                'significantly, in Diplomacy', text, [summary(0.0 - gain['borda'][1])], WHERE)]


def prediction_gains(profile: Profile, count: int, share: float = 0.8, seed: int = 0,
                     ) -> dict[str, tuple[float, Floats]]:
    """Return by rule its mean error, and (count,) how much smaller than Elo's it is."""
    rng, n = np.random.default_rng(seed), len(profile.ranks)
    errors: dict[str, list[float]] = {name: [] for name in ('elo', *PREDICTING)}
    for _ in range(count):
        train, test = (Profile(profile.names, profile.ranks[rows], profile.weights[rows])
                       for rows in np.split(rng.permutation(n), [round(share * n)]))
        ratings = {'elo': elo(train.preferences),
                   **{name: _scores(vote(train, name)) for name in PREDICTING}}
        for name, scores in ratings.items():
            errors[name].append(kendall_error(scores, test))
    return {name: (float(np.mean(wrong)), np.subtract(errors['elo'], wrong))
            for name, wrong in errors.items()}


def kendall_error(scores: Floats, test: Profile) -> float:
    """Return the pairs that (m,) scores put the wrong way round, per ballot; half for a tie."""
    lower = scores[:, None] < scores[None, :]
    wrong = lower + (scores[:, None] == scores[None, :]) / 2
    return float((test.preferences * wrong).sum() / test.weights.sum())


def _order(names: Sequence[str], tiers: Sequence[Sequence[int]] | None) -> str:
    return ' > '.join(' = '.join(names[k] for k in tier) for tier in tiers or ())


def _scores(result: VoteResult) -> Floats:
    return np.zeros(0) if result.scores is None else result.scores


def _numbers(values: Iterable[float]) -> str:
    return ', '.join(f'{value:g}' for value in values)


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


