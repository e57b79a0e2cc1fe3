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
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from arena_robot.ranking.base import Comparisons, Floats, Ints
from arena_robot.ranking.davidson import outcome_probabilities

GROUPS = ('category', 'institution', 'evaluator')
BLOCKS = ('theta', *GROUPS, 'side', 'reliability', 'globals')


@dataclass(frozen=True)
class ModelTerms:
    """
    Where the unknowns of each verdict stand in x.

    ``start`` has the first place of every block; ``first`` and ``second`` (M, 4) are the places of
    the four parts of an ability, -1 for none; ``side``, ``reliability`` (M,) likewise; ``cells``
    are (group, policy) of the offsets of a block.
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
    return ModelTerms(votes, start, at + (4 if scored else 1), first, second, side, reliability,
                      cells, scored)


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


@dataclass(frozen=True)
class LocalLikelihood:
    """
    The model at one x: log-likelihood, its slope (P,) and expected information (P, P).

    ``gap`` (M,) are differences of abilities, ``apart`` (M,) and ``joint`` (M,) residuals of the
    difference and the sum of the scores, over √2; ``apart_rows``, ``joint_rows`` (M, P) their
    derivatives.
    """

    value: float
    slope: Floats
    information: Floats
    apart: Floats
    joint: Floats
    apart_rows: csr_array
    joint_rows: csr_array


def ability(terms: ModelTerms, x: Floats, places: Ints) -> Floats:
    """Return (M,) the abilities whose parts stand at ``places`` (M, 4)."""
    return np.asarray(np.append(x, 0.0)[places].sum(axis=1))


def link(terms: ModelTerms, x: Floats) -> tuple[float, float, float, float]:
    """Return κ, m, δ and β."""
    tail = x[terms.start['globals']:]
    return (float(np.exp(tail[0])), *(float(y) for y in tail[1:])) if terms.scored else (
        float(np.exp(tail[0])), 0.0, 1.0, 0.0)


def local(terms: ModelTerms, x: Floats, sigma: float, rho: float) -> LocalLikelihood:
    """Return the likelihood and its derivatives at x; ``sigma``, ``rho`` are of the scores."""
    votes = terms.votes
    kappa, m, delta, beta = link(terms, x)
    one, two = ability(terms, x, terms.first), ability(terms, x, terms.second)
    whole = np.append(x, 0.0)
    r = np.exp(whole[terms.reliability])
    gap, scores = one - two, votes.score_first - votes.score_second
    both = np.isfinite(scores)
    seen = np.where(both, scores, gap) if terms.scored else np.zeros(len(gap))
    inner = delta * gap + beta * seen
    win, tie, loss = outcome_probabilities(r * inner + whole[terms.side], kappa)
    w, mean, tied = votes.weight, win + tie / 2, votes.outcome == 0.5
    chance = np.select([votes.outcome == 1, tied], [win, tie], loss)
    rows = _verdict_rows(terms, r, inner, gap, seen, delta + np.where(both, 0.0, beta))
    kappa_row = np.zeros(terms.size)
    kappa_row[terms.start['globals']] = 1.0
    slope = rows.T @ (w * (votes.outcome - mean)) + kappa_row * float(w @ (tied - tie))
    cross = rows.T @ (w * tie * (0.5 - mean))
    information = (rows.T @ (rows * (w * (win + tie / 4 - mean ** 2))[:, None])).toarray()
    information += np.outer(cross, kappa_row) + np.outer(kappa_row, cross)
    information += np.outer(kappa_row, kappa_row) * float(w @ (tie * (1 - tie)))
    value = float(w @ np.log(np.maximum(chance, 1e-300)))
    apart, apart_rows = _score_rows(terms, votes, one, two, m, -1.0)
    joint, joint_rows = _score_rows(terms, votes, one, two, m, 1.0)
    for left, its_rows, spread in ((apart, apart_rows, sigma ** 2 * (1 - rho)),
                                   (joint, joint_rows, sigma ** 2 * (1 + rho))):
        if terms.scored:
            weight = w / spread * both
            value -= float(weight @ left ** 2 / 2 + (w * both).sum() * np.log(spread) / 2)
            slope += its_rows.T @ (weight * left)
            information += (its_rows.T @ (its_rows * weight[:, None])).toarray()
    return LocalLikelihood(value, slope, information, apart, joint, apart_rows, joint_rows)


def _verdict_rows(terms: ModelTerms, r: Floats, inner: Floats, gap: Floats, seen: Floats,
                  per_gap: Floats) -> csr_array:
    """Return (M, P) the derivatives of d."""
    entries: list[tuple[Ints, Floats]] = []
    for places, sign in ((terms.first, 1.0), (terms.second, -1.0)):
        entries += [(places[:, k], sign * r * per_gap) for k in range(places.shape[1])]
    entries += [(terms.reliability, r * inner), (terms.side, np.ones(len(r)))]
    if terms.scored:
        last = np.full(len(r), terms.size)
        entries += [(last - 2, r * gap), (last - 1, r * seen)]
    return _sparse(entries, len(r), terms.size)


def _score_rows(terms: ModelTerms, votes: Comparisons, one: Floats, two: Floats, m: float,
                sign: float) -> tuple[Floats, csr_array]:
    """Return (M,) residuals of (s_i ± s_j) / √2, 0 for unknown, and (M, P) their derivatives."""
    half, count = np.sqrt(0.5), len(votes)
    left = half * ((votes.score_first - m - one) + sign * (votes.score_second - m - two))
    entries: list[tuple[Ints, Any]] = []
    for places, side in ((terms.first, half), (terms.second, sign * half)):
        entries += [(places[:, k], np.full(count, side)) for k in range(places.shape[1])]
    if terms.scored and sign > 0:
        entries.append((np.full(count, terms.start['globals'] + 1), np.full(count, 2 * half)))
    return np.nan_to_num(left), _sparse(entries, count, terms.size)


def _sparse(entries: list[tuple[Ints, Floats]], count: int, size: int) -> csr_array:
    at = np.concatenate([places for places, _ in entries])
    values = np.concatenate([values for _, values in entries])
    rows, kept = np.tile(np.arange(count), len(entries)), at >= 0
    return csr_array((values[kept], (rows[kept], at[kept])), shape=(count, size))
