"""
The unknowns of the hierarchical model, and what each verdict, score and audit says of them.

Unknowns x, in this order: the abilities θ (n,); the offsets; a side bias and a log reliability per
evaluator; the ``GLOBALS`` that the data have. A policy has an offset in each category of task, at
each institution, for each evaluator, in each light and clutter in which it occurs.

    a_ki = θ_i + the offsets of the session's groups                  ability in session k
    s_ki = m + a_ki + t_k + noise,  t_k the same for both policies    progress, cut at 0 and 1
    u_ki = m' + c a_ki + g s_ki + t'_k + noise                        audit
    d_k  = R (δ (a_ki - a_kj) + β (s_ki - s_kj) + α (u_ki - u_kj) + ω (w_ki - w_kj)) + b

Verdict: Davidson with d and κ, R = e^r; w is the share of a rollout in which the arm stood still.
The audit is conditional on the scores, and the verdict on both, so that nothing counts twice.
Where there are no scores, audits take their place. Without either, δ is 1 and β is 0; without
audits beside scores α is 0; without w ω is 0. A missing score or audit is left out; in d its
difference is the one that the abilities let expect.

Progress ends at 0 and at 1. Of a rollout at an end it is known that it got at most, or at least,
so far: its residual is not r but anything up to r, or from r on. The fit needs the probability of
such a pair of residuals, and their mean and covariance given what is known. The slope of the
log-likelihood by the expected values is Σ⁻¹ E[r], and minus its second derivative is
Σ⁻¹ - Σ⁻¹ Cov[r] Σ⁻¹ (Louis, 1982).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import log_ndtr

from arena_robot.core.errors import RankingError
from arena_robot.ranking.base import FACTORS, Comparisons, Floats, Ints

GROUPS = ('category', 'institution', 'evaluator', *FACTORS)
MOST_CELLS = 40_000_000    # verdicts times unknowns, and the square of the unknowns
BLOCKS = ('theta', *GROUPS, 'side', 'reliability', 'globals')
PART = 4_000_000           # numbers of sparse rows that are multiplied at once, 32 MB
# Unknowns of the whole data, with start and prior standard deviation about 0.
GLOBALS = {'log_kappa': (-0.5, 2.0), 'm': (0.5, 1.0), 'delta': (1.0, 5.0), 'beta': (3.0, 10.0),
           'audit_m': (0.5, 1.0), 'audit_c': (0.2, 2.0), 'audit_g': (0.0, 2.0),
           'alpha': (0.0, 10.0), 'omega': (0.0, 5.0)}
OF_SCORES, OF_AUDITS = ('m', 'delta', 'beta'), ('audit_m', 'audit_c', 'audit_g', 'alpha')
OF_PERSON = ('side', 'reliability')
# Where enough scores lie between the ends, the ends are ends of a scale; else they are all of it.
INSIDE = 0.2
NODES, WEIGHTS = np.polynomial.legendre.leggauss(40)
# Below -8 a normal has 6e-16 of its mass; 4 below an end at -8 its density is e⁻⁴⁰ of that there.
FAR, TAIL = 8.0, 4.0
HALF_LOG_TAU = 0.5 * np.log(2 * np.pi)


@dataclass(frozen=True)
class ModelTerms:
    """
    Where the unknowns of each verdict stand in x.

    ``start`` has the first place of every block, ``places`` that of each global; ``first`` and
    ``second`` (M, G) are the places of the parts of an ability, -1 for none; ``side``,
    ``reliability`` (M,) likewise; ``cells`` are (group, policy) of the offsets of a block.
    ``audits`` and ``waits`` (M, 2) are NaN where they are not known;
    ``ends`` (M, 2) mark scores at an end of the scale.
    """

    votes: Comparisons
    start: dict[str, int]
    size: int
    first: Ints
    second: Ints
    side: Ints
    reliability: Ints
    cells: dict[str, Ints]
    places: dict[str, int]
    audits: Floats
    waits: Floats
    ends: Ints

    @property
    def scored(self) -> bool:
        """Whether any comparison has both scores, or audits in their place."""
        return 'beta' in self.places

    @property
    def audited(self) -> bool:
        """Whether any comparison has both audits, beside scores."""
        return 'alpha' in self.places

    def block(self, name: str) -> slice:
        """Return where a block stands in x."""
        after = BLOCKS.index(name) + 1
        return slice(self.start[name],
                     self.start[BLOCKS[after]] if after < len(BLOCKS) else self.size)


def make_terms(votes: Comparisons) -> ModelTerms:
    """Return the unknowns that ``votes`` have; a group of which one is known has no offsets."""
    votes, audits = _measured(votes)
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
    seen = (first >= 0).any(axis=0) | (second >= 0).any(axis=0)
    first, second = first[:, seen], second[:, seen]
    side, reliability, start, at = _of_evaluators(votes, start, at)
    start['globals'] = at
    waits = votes.conditions.measures.get('waited', np.full((m, 2), np.nan))
    names = ['log_kappa', *(OF_SCORES if _has(_scores(votes)) else ()),
             *(OF_AUDITS if _has(audits) else ()), *(('omega',) if _has(waits) else ())]
    size = at + len(names)
    if m * size > MOST_CELLS:
        raise RankingError(f'the hierarchical model has {size} unknowns for {m} verdicts here, '
                           f'more than {MOST_CELLS} numbers; use bt or davidson')
    places = {name: at + k for k, name in enumerate(names)}
    return ModelTerms(votes, start, size, first, second, side, reliability, cells, places, audits,
                      waits, at_ends(votes.score_first, votes.score_second))


def _measured(votes: Comparisons) -> tuple[Comparisons, Floats]:
    """Return the votes with audits in the place of scores where there are none, and the others."""
    nothing = np.full((len(votes), 2), np.nan)
    audits = votes.conditions.measures.get('audit', nothing)
    if _has(_scores(votes)) or not _has(audits):
        return votes, audits
    return replace(votes, score_first=audits[:, 0], score_second=audits[:, 1]), nothing


def _scores(votes: Comparisons) -> Floats:
    return np.stack([votes.score_first, votes.score_second], axis=1)


def _has(pairs: Floats) -> bool:
    return bool(np.isfinite(pairs).all(axis=1).any())


@dataclass(frozen=True)
class SparseRows:
    """Rows (M, P): the sums of ``values`` (K, M) at ``places`` (K, M), 0 elsewhere."""

    places: Ints
    values: Floats
    size: int

    @classmethod
    def of(cls, terms: ModelTerms, abilities: Sequence[tuple[Ints, Floats]],
           more: Mapping[str, Floats]) -> 'SparseRows':
        """
        Return the sums of what the arguments say of the unknowns.

        ``abilities`` are places (M, G) of the parts of an ability, and values (M,) of each part;
        ``more`` are values (M,) by the name of an unknown of the evaluator, or of a global, which
        counts where the data have it.
        """
        rows = [(places, values) for each, values in abilities for places in each.T]
        rows += [(getattr(terms, name), more[name]) for name in OF_PERSON if name in more]
        rows += [(np.full(len(more[name]), place), more[name])
                 for name, place in terms.places.items() if name in more]
        places, values = (np.array(part) for part in zip(*rows, strict=True))
        return cls(np.maximum(places, 0), np.where(places < 0, 0.0, values), terms.size)

    def plus(self, other: 'SparseRows', sign: float = 1.0) -> 'SparseRows':
        """Return the sums of these rows and others, times ``sign``."""
        return SparseRows(np.concatenate([self.places, other.places]),
                          np.concatenate([self.values, sign * other.values]), self.size)

    def total(self, weight: Floats) -> Floats:
        """Return (P,) the sum of the rows times ``weight`` (M,)."""
        return np.asarray(np.bincount(self.places.ravel(), (self.values * weight).ravel(),
                                      minlength=self.size), float)

    def variances(self, covariance: Floats) -> Floats:
        """Return (M,) the variances of the rows times unknowns with this covariance (P, P)."""
        return np.concatenate([np.einsum(
            'km,lm,klm->m', self.values[:, part], self.values[:, part],
            covariance[self.places[:, None, part], self.places[None, :, part]])
            for part in parts(self.values.shape[1], len(self.values) ** 2)])

    def times(self, matrix: Floats) -> Floats:
        """Return (M, B) the rows times a matrix (P, B)."""
        return np.asarray(sum(values[:, None] * matrix[places] for values, places in zip(
            self.values, self.places, strict=True)))


def sum_of_squares(weighted: Iterable[tuple[SparseRows, Floats]], size: int) -> Floats:
    """Return (P, P) the sum of the outer squares of rows times their weights (M,)."""
    out = np.zeros(size ** 2)
    for rows, weight in weighted:
        i, j = np.triu_indices(len(rows.values))    # the other half follows by symmetry
        for part in parts(len(weight), len(i)):
            places, values = rows.places[:, part], rows.values[:, part]
            values = values[i] * values[j] * weight[part]
            values[i == j] /= 2
            out += np.bincount((places[i] * size + places[j]).ravel(), values.ravel(),
                               minlength=len(out))
    half = out.reshape(size, size)
    return np.asarray(half + half.T)


def parts(count: int, each: int) -> Iterator[slice]:
    """Yield so many rows in parts, where a row takes ``each`` numbers."""
    step = PART // each + 1
    return (slice(start, start + step) for start in range(0, count, step))


def _known(votes: Comparisons, name: str) -> tuple[Ints, np.ndarray]:
    names, code = levels(votes, name)
    return code, np.array([bool(level) for level in names], dtype=bool)[code]


def levels(votes: Comparisons, name: str) -> tuple[tuple[str, ...], Ints]:
    """Return the names of a kind of group, and (M,) the index of each comparison's."""
    if name in FACTORS:
        return votes.conditions.factors.get(name, (('',), np.zeros(len(votes), np.int64)))
    names = {'category': votes.categories, 'institution': votes.institutions,
             'evaluator': votes.evaluators}[name]
    code: Ints = getattr(votes, name)
    return names, code


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


