"""
The verifier (process reward model): a probability that a prefix is part of a solution that works.

A logistic model over named features of what code means, and over hashed text where that is asked
for. A solution's score joins those of its prefixes by a strategy; a filter accepts at a threshold,
best-of-N takes the highest.

Training minimises the focal loss L = -a (1 - q)^γ log q, with q the probability of the label that
a prefix has, and a twice the share of the other label, so that both labels count alike. The ridge
is chosen by cross-validation over the training tasks (whole tasks are left out), never by test
tasks.
"""

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from scipy.optimize import minimize

import arena_robot
from arena_robot.core.config import nearest
from arena_robot.core.errors import ConfigError, DataError
from arena_robot.core.files import write_json
from arena_robot.core.observation import Floats
from arena_robot.skills.base import Solution, TaskSpec, from_json, to_json
from arena_robot.skills.labelling import LabelledTask, PrefixLabel, label_prefixes, solution_key
from arena_robot.skills.prefix_features import Named, meaning, task_words, text_rows

VERSION = 2
MEANING = 'meaning'    # what a verifier sees unless told otherwise
FLOOR = 1e-9    # keeps the logarithm of 0 finite
DIGITS = 9      # so that equal prefixes have equal scores, in whatever order they are summed
STRATEGIES: dict[str, Callable[[Floats], float]] = {
    'last': lambda p: float(p[-1]),
    'mean': lambda p: float(p.mean()),
    'min': lambda p: float(p.min()),
    'max': lambda p: float(p.max()),
    'product': lambda p: float(np.exp(np.log(np.maximum(p, FLOOR)).mean())),
}
RIDGES = (1.0, 3.0, 10.0)
FOLDS = 3         # over which the ridge is chosen
LEAST_SEEN = 2    # a feature of one example only names it


class PrefixScorer(Protocol):
    """Scores every prefix of a solution from 0 to 1."""

    def prefixes(self, spec: TaskSpec, solution: Solution) -> Floats:
        """Return (n,) scores of the prefixes with 1, 2, … n subtasks."""


@dataclass(frozen=True)
class VerifierCard:
    """What a verifier was trained on, and how."""

    tasks: tuple[str, ...]
    prefixes: int
    good: int
    ridge: float
    gamma: float
    seed: int
    sees: str
    policy: str
    package: str
    version: int = VERSION


@dataclass(frozen=True)
class Verifier:
    """``names`` are the features in order, followed by the hashed text where it is used."""

    card: VerifierCard
    names: tuple[str, ...]
    weights: Floats
    bias: float

    def prefixes(self, spec: TaskSpec, solution: Solution) -> Floats:
        """Return the probabilities of the prefixes; none for a solution without subtasks."""
        rows = [see(spec, solution, length + 1, self.card.sees)
                for length in range(len(solution.subtasks))]
        return np.round(sigmoid(matrix(rows, self.names) @ self.weights + self.bias), DIGITS)


class ScoredOnce:
    """A scorer that keeps its answers."""

    def __init__(self, scorer: PrefixScorer) -> None:
        self._scorer = scorer
        self._known: dict[tuple[str, str], Floats] = {}

    def prefixes(self, spec: TaskSpec, solution: Solution) -> Floats:
        """Return the scores of the prefixes."""
        key = (spec.name, solution_key(solution))
        if key not in self._known:
            self._known[key] = self._scorer.prefixes(spec, solution)
        return self._known[key]


def see(spec: TaskSpec, solution: Solution, length: int, sees: str) -> tuple[Named, Floats]:
    """Return what a verifier sees of a prefix: ``sees`` is meaning, all, text, or name."""
    nothing = np.zeros(0)
    if sees == 'name':
        return task_words(spec), nothing
    if sees == MEANING:
        return meaning(spec, solution, length), nothing
    if sees == 'text':
        return {}, text_rows(spec, solution, length)
    return meaning(spec, solution, length), text_rows(spec, solution, length)


def matrix(rows: Sequence[tuple[Named, Floats]], names: Sequence[str]) -> Floats:
    """Return (n, D): the named features in order, then the text; unknown names are left out."""
    place = {name: k for k, name in enumerate(names)}
    table = np.zeros((len(rows), len(names)))
    for row, (named, _) in zip(table, rows, strict=True):
        for name, value in named.items():
            if name in place:
                row[place[name]] = value
    if not rows or not rows[0][1].size:
        return table
    return np.concatenate([table, np.array([text for _, text in rows])], axis=1)


def sigmoid(values: Floats) -> Floats:
    """Return 1 / (1 + exp(-z)) without overflow."""
    return np.asarray(0.5 * (1.0 + np.tanh(0.5 * values)))


def strategy(name: str) -> Callable[[Floats], float]:
    """Return a strategy; ConfigError names the known ones."""
    if name not in STRATEGIES:
        raise ConfigError(f"there is no strategy '{name}'.{nearest(name, STRATEGIES)}")
    return STRATEGIES[name]


def score(scorer: PrefixScorer, spec: TaskSpec, solution: Solution, how: str = 'last') -> float:
    """Return the score of a solution; 0 when it has no subtasks."""
    scores = scorer.prefixes(spec, solution)
    return strategy(how)(scores) if len(scores) else 0.0


def write_verifier(path: Path, model: Verifier) -> None:
    """Write a verifier as JSON, whole or not at all."""
    write_json(path, {'card': to_json(model.card), 'bias': model.bias, 'names': list(model.names),
                      'weights': [round(float(w), 6) for w in model.weights]})


def read_verifier(path: Path) -> Verifier:
    """Return a verifier; ConfigError when there is no file, DataError when it is none."""
    try:
        data: Mapping[str, Any] = json.loads(path.read_text(encoding='utf-8'))
        card = from_json(VerifierCard, data['card'], f'{path}: card')
        if card.version != VERSION:
            raise ValueError(f'it has version {card.version}, this program reads {VERSION}')
        return Verifier(card, tuple(data['names']), np.array(data['weights'], float),
                        float(data['bias']))
    except OSError as error:
        raise ConfigError(f'cannot read {path}: {error.strerror or error}') from error
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(f'{path} is no verifier: {error}') from error


@dataclass(frozen=True)
class TrainingSettings:
    """
    ``gamma`` of the focal loss; ``soft`` labels are shares.

    ``sees`` is meaning, all (text, too), text or name. ``permuted`` trains on labels that are
    exchanged among all prefixes, as a check that there is something to learn. A ``ridge`` of 0 is
    chosen by cross-validation.
    """

    gamma: float = 2.0
    ridge: float = 0.0
    sees: str = MEANING
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
    for number, task in enumerate(tasks):
        for label in label_prefixes(task.tried):
            rows.append(see(task.spec, label.prefix, len(label.prefix.subtasks), s.sees))
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
    card = VerifierCard(tuple(task.spec.name for task in tasks), len(y), int((y > 0.5).sum()),
                        ridge, s.gamma, s.seed, s.sees, policy, arena_robot.__version__)
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

    optimum = minimize(objective, np.zeros(x.shape[1] + 1), jac=True, method='L-BFGS-B',
                       options={'maxiter': 80})
    return np.asarray(optimum.x[:-1]), float(optimum.x[-1])


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
