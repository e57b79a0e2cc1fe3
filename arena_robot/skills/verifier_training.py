"""
Training of the verifier: logistic model, focal loss, ridge; on labels of prefixes.

L = -a (1 - q)^γ log q with q the probability of the label that a prefix has, and a twice the share
of the other label among the training prefixes, so that both labels count alike. The ridge is
chosen by cross-validation over the training tasks (whole tasks are left out), never by test tasks.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize

import arena_robot
from arena_robot.core.errors import DataError
from arena_robot.core.observation import Floats
from arena_robot.skills.labelling import LabelledTask
from arena_robot.skills.labels import PrefixLabel, label_prefixes
from arena_robot.skills.prefix_features import Named
from arena_robot.skills.verifier import Verifier, VerifierCard, matrix, see, sigmoid

RIDGES = (1.0, 3.0, 10.0)
FOLDS = 3
LEAST_SEEN = 2


@dataclass(frozen=True)
class TrainingSettings:
    """
    ``gamma`` of the focal loss; ``sees`` is all, structure or name; ``soft`` labels are shares.

    ``permuted`` trains on labels that are exchanged among all prefixes, as a check that there is
    something to learn. A ``ridge`` of 0 is chosen by cross-validation.
    """

    gamma: float = 2.0
    ridge: float = 0.0
    sees: str = 'all'
    soft: bool = False
    permuted: bool = False
    seed: int = 0


def train_verifier(tasks: Sequence[LabelledTask], settings: TrainingSettings | None = None,
                   policy: str = '') -> Verifier:
    """Return the verifier of labelled tasks; DataError when all labels are the same."""
    s = settings or TrainingSettings()
    rows: list[tuple[Named, Floats]] = []
    labels: list[float] = []
    owner: list[int] = []
    for number, one in enumerate(tasks):
        for label in label_prefixes(one.tried):
            rows.append(see(one.spec, label.prefix, len(label.prefix.subtasks), s.sees))
            labels.append(_value(label, s.soft))
            owner.append(number)
    y, of = np.array(labels), np.array(owner)
    if len(set(labels)) < 2:
        raise DataError(f'{len(labels)} prefixes of {len(tasks)} tasks have one label only; a '
                        'verifier needs good and bad ones')
    if s.permuted:
        y = np.random.default_rng([s.seed, 7]).permutation(y)
    names = _names(rows)
    x = matrix(rows, names)
    ridge = s.ridge or _best_ridge(x, y, of, s)
    weights, bias = fit(x, y, ridge, s.gamma)
    card = VerifierCard(tuple(one.spec.name for one in tasks), len(y), int((y > 0.5).sum()), ridge,
                        s.gamma, s.seed, s.sees, policy, arena_robot.__version__)
    return Verifier(card, names, weights, bias)


def focal(z: Floats, y: Floats, gamma: float, good: float = 0.5) -> tuple[Floats, Floats]:
    """
    Return the loss of logits (n,) and its derivative; ``y`` from 0 to 1 mixes both labels.

    ``good`` is the share of good labels, by which the two are balanced.
    """
    loss, slope = np.zeros_like(z), np.zeros_like(z)
    for sign, weight in ((1.0, 2.0 * (1.0 - good) * y), (-1.0, 2.0 * good * (1.0 - y))):
        q = np.clip(sigmoid(sign * z), 1e-12, 1.0 - 1e-12)
        rest, log_q = (1.0 - q) ** gamma, np.log(q)
        loss -= weight * rest * log_q
        slope += weight * sign * rest * (gamma * q * log_q - (1.0 - q))
    return loss, slope


def fit(x: Floats, y: Floats, ridge: float, gamma: float) -> tuple[Floats, float]:
    """Return weights (D,) and bias that minimise the loss plus ridge / 2 |w|²."""
    good = float(y.mean())

    def objective(w: Floats) -> tuple[float, Floats]:
        loss, slope = focal(x @ w[:-1] + w[-1], y, gamma, good)
        gradient = np.concatenate([x.T @ slope + ridge * w[:-1], [slope.sum()]])
        return float(loss.sum() + 0.5 * ridge * (w[:-1] @ w[:-1])), gradient

    found = minimize(objective, np.zeros(x.shape[1] + 1), jac=True, method='L-BFGS-B',
                     options={'maxiter': 80})
    return np.asarray(found.x[:-1]), float(found.x[-1])


def _best_ridge(x: Floats, y: Floats, of: 'np.ndarray[tuple[int], np.dtype[np.int64]]',
                s: TrainingSettings) -> float:
    groups = np.random.default_rng([s.seed, 11]).permutation(np.unique(of))
    if len(groups) < 2 * FOLDS:
        return RIDGES[1]
    losses = []
    for ridge in RIDGES:
        total = 0.0
        for fold in range(FOLDS):
            out = np.isin(of, groups[fold::FOLDS])
            weights, bias = fit(x[~out], y[~out], ridge, s.gamma)
            total += float(focal(x[out] @ weights + bias, y[out], s.gamma,
                                 float(y[~out].mean()))[0].sum())
        losses.append(total)
    return RIDGES[int(np.argmin(losses))]


def _names(rows: Sequence[tuple[Named, Floats]]) -> tuple[str, ...]:
    seen = Counter(name for named, _ in rows for name in named)
    return tuple(sorted(name for name, times in seen.items() if times >= LEAST_SEEN))


def _value(label: PrefixLabel, soft: bool) -> float:
    return label.share if soft else float(label.good)