@dataclass(frozen=True)
class AbilityLink:
    """The globals at one x, by the letters of the module; those that the data lack are neutral."""

    kappa: float
    m: float
    delta: float
    beta: float
    audit_m: float
    audit_c: float
    audit_g: float
    alpha: float
    omega: float

    @property
    def per_ability(self) -> float:
        """Log-odds of winning for a unit of ability, with what scores and audits then show."""
        return self.delta + self.beta + self.alpha * (self.audit_c + self.audit_g)


def link(terms: ModelTerms, x: Floats) -> AbilityLink:
    """Return the globals."""
    neutral = {**dict.fromkeys(GLOBALS, 0.0), 'delta': 1.0}
    values = {name: float(x[terms.places[name]]) if name in terms.places else value
              for name, value in neutral.items()}
    return AbilityLink(float(np.exp(values.pop('log_kappa'))), **values)


@dataclass(frozen=True)
class KnownPairs:
    """
    What is known of pairs of residuals (r, r'), arrays (M,).

    ``log`` is the log-density, or log-probability, times 2π. ``apart`` and ``joint`` are the means
    of (r - r') / √2 and (r + r') / √2; ``unsure`` (3, M) their variances and covariance, 0 where
    both are known.
    """

    log: Floats
    apart: Floats
    joint: Floats
    unsure: Floats


