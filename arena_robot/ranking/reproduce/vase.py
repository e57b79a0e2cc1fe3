"""
The statements of "Evaluating Agents using Social Choice Theory" (Lanctot et al. 2023).

The pentathlon of figure 1; tables 5 to 7 and the observations on Atari games, as printed, by the
names of the tables of scores that open_spiel keeps; the prediction of observation 9, on the
sessions of RoboArena. Beside them two statements on Soft Condorcet Optimisation (Lanctot et al.
2024) on the same ballots.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, islice, pairwise, permutations, product

import numpy as np
from scipy.special import expit

from arena_robot.ranking.base import Comparisons, Floats, Ints
from arena_robot.ranking.games.nash_alpha import alpha_rank, nash_average
from arena_robot.ranking.games.payoffs import normalised
from arena_robot.ranking.pairwise.bradley_terry import BradleyTerry
from arena_robot.ranking.quality import summary
from arena_robot.ranking.reproduce.lines import (
    PublishedLine,
    Reproduction,
    line,
    ordered,
    unchecked,
)
from arena_robot.ranking.voting.profile import Profile, from_scores
from arena_robot.ranking.voting.rules import vote
from arena_robot.ranking.voting.scoring import (
    Tiers,
    VoteResult,
    tiers_of,
    votes_over_lower,
    widest_paths,
)

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
MOST_WAYS = 512    # ways to break ties that are tried; each counts ten tables
# Wins of each over each that Elo adds. The paper does not say how many; with these the printed
# ratings of ten agents are found again.
SMOOTHING = 0.02
SOFT_DISTANCE = 0.043    # the largest average that the abstract states
CONDORCET = ('copeland', 'kemeny_young', 'schulze', 'ranked_pairs',
             'iterative_maximal_lotteries')
PREDICTING = ('copeland', 'approval', 'plurality', 'borda')
NOT_DIPLOMACY = 'policies of robots are no players of Diplomacy'
NOT_PUBLIC = 'the data are not public'
WITHOUT_DATA = (
    ('observation 9, Copeland predicts games of Diplomacy better than Elo', 'figure 5',
     NOT_PUBLIC),
    ('appendix G, adaptive agents', 'tables 8 and 9', NOT_PUBLIC),
    ('observations 7 and 8 and appendix I, AgentBench', 'tables 10 to 14',
     'the scores are printed in a paper and in no public file that we know'),
    ('appendix J, Chatbot Arena', 'tables 15 and 16',
     'the conversations are handed out under terms of their own'),
    ('appendix K, prompts for summaries', 'table 17', NOT_PUBLIC),
    ('appendix L, HELM', 'tables 18 to 24', 'the scores of April 2023 are in no one public file'))


def pentathlon_lines() -> list[PublishedLine]:
    """Return the lines of the running example, and of copies that Elo takes for more agents."""
    orders = {name: _order('ABC', vote(PENTATHLON, name).tiers)
              for name in (*VOTES[8], 'soft_condorcet') if name != 'approval'}
    paths, points = widest_paths(PENTATHLON.preferences), elo(PENTATHLON.preferences)
    copeland = _scores(vote(PENTATHLON, 'copeland'))
    errors = [_copied(copies) for copies in range(1, 11)]
    return [
        _same('figure 1, the Condorcet winner C is first by five Condorcet rules', 'C > A > B',
              ', '.join(sorted({orders[name] for name in CONDORCET}))),
        _same('figure 1, A and C tie by plurality and Borda', 'A = C > B',
              ', '.join(sorted({orders[name] for name in ('borda', 'plurality')}))),
        _same('appendix C, Copeland scores of A, B, C and strongest paths A-B, C-A, C-B',
              '1, 0, 2 and 4, 3, 3',
              f'{_numbers(copeland)} and {_numbers([paths[0, 1], *paths[2, :2]])}'),
        _same('appendix B, Elo rates A and C alike, although C beats both', 'A = C > B',
              _order('ABC', tiers_of(points, 1e-6))),
        line(LANCTOT, 'figure 2, copies of an agent raise the error of predictions by Elo '
             '(here in a cycle of win rates 0.7)', 'the error rises quickly',
             f'largest error {errors[0]:.2f}, with ten copies {errors[-1]:.2f}',
             all(low < high for low, high in pairwise(errors))),
        replace(_same('the Condorcet winner of figure 1 has the largest rating', 'C > A > B',
                      orders['soft_condorcet']), paper=SOFT),
        *(unchecked(LANCTOT, *row) for row in WITHOUT_DATA)]


def _same(what: str, published: str, found: str, why: str = 'these are other scores',
          ) -> PublishedLine:
    return line(LANCTOT, what, published, found, published == found, why)


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
    same = np.array([[shown.agreement is Reproduction.REPRODUCED for shown in row]
                     for row in tables])
    best = int(same.sum(axis=1).argmax())
    lines = [line(LANCTOT, f'appendix E, the {len(ways)} ways to break ties: one is behind all '
                  f'tables of {count} agents', f'{same.shape[1]} of {same.shape[1]} tables',
                  f'{same[best].sum()} of {same.shape[1]} by the best, {same.any(axis=0).sum()} '
                  'by one each', bool(same[best].all()), 'the printed rules broke the ties in '
                  'different ways')]
    for k in range(same.shape[1]):
        way = best if same[best, k] or not same[:, k].any() else int(same[:, k].argmax())
        shown = tables[way][k]
        lines.append(shown if same[:, k].all() else replace(
            shown, found=f'{shown.found}, with {_broken(profile, ways[way], games)}'))
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


def _tables(profile: Profile, count: int) -> list[PublishedLine]:
    points = dict(zip(profile.names, elo(profile.preferences, SMOOTHING).tolist(), strict=True))
    return [line(LANCTOT, f'table 5, Elo ratings of {count} agents', _text(ELO[count]),
                 _text(points), all(abs(points[name] - value) <= 1.0
                                    for name, value in ELO[count].items()),
                 'these orders give other ratings'),
            *(_rule(profile, name, printed, f'{TABLES[count]}, {name}')
              for name, printed in VOTES[count].items())]


def _rule(profile: Profile, name: str, printed: Mapping[str, float], what: str) -> PublishedLine:
    result = vote(profile, name, 3, 3, as_printed=True)
    scores, tiers = _scores(result), result.tiers or ()
    if name == 'kemeny_young':    # of equally good orders the tables show one
        scores = votes_over_lower(profile.preferences, tuple((x,) for tier in tiers for x in tier))
    ours = {profile.names[k]: float(scores[k]) for k in np.flatnonzero(np.isfinite(scores))}
    levels = [level for level in result.levels or () if profile.names[level[0]] not in ours]
    same = bool(ours) and all(abs(value - printed[agent]) < 0.006 for agent, value in ours.items())
    found = _text(ours) if ours else _order(profile.names, tiers)
    if levels:
        found += ', and any lottery of ' + _order(profile.names, levels)
    return line(LANCTOT, what, _text(printed), found, same and all(
        _is_lottery(profile, printed, level, result.levels or ()) for level in levels),
        'these orders give other scores')


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
    nash, raw = (nash_average((table, -table)) for table in (normalised(scores), scores))
    first = np.flatnonzero(nash.ratings[0] > nash.value - 1e-6).tolist()
    used = {games[k] for k in nash.second.essential}
    number = 5 if len(agents) == min(NASH) else 6
    tie = _same(f'observation {number}, Nash averaging of {len(agents)} agents: a tie of four',
                ', '.join(sorted(NASH[len(agents)])), ', '.join(sorted(agents[k] for k in first)))
    if number == 5:
        return [tie, line(LANCTOT, 'observation 5, of 54 games it uses four', '4 games',
                          f'{len(used)}: {", ".join(sorted(used))}', len(used) == 4,
                          'these are other scores'),
                _same('observation 4, of raw scores it uses one game', 'skiing',
                      ', '.join(games[k] for k in raw.second.essential))]
    eight = normalised(scores[:min(NASH)])
    shared = used & {games[k] for k in nash_average((eight, -eight)).second.essential}
    return [tie, _same('observation 6, games that it uses, and uses of the eight agents too',
                       '4 and 1', f'{len(used)} and {len(shared)}')]


def _eight(agents: Sequence[str], games: Sequence[str], scores: Floats, profile: Profile,
           best: Profile) -> list[PublishedLine]:
    """Return the lines that are stated of eight agents alone."""
    different = len(np.unique(profile.ranks, axis=0))
    clash = clashes([places(best, name) for name in VOTES[8]])
    pairs = [' and '.join(agents[k] for k in pair) for pair in np.argwhere(np.triu(clash))
             if agents.index('a3c') not in pair]
    table = normalised(scores)
    order = np.argsort(-alpha_rank((table, -table)).ratings[0])
    near = clashes([places(best, 'kemeny_young'), places(best, 'soft_condorcet')])
    apart = near.sum() / (len(agents) * (len(agents) - 1))
    return [
        _same('observation 1, different orders of the agents by the games', f'{len(games)}',
              f'{different}'),
        _same('observation 2, pairs without a3c that rules put both ways round', 'none',
              ', '.join(pairs) or 'none', 'the printed tables themselves do so'),
        _same('appendix F.0.3, α-Rank', ' > '.join(ALPHA_RANK),
              ' > '.join(agents[k] for k in order)),
        line(SOFT, "Kendall's distance to the order of Kemeny–Young (averages, on other ballots)",
             f'0 to {SOFT_DISTANCE}', f'{apart:.3f}', bool(apart <= SOFT_DISTANCE),
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
                [margins['copeland'], margins['approval']], NOT_DIPLOMACY),
        ordered(LANCTOT, "observation 9, on RoboArena's sessions: Borda predicts worse than Elo",
                'significantly, in Diplomacy', text, [summary(0.0 - gain['borda'][1])],
                NOT_DIPLOMACY)]


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


def _printed(agents: str, rows: Mapping[str, str]) -> dict[str, dict[str, float]]:
    """Return by rule the score of each agent, from rows in the order of ``agents``."""
    names = [_NAMES.get(name, name) for name in agents.split()]
    return {rule: dict(zip(names, map(float, row.split()), strict=True))
            for rule, row in rows.items()}


_EIGHT = _printed('rain dist prio duel a3c ddqn noisy dqn', {
    'elo': '424 325 274 238 213 162 92 0',
    'approval': '41 35 23 19 22 11 8 3',
    'borda': '295 247 222 201 187 159 122 79',
    'copeland': '7 6 5 3.5 3.5 2 1 0',
    'kemeny_young': '295 232 188 123 125 78 36 0',
    'iterative_maximal_lotteries': '7 6 5 3.02 3.98 3 2 1',
    'plurality': '19 8 6 5 12 2 2 0',
    'ranked_pairs': '642 430 292 152 102 68 20 0',
    'schulze': '241 204 168 110 137 73 36 0',
    'stv': '16.19 15.14 7.6 8.12 14.16 5.2 6.3 4'})
_TEN = _printed('rain dist prio duel a3c human ddqn noisy dqn random', {
    'elo': '1049 953 912 880 855 849 810 748 658 0',
    'approval': '38 29 20 13 20 23 8 8 3 0',
    'borda': '384 331 304 284 268 264 239 200 152 4',
    'copeland': '9 8 7 5.5 5.5 3 4 2 1 0',
    'kemeny_young': '384 314 271 206 206 119 158 90 54 0',
    'iterative_maximal_lotteries': '9 8 7 5.83 5.17 4 5 3 2 1',
    'plurality': '11 5 3 5 9 19 2 0 0 0',
    'ranked_pairs': '1172 890 696 444 390 202 302 126 54 0',
    'schulze': '315 278 242 184 211 119 147 90 54 0',
    'stv': '19.14 10.12 8.5 9.6 18.14 20.19 7.2 5 4 6'})
ELO = {8: _EIGHT.pop('elo'), 10: _TEN.pop('elo')}
VOTES = {8: _EIGHT, 10: _TEN}
