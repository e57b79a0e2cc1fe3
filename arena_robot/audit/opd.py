"""
OPD metrics (outcome, process, diagnosis) of progress traces, many at once.

From "A Dense Evaluation Paradigm for Fine-Grained Robotic Auditing" (PRM-as-a-Judge), equations 9
to 16. A trace is Φ_0 … Φ_T in [0, 1], d_t = Φ_t - Φ_{t-1}, M_t = max_{k<=t} Φ_k, TV = Σ|d_t|::

    MP   max Φ_t
    MC   largest q = k/K with MP >= q; K = 4 unless said otherwise
    PPL  Φ_T [Φ_T - Φ_0]+ / (TV + δ)
    CRA  1/(T+1) Σ_{t>=0} (M_t - Φ_t)
    STR  1/T Σ_{t>=1} 1(|d_t| < ε); undefined for T = 0

That is the convention ``paper``. The authors' public tools compute other numbers under the same
names, and published tables come from them. They put Φ = 0 before the trace and divide by its
number of values, N = T + 1:

``v1``
    PPL = Φ_T² / TV, CRA = 1/N Σ, STR = 1/N Σ; a trace without variation has PPL 0.
``v1.5``
    PPL = MP² / TV at most 1, CRA = 1/N Σ / MP, STR as v1. Also DRR, the share of the largest fall
    that was recovered later (undefined without a fall); FNS = .5 MP + .3 (MP >= .75) +
    .2 (MP >= .5) of failures; SQS = .5 PPL + .3 (1 - CRA) + .2 (1 - STR) of successes. A success
    is what its label says, without a label MP >= .99.

All are shares; undefined is NaN here and null in files.

The threshold ε of stagnation can be measured: from a judge's noise on clips in which nothing
happens. With independent normal noise of standard deviation σ, differences of neighbours have
√2 σ. So |d| < ε holds with probability 1 - α for ε = √2 σ Φ⁻¹(1 - α/2), equation 17 of the paper.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from pathlib import Path
from statistics import NormalDist
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from arena_robot.audit.base import OVERFLOW
from arena_robot.core.config import nearest
from arena_robot.core.errors import ConfigError, DataError
from arena_robot.core.observation import Floats

QUARTERS = (0.25, 0.5, 0.75, 1.0)
MILESTONES = 4      # of MC, as the paper has them: the quarters
EPSILON, DELTA = 0.005, 1e-8
SUCCESS_MP = 0.99
_FLAT, _DRR_EPSILON, _FALL = 1e-9, 1e-6, 1e-12
METRICS = ('mp', 'mc', 'ppl', 'cra', 'str')
EXTRA_METRICS = ('drr', 'fns', 'sqs')
_KEYS = {'name', 'phi', 'success'}
FLOOR = 1e-6
ALPHA = 0.01


@dataclass(frozen=True)
class Convention:
    """One published way to count; ``from_zero``: the traces begin with a 0 of their own."""

    name: str
    from_zero: bool
    peak_based: bool = False


CONVENTIONS: Mapping[str, Convention] = MappingProxyType({c.name: c for c in (
    Convention('paper', False), Convention('v1', True), Convention('v1.5', True, True))})


def convention(name: str) -> Convention:
    """Return a convention by name; ConfigError lists the known ones."""
    if name not in CONVENTIONS:
        raise ConfigError(f"no convention '{name}' of the OPD metrics."
                          f'{nearest(name, CONVENTIONS)}')
    return CONVENTIONS[name]


@dataclass(frozen=True)
class OpdTable:
    """
    The metrics of n traces, (n,) each; NaN is undefined.

    ``steps`` is T, ``reached`` (n, K) the milestones k/K reached, ``clipped`` the number of values
    that were outside [0, 1] by at most 1e-4. ``drr``, ``fns`` and ``sqs`` belong to ``v1.5``.
    """

    convention: str
    epsilon: float
    delta: float
    steps: NDArray[np.int64]
    mp: Floats
    mc: Floats
    reached: NDArray[np.bool_]
    ppl: Floats
    cra: Floats
    stagnation: Floats
    drr: Floats
    fns: Floats
    sqs: Floats
    clipped: NDArray[np.int64]

    def values(self, metric: str) -> Floats:
        """Return the (n,) values of a metric by name."""
        return {'mp': self.mp, 'mc': self.mc, 'ppl': self.ppl, 'cra': self.cra,
                'str': self.stagnation, 'drr': self.drr, 'fns': self.fns, 'sqs': self.sqs}[metric]


def measure(traces: Sequence[Floats], rule: Convention = CONVENTIONS['paper'],
            epsilon: float = EPSILON, delta: float = DELTA,
            success: Sequence[bool | None] | None = None,
            names: Sequence[str] | None = None, milestones: int = MILESTONES) -> OpdTable:
    """
    Return the metrics of ``traces``, (T+1,) each.

    ``success`` are the labels, None for none; ``milestones`` is K of MC. DataError names a trace
    that is empty, not finite, or outside [0, 1] by more than 1e-4; ConfigError for an ``epsilon``
    or ``delta`` <= 0 or ``milestones`` below 1.
    """
    thresholds = milestone_shares(milestones)
    for word, value in (('epsilon', epsilon), ('delta', delta)):
        if not 0.0 < value < np.inf:
            raise ConfigError(f'{word} must be a number above 0, found {value}')
    padded, lengths, clipped = _padded(traces, names)
    labels = list(success) if success is not None else [None] * len(padded)
    if len(labels) != len(padded):
        raise DataError(f'{len(padded)} traces have {len(labels)} labels')
    numbers = _numbers(padded, lengths, rule, epsilon, delta)
    mp, reached = numbers['mp'], numbers['mp'][:, None] >= np.array(thresholds)
    extra = _extra(padded, numbers, labels) if rule.peak_based else {
        name: np.full(len(padded), np.nan) for name in EXTRA_METRICS}
    return OpdTable(rule.name, epsilon, delta, lengths - 1, mp, reached.sum(axis=1) / milestones,
                    reached,
                    numbers['ppl'], numbers['cra'], numbers['str'], **extra, clipped=clipped)


def _numbers(traces: Floats, lengths: NDArray[np.int64], rule: Convention, epsilon: float,
             delta: float) -> dict[str, Floats]:
    phi = np.pad(traces, ((0, 0), (1, 0))) if rule.from_zero else traces
    ends = lengths if rule.from_zero else lengths - 1
    steps = np.abs(np.diff(phi, axis=1))
    variation = steps.sum(axis=1)
    mp, first, last = traces.max(axis=1), phi[:, 0], phi[:, -1]
    peaks = np.maximum.accumulate(phi, axis=1)
    peaks -= phi
    inside = np.arange(phi.shape[1]) <= ends[:, None]
    regret = np.where(inside, peaks, 0.0).sum(axis=1)
    still = ((steps < epsilon) & inside[:, 1:]).sum(axis=1)
    with np.errstate(divide='ignore', invalid='ignore'):
        stagnant = np.where(ends > 0, still / ends, np.nan)
        if not rule.from_zero:
            return {'mp': mp, 'ppl': last * np.maximum(last - first, 0.0) / (variation + delta),
                    'cra': regret / (ends + 1), 'str': stagnant}
        top = mp if rule.peak_based else last
        ppl = np.where(variation > _FLAT, top / variation * top, 0.0)
        if not rule.peak_based:
            return {'mp': mp, 'ppl': ppl, 'cra': regret / ends, 'str': stagnant}
        return {'mp': mp, 'ppl': np.clip(ppl, 0.0, 1.0), 'str': stagnant,
                'cra': np.where(mp > 0.0, regret / ends / mp, 0.0)}


def milestone_shares(milestones: int) -> tuple[float, ...]:
    """Return k/K for k = 1 … K, each one division, so that a value equal to it reaches it."""
    if milestones < 1:
        raise ConfigError(f'MC needs at least 1 milestone, found {milestones}')
    return tuple(k / milestones for k in range(1, milestones + 1))


def milestone_words(milestones: int) -> tuple[str, ...]:
    """Return the milestones in percent: '25', '50', '75' and '100' of four."""
    return tuple(f'{100 * share:.3g}' for share in milestone_shares(milestones))


def _extra(traces: Floats, numbers: Mapping[str, Floats], labels: Sequence[bool | None]
           ) -> dict[str, Floats]:
    mp = numbers['mp']
    falls = np.maximum.accumulate(traces, axis=1) - traces
    rows, trough = np.arange(len(traces)), falls.argmax(axis=1)
    later = np.maximum.accumulate(traces[:, ::-1], axis=1)[:, ::-1]
    recovered, fall = later[rows, trough] - traces[rows, trough], falls[rows, trough]
    drr = np.where(fall > _FALL, np.minimum(
        1.0, (recovered + _DRR_EPSILON) / (fall + _DRR_EPSILON)), np.nan)
    done = np.array([bool(top >= SUCCESS_MP) if label is None else label
                     for label, top in zip(labels, mp, strict=True)], bool)
    fns = 0.5 * mp + 0.3 * (mp >= QUARTERS[2]) + 0.2 * (mp >= QUARTERS[1])
    sqs = 0.5 * numbers['ppl'] + 0.3 * (1 - numbers['cra']) + 0.2 * (1 - numbers['str'])
    return {'drr': drr, 'fns': np.where(done, np.nan, fns),
            'sqs': np.where(done, np.clip(sqs, 0.0, 1.0), np.nan)}


def _padded(traces: Sequence[Floats], names: Sequence[str] | None
            ) -> tuple[Floats, NDArray[np.int64], NDArray[np.int64]]:
    """Return (n, L) with the last value repeated, (n,) lengths and (n,) numbers of clipped."""
    if not len(traces):
        empty = np.zeros(0, np.int64)
        return np.zeros((0, 1)), empty, empty
    lengths = np.array([len(trace) for trace in traces], np.int64)
    if not lengths.all():
        raise DataError(f'{_named(names, int(lengths.argmin()))} has no values')
    flat = np.concatenate([np.asarray(trace, np.float64) for trace in traces])
    if flat.ndim != 1:
        raise DataError('a trace is a list of numbers')
    owner = np.repeat(np.arange(len(traces)), lengths)
    bad = ~((flat >= -OVERFLOW) & (flat <= 1.0 + OVERFLOW))
    if bad.any():
        at = int(bad.argmax())
        row = int(owner[at])
        raise DataError(f'{_named(names, row)} has the value {flat[at]} at position '
                        f'{at - int(lengths[:row].sum())}; progress is a number from 0 to 1')
    over = (flat < 0.0) | (flat > 1.0)
    clipped = np.bincount(owner[over], minlength=len(traces)).astype(np.int64)
    flat = np.clip(flat, 0.0, 1.0)
    column = np.arange(lengths.max())
    index = np.minimum(column, lengths[:, None] - 1) + (np.cumsum(lengths) - lengths)[:, None]
    return flat[index], lengths, clipped


def _named(names: Sequence[str] | None, row: int) -> str:
    return f"the episode '{names[row]}'" if names is not None else f'trace {row}'


@dataclass(frozen=True)
class NamedTrace:
    """One episode: Φ_0 … Φ_T, and whether it succeeded, None when nobody said."""

    name: str
    phi: Floats
    success: bool | None = None


def read_traces(path: Path, full: float = 1.0) -> list[NamedTrace]:
    """
    Return the episodes of ``{"episodes": [{"name", "phi", "success"}]}``.

    ``full`` is the number that stands for done. Raises DataError that names the episode with what
    is wrong.
    """
    try:
        data = json.loads(path.read_text(encoding='utf-8'))
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f'{path} cannot be read as JSON: {error}') from error
    if not isinstance(data, dict) or not isinstance(data.get('episodes'), list):
        raise DataError(f'{path}: expected {{"episodes": [{{"name": …, "phi": […], "success": '
                        'true|false|null}]}')
    if extra := sorted(set(data) - {'episodes'}):
        raise DataError(f"{path}: unknown key '{extra[0]}'; known: episodes")
    read = [_trace(value, number, path, full) for number, value in enumerate(data['episodes'])]
    names: set[str] = set()
    for trace in read:
        if trace.name in names:
            raise DataError(f"{path}: two episodes are called '{trace.name}'")
        names.add(trace.name)
    return read


def _trace(value: Any, number: int, path: Path, full: float) -> NamedTrace:
    name = value.get('name') if isinstance(value, dict) else None
    if not isinstance(name, str) or not name:
        raise DataError(f'{path}: episode number {number} has no name')
    where = f"{path}: the episode '{name}'"
    if extra := sorted(set(value) - _KEYS):
        raise DataError(f"{where} has the unknown key '{extra[0]}'; known: name, phi, success")
    success, phi = value.get('success'), value.get('phi')
    if success is not None and not isinstance(success, bool):
        raise DataError(f'{where}: success is true, false or null, found {success!r}')
    if not isinstance(phi, list) or not phi:
        raise DataError(f'{where} has no values: phi must be a list of numbers')
    for at, entry in enumerate(phi):
        if isinstance(entry, bool) or not isinstance(entry, int | float):
            raise DataError(f'{where}: phi[{at}] is {entry!r} and not a number')
        if isinstance(entry, float) and not math.isfinite(entry):
            raise DataError(f'{where}: phi[{at}] is {entry}')
        if not -full < entry < 2.0 * full:  # also: an integer too large for a float
            raise DataError(f'{where}: phi[{at}] is {entry}; progress is a number from 0 to '
                            f'{full:g}')
    return NamedTrace(name, np.array(phi, np.float64), success)


def opd_json(names: list[str], table: OpdTable) -> dict[str, Any]:
    """Return the metrics by episode for JSON: shares in full precision, undefined is null."""
    return {'convention': table.convention,
            'episodes': [opd_row(name, table, row) for row, name in enumerate(names)]}


def opd_row(name: str, table: OpdTable, row: int) -> dict[str, Any]:
    """Return the metrics of one episode for JSON."""
    words = milestone_words(table.reached.shape[1])
    reached = {word: int(table.reached[row, k]) for k, word in enumerate(words)}
    extra = EXTRA_METRICS if convention(table.convention).peak_based else ()
    return {'name': name, 'steps': int(table.steps[row]), 'mp': float(table.mp[row]),
            'mc': float(table.mc[row]), 'mc_at': reached, 'ppl': number(table.ppl[row]),
            'cra': number(table.cra[row]), 'str': number(table.stagnation[row]),
            **{metric: number(table.values(metric)[row]) for metric in extra}}


def number(value: Any) -> float | None:
    """Return a float for JSON; an undefined one is None."""
    return None if not math.isfinite(value) else float(value)


@dataclass(frozen=True)
class JudgeNoise:
    """
    Noise of a judge: ``sigma``, and the ``epsilon`` for a share ``alpha`` of false motion.

    ``neighbours`` is the correlation of neighbouring values (0 for independent noise): where it is
    far from 0, equation 17 does not hold. ``clips`` and ``values`` say what it was measured on.
    """

    sigma: float
    epsilon: float
    alpha: float
    neighbours: float
    clips: int
    values: int


def threshold(sigma: float, alpha: float = ALPHA) -> float:
    """Return ε of equation 17, at least 1e-6: with ε = 0 nothing would ever stagnate."""
    if not sigma >= 0.0 or not 0.0 < alpha < 1.0:
        raise ConfigError(f'sigma must be at least 0 and alpha between 0 and 1, found {sigma} '
                          f'and {alpha}')
    return max(sqrt(2.0) * sigma * NormalDist().inv_cdf(1.0 - alpha / 2.0), FLOOR)


def static_noise(traces: Sequence[Floats], alpha: float = ALPHA) -> JudgeNoise:
    """
    Return the noise on traces of static clips; each has a level of its own.

    σ² is the variance about the clips' means, Σ(Φ - mean)² / Σ(n - 1).
    """
    clips = [np.asarray(trace, np.float64) for trace in traces]
    if not clips or any(len(trace) < 3 for trace in clips):
        raise DataError('the noise needs at least one static clip, of three values or more each')
    centred = [trace - trace.mean() for trace in clips]
    square = sum(float(r @ r) for r in centred)
    if not np.isfinite(square):
        raise DataError('a static clip has a value that is not finite')
    sigma = sqrt(square / sum(len(r) - 1 for r in centred))
    beside = sum(float(r[1:] @ r[:-1]) for r in centred)
    return JudgeNoise(sigma, threshold(sigma, alpha), alpha, beside / square if square else 0.0,
                      len(clips), sum(len(r) for r in centred))
