"""
On how few verdicts, evaluators or institutions the first place hangs.

Which verdicts speak most for the first policy a against another b follows from their influence on
the difference of Bradley–Terry's abilities (Broderick, Giordano and Meager 2020, "dropping a
handful"): with information H and slope g_m of verdict m it is

    (e_a - e_b)ᵀ H⁻¹ g_m,

summed over the verdicts of an evaluator or an institution. Those with the most are left out, one
more at a time, until a refit has another policy first. What is left out is therefore enough, but
another choice could be smaller. Policies with too few comparisons for a rank are left aside.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from arena_robot.ranking.base import Comparisons, Floats, Ints
from arena_robot.ranking.counts import LEAST_COMPARISONS, count_pairs, solve_laplacian
from arena_robot.ranking.evaluators.robust import named_rows
from arena_robot.ranking.pairwise.bradley_terry import BradleyTerry
from arena_robot.ranking.pairwise.prior import PRIOR_L2

RIVALS, TRIES, SINGLES = 5, 16, 50    # at most 50 + 5 × 16 refits of each kind
# The largest share of each kind that is left out; of institutions a single one.
MOST = {'verdict': 0.1, 'evaluator': 0.25, 'institution': 0.0}


@dataclass(frozen=True)
class Fragility:
    """
    What is enough to change the first place.

    ``kind`` is 'verdict', 'evaluator' or 'institution', ``of`` how many there are. Without
    ``left_out`` of them, of evaluators and institutions the ``names``, ``then`` is first and not
    ``first``. ``left_out`` is None where the first place stays, with up to ``tried`` left out.
    """

    kind: str
    of: int
    tried: int
    first: str
    left_out: int | None = None
    names: tuple[str, ...] = ()
    then: str = ''


def fragility(comparisons: Comparisons) -> list[Fragility]:
    """
    Return on how few verdicts, evaluators and institutions the first place hangs.

    Evaluators are listed where at least two are known, and so are institutions; nothing where
    no two policies have at least 5 comparisons.
    """
    met = comparisons.appearances() >= LEAST_COMPARISONS
    votes = comparisons.take(comparisons.weight > 0).only(
        [name for name, enough in zip(comparisons.items, met, strict=True) if enough])
    if not len(votes):
        return []
    groups = {'verdict': (np.arange(len(votes)), ()),
              'evaluator': (votes.evaluator, votes.evaluators),
              'institution': (votes.institution, votes.institutions)}
    results = []
    for kind, (code, names) in groups.items():
        known = np.unique(code[named_rows(names, code)]) if names else code
        if len(known) >= 2:
            results.append(_fewest(votes, kind, code, known, names))
    return results


def _fewest(votes: Comparisons, kind: str, code: Ints, known: Ints, names: tuple[str, ...],
            ) -> Fragility:
    theta = BradleyTerry()(votes).scores
    a, most = int(np.argmax(theta)), max(1, int(MOST[kind] * len(known)))
    fewest, then = most + 1, a
    gone: Ints = known[:0]
    for tried in _candidates(votes, theta, code, known, most, bool(names)):
        if len(tried) < fewest:
            first = _first_without(votes, code, tried)
            if first != a:
                fewest, gone, then = len(tried), tried, first
    if then == a:
        return Fragility(kind, len(known), most, votes.items[a])
    return Fragility(kind, len(known), most, votes.items[a], fewest,
                     tuple(names[g] for g in gone) if names else (), votes.items[then])


def _candidates(votes: Comparisons, theta: Floats, code: Ints, known: Ints, most: int,
                singly: bool) -> Iterator[Ints]:
    """Yield what to leave out: each alone where there are few, then the most influential."""
    if singly and len(known) <= SINGLES:
        yield from known[:, None]
    for speaks, gap in _influences(votes, theta, code):
        order = known[np.argsort(-speaks[known], kind='stable')]
        count = int(np.searchsorted(np.cumsum(speaks[order]), gap)) + 1
        low, high = count - max(2, count // 10), min(2 * count + 3, most)
        for k in np.unique(np.linspace(min(low, high), high, TRIES).round().astype(int)):
            if k >= 1:
                yield order[:k]


def _influences(votes: Comparisons, theta: Floats, code: Ints) -> list[tuple[Floats, float]]:
    """Return (groups,) what each says for the first policy, and its lead, for each rival."""
    counts, a = count_pairs(votes), int(np.argmax(theta))
    p = expit(theta[counts.low] - theta[counts.high])
    contrast = np.eye(votes.n)[a][:, None] - np.eye(votes.n)
    turned = solve_laplacian(counts, counts.total * p * (1 - p), contrast, PRIOR_L2)
    spread = np.sqrt(np.maximum((contrast * turned).sum(axis=0), 1e-12))
    rivals = [b for b in np.argsort((theta[a] - theta) / spread, kind='stable') if b != a]
    slope = votes.weight * (votes.outcome - expit(theta[votes.first] - theta[votes.second]))
    return [(np.asarray(np.bincount(code, slope * (turned[votes.first, b]
                                                  - turned[votes.second, b])), float),
             float(theta[a] - theta[b])) for b in rivals[:RIVALS]]


def _first_without(votes: Comparisons, code: Ints, gone: Ints) -> int:
    """Return the policy that is first without the verdicts of some groups."""
    kept = np.ones(int(code.max()) + 1)
    kept[gone] = 0.0
    return int(np.argmax(BradleyTerry()(votes.reweighted(votes.weight * kept[code])).scores))


def fragility_words(results: list[Fragility], named: bool = False) -> str:
    """Return in sentences on how little the first place hangs; ``named``: with names of people."""
    if not results:
        return 'Too few comparisons to tell on how few of them the first place hangs.'
    enough = [case for case in results if case.left_out is not None]
    said = []
    if enough:
        parts = [f'{case.left_out} of {case.of} {case.kind}s'
                 + (f" ({', '.join(case.names)})" if named and case.names else '')
                 for case in enough]
        then = sorted({case.then for case in enough})
        said.append(f"without {' or '.join(parts)}, {' or '.join(then)} is first instead of "
                    f'{results[0].first}.')
    for case in results:
        if case.left_out is None:
            without = f'any one of {case.of}' if case.tried == 1 else f'{case.tried} of {case.of}'
            which = '' if case.tried == 1 else ' that speak most for it'
            said.append(f'{case.first} stays first without {without} {case.kind}s{which}.')
    return 'By Bradley–Terry, ' + ' '.join(said)
