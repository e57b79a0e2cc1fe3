"""
The unknowns of the hierarchical model, and what each verdict and score says of them.

Unknowns x, in this order: θ (n,) the abilities; an offset per policy in each category of task, at
each institution, and of each evaluator, where the policy occurs there; a side bias and a log
reliability per evaluator; and the globals log κ, and with scores m, δ and β.

    a_ki = θ_i + category + institution + evaluator                   ability in session k
    s_ki = m + a_ki + t_k + noise,  t_k the same for both policies    progress
    d_k  = R (δ (a_ki - a_kj) + β (s_ki - s_kj)) + b,  R = e^r        verdict: Davidson with d, κ

The verdict is conditional on the scores, so that what both say is not counted twice. Without
scores δ is 1 and β is 0. Scores that are missing are left out; in d their difference is then that
of the abilities.
"""

from dataclasses import dataclass

import numpy as np

from arena_robot.core.errors import RankingError
from arena_robot.ranking.base import Comparisons, Floats, Ints
from arena_robot.ranking.davidson import outcome_probabilities

GROUPS = ('category', 'institution', 'evaluator')
MOST_CELLS = 40_000_000
BLOCKS = ('theta', *GROUPS, 'side', 'reliability', 'globals')


@dataclass(frozen=True)
class ModelTerms:
    """
    Where the unknowns of each verdict stand in x.

    ``start`` has the first place of every block; ``first`` and ``second`` (M, 4) are the places of
    the four parts of an ability, -1 for none; ``side``, ``reliability`` (M,) likewise; ``cells``
    are (group, policy) of the offsets of a block. ``apart_rows`` and ``joint_rows`` (M, P) are the
    derivatives of (s_i - s_j) / √2 and of (s_i + s_j) / √2 by x.
    """

    votes: Comparisons
    start: dict[str, int]
    size: int
    first: Ints
    second: Ints
    side: Ints
    reliability: Ints
    cells: dict[str, Ints]
    scored: bool
    apart_rows: Floats
    joint_rows: Floats

    def block(self, name: str) -> slice:
        """Return where a block stands in x."""
        after = BLOCKS.index(name) + 1
        return slice(self.start[name],
                     self.start[BLOCKS[after]] if after < len(BLOCKS) else self.size)


def make_terms(votes: Comparisons) -> ModelTerms:
    """Return the unknowns that ``votes`` have; a group of which one is known has no offsets."""
    n, m = votes.n, len(votes)
    start, at, cells = {'theta': 0}, n, {}
    first, second = (np.full((m, 1 + len(GROUPS)), -1) for _ in range(2))
    first[:, 0], second[:, 0] = votes.first, votes.second
    for place, name in enumerate(GROUPS, 1):
        start[name] = at
        code, known = _known(votes, name)
        if len(np.unique(code[known])) < 2:
            cells[name] = np.zeros((0, 2), dtype=np.int64)
            continue
        keys, where = np.unique(np.concatenate([code * n + votes.first, code * n + votes.second])[
            np.tile(known, 2)], return_inverse=True)
        first[known, place], second[known, place] = (at + where).reshape(2, -1)
        cells[name] = np.stack(np.divmod(keys, n), axis=1)
        at += len(keys)
    side, reliability, start, at = _of_evaluators(votes, start, at)
    start['globals'] = at
    scored = bool(np.isfinite(votes.score_first + votes.score_second).any())
    size, half = at + (4 if scored else 1), np.full(m, np.sqrt(0.5))
    if m * size > MOST_CELLS:
        raise RankingError(f'the hierarchical model has {size} unknowns for {m} verdicts here, '
                           f'more than {MOST_CELLS} numbers; use bt or davidson')
    parts = [[(places[:, k], side * half) for places, side in ((first, 1.0), (second, sign))
              for k in range(first.shape[1])] for sign in (-1.0, 1.0)]
    if scored:
        parts[1].append((np.full(m, start['globals'] + 1), 2 * half))
    apart, joint = (row_matrix(entries, m, size) for entries in parts)
    return ModelTerms(votes, start, size, first, second, side, reliability, cells, scored, apart,
                      joint)


def row_matrix(entries: list[tuple[Ints, Floats]], count: int, size: int) -> Floats:
    """Return (M, P) the sum of values (M,) at their places (M,), -1 for none."""
    out, rows = np.zeros((count, size + 1)), np.arange(count)
    for places, values in entries:
        out[rows, places] += values
    return out[:, :-1]


def _known(votes: Comparisons, name: str) -> tuple[Ints, np.ndarray]:
    names = {'category': votes.categories, 'institution': votes.institutions,
             'evaluator': votes.evaluators}[name]
    code: Ints = getattr(votes, name)
    return code, np.array([bool(one) for one in names], dtype=bool)[code]