def at_ends(first: Floats, second: Floats) -> Ints:
    """
    Return (M, 2): -1 where a score is 0, 1 where it is 1, else 0.

    All are 0 if fewer than ``INSIDE`` of the scores lie between: those are no scale with ends.
    """
    scores = np.stack([first, second], axis=1)
    ends = np.where(scores == 0, -1, np.where(scores == 1, 1, 0))
    count = np.isfinite(scores).sum()
    inside = count - np.abs(ends).sum()
    return ends if count and inside >= INSIDE * count else np.zeros_like(ends)


def known_pairs(residuals: Floats, ends: Ints, sigma: float, rho: float) -> KnownPairs:
    """
    Return what is known of pairs of normal residuals with deviation σ and correlation ρ.

    ``residuals`` (M, 2); where ``ends`` (M, 2) is -1 the residual is at most that, where it is 1
    at least.
    """
    flip = np.where(ends > 0, -1.0, 1.0)
    z, turned = residuals / sigma * flip, rho * flip[:, 0] * flip[:, 1]
    open_, out = ends != 0, np.empty((6, len(z)))
    swapped = open_[:, 0] & ~open_[:, 1]    # what is known exactly stands first
    z[swapped], open_[swapped] = z[swapped, ::-1], open_[swapped, ::-1]
    for mask, nodes in ((~open_[:, 0], _itself), (open_[:, 0], _nodes)):
        out[:, mask] = _moments(*nodes(z[mask, 0]), z[mask, 1], open_[mask, 1], turned[mask])
    log, mean_1, mean_2, var_1, var_2, cross = np.where(swapped, out[[0, 2, 1, 4, 3, 5]], out)
    log = log - (ends == 0).sum(axis=1) * np.log(sigma)
    mean_1, mean_2 = sigma * flip[:, 0] * mean_1, sigma * flip[:, 1] * mean_2
    middle, cross = sigma ** 2 * (var_1 + var_2) / 2, sigma ** 2 * flip.prod(axis=1) * cross
    return KnownPairs(log, (mean_1 - mean_2) * np.sqrt(0.5), (mean_1 + mean_2) * np.sqrt(0.5),
                      np.stack([middle - cross, middle + cross, sigma ** 2 * (var_1 - var_2) / 2]))