def _of_evaluators(votes: Comparisons, start: dict[str, int], at: int,
                   ) -> tuple[Ints, Ints, dict[str, int], int]:
    code, known = _known(votes, 'evaluator')
    people, place = np.unique(code[known], return_inverse=True)
    side, reliability = np.full(len(votes), -1), np.full(len(votes), -1)
    start = {**start, 'side': at, 'reliability': at}
    if len(people) > 1:
        start['reliability'] = at + len(people)
        side[known], reliability[known] = at + place, at + len(people) + place
        at += 2 * len(people)
    return side, reliability, start, at


def ability(x: Floats, places: Ints) -> Floats:
    """Return (M,) the abilities whose parts stand at ``places`` (M, 4)."""
    return np.asarray(np.append(x, 0.0)[places].sum(axis=1))


def link(terms: ModelTerms, x: Floats) -> tuple[float, float, float, float]:
    """Return κ, m, δ and β."""
    tail = x[terms.start['globals']:]
    m, delta, beta = tail[1:] if terms.scored else (0.0, 1.0, 0.0)
    return float(np.exp(tail[0])), float(m), float(delta), float(beta)


@dataclass(frozen=True)
class LocalLikelihood:
    """
    The model at one x, for σ and ρ of the scores; arrays (M,).

    ``gap`` are differences of abilities, ``seen`` of scores, ``scale`` is R; ``win`` and ``tie``
    are chances; ``apart`` and ``joint`` are residuals of the difference and the sum of the scores
    over √2, 0 where one is missing; ``both`` tells where neither is. ``value`` is the
    log-likelihood.
    """

    gap: Floats
    seen: Floats
    scale: Floats
    win: Floats
    tie: Floats
    apart: Floats
    joint: Floats
    both: np.ndarray
    spread: tuple[float, float]
    value: float


def local(terms: ModelTerms, x: Floats, sigma: float, rho: float) -> LocalLikelihood:
    """Return the model at x."""
    votes, w = terms.votes, terms.votes.weight
    kappa, m, delta, beta = link(terms, x)
    one, two, whole = ability(x, terms.first), ability(x, terms.second), np.append(x, 0.0)
    scores = votes.score_first - votes.score_second
    both, gap, scale = np.isfinite(scores), one - two, np.exp(whole[terms.reliability])
    seen = np.where(both, scores, gap) if terms.scored else np.zeros(len(gap))
    win, tie, loss = outcome_probabilities(
        scale * (delta * gap + beta * seen) + whole[terms.side], kappa)
    chance = np.select([votes.outcome == 1, votes.outcome == 0.5], [win, tie], loss)
    value = float(w @ np.log(np.maximum(chance, 1e-300)))
    left, right = votes.score_first - m - one, votes.score_second - m - two
    apart, joint = (np.nan_to_num((left + sign * right) * np.sqrt(0.5)) for sign in (-1, 1))
    spread = sigma ** 2 * (1 - rho), sigma ** 2 * (1 + rho)
    if terms.scored:
        known = float((w * both).sum())
        value -= sum(float(w @ rest ** 2) / (2 * v) + known * np.log(v) / 2
                     for rest, v in zip((apart, joint), spread, strict=True))
    return LocalLikelihood(gap, seen, scale, win, tie, apart, joint, both, spread, value)


def derivatives(terms: ModelTerms, x: Floats, here: LocalLikelihood) -> tuple[Floats, Floats]:
    """Return the slope (P,) of the log-likelihood and its expected information (P, P)."""
    votes, w, tie = terms.votes, terms.votes.weight, here.tie
    rows, at = _verdict_rows(terms, x, here), terms.start['globals']
    mean = here.win + tie / 2
    slope = rows.T @ (w * (votes.outcome - mean))
    slope[at] += float(w @ ((votes.outcome == 0.5) - tie))
    matrix = rows.T @ (rows * (w * (here.win + tie / 4 - mean ** 2))[:, None])
    cross = rows.T @ (w * tie * (0.5 - mean))
    matrix[at] += cross
    matrix[:, at] += cross
    matrix[at, at] += float(w @ (tie * (1 - tie)))
    if terms.scored:
        for rest, its_rows, v in ((here.apart, terms.apart_rows, here.spread[0]),
                                  (here.joint, terms.joint_rows, here.spread[1])):
            weight = w * here.both / v
            slope += its_rows.T @ (weight * rest)
            matrix += its_rows.T @ (its_rows * weight[:, None])
    return slope, np.asarray(matrix)


def _verdict_rows(terms: ModelTerms, x: Floats, here: LocalLikelihood) -> Floats:
    """Return (M, P) the derivatives of d."""
    _, _, delta, beta = link(terms, x)
    count = len(here.gap)
    per_gap = here.scale * (delta + (np.where(here.both, 0.0, beta) if terms.scored else 0.0))
    entries = [(places[:, k], sign * per_gap) for places, sign in (
        (terms.first, 1.0), (terms.second, -1.0)) for k in range(places.shape[1])]
    entries += [(terms.reliability, here.scale * (delta * here.gap + beta * here.seen)),
                (terms.side, np.ones(count))]
    if terms.scored:
        last = np.full(count, terms.size)
        entries += [(last - 2, here.scale * here.gap), (last - 1, here.scale * here.seen)]
    return row_matrix(entries, count, terms.size)