def _itself(value: Floats) -> tuple[Floats, Floats]:
    return value[:, None], -0.5 * value[:, None] ** 2


def _nodes(end: Floats) -> tuple[Floats, Floats]:
    """Return (M, K) places up to ``end`` (M,), and their log-weights in a normal times √2π."""
    high = np.minimum(end, FAR)
    low = np.minimum(-FAR, high - TAIL)
    half = (high - low) / 2
    node = low[:, None] + half[:, None] * (1 + NODES)
    return node, np.log(half[:, None] * WEIGHTS) - 0.5 * node ** 2


def _moments(node: Floats, log_weight: Floats, other: Floats, open_: np.ndarray, rho: Floats,
             ) -> Floats:
    """
    Return (6, M) log-probability, both means, both variances, and the covariance.

    The first of each pair is at one of ``node`` (M, K), the second at ``other`` (M,), or anywhere
    up to it where ``open_``.
    """
    rest = np.sqrt(1 - rho ** 2)[:, None]
    centre = rho[:, None] * node
    z = (other[:, None] - centre) / rest
    until = log_ndtr(z)
    ratio = np.exp(-0.5 * z ** 2 - HALF_LOG_TAU - until)
    log = log_weight + np.where(open_[:, None], until + HALF_LOG_TAU, -0.5 * z ** 2 - np.log(rest))
    mean = np.where(open_[:, None], centre - rest * ratio, other[:, None])
    variance = open_[:, None] * rest ** 2 * np.maximum(1 - z * ratio - ratio ** 2, 0.0)
    top = log.max(axis=1, keepdims=True)
    share = np.exp(log - top)
    total = share.sum(axis=1, keepdims=True)
    share /= total
    first, second = (share * node).sum(axis=1), (share * mean).sum(axis=1)
    off_first, off_second = node - first[:, None], mean - second[:, None]
    return np.stack([(top + np.log(total))[:, 0], first, second,
                     (share * off_first ** 2).sum(axis=1),
                     (share * (variance + off_second ** 2)).sum(axis=1),
                     (share * off_first * off_second).sum(axis=1)])
