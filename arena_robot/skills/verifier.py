"""
The verifier (process reward model): a probability that a prefix is part of a solution that works.

A logistic model over named features and hashed text. A solution's score joins those of its
prefixes by a strategy; a filter accepts at a threshold, best-of-N takes the highest.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from arena_robot.core.config import nearest
from arena_robot.core.errors import ConfigError, DataError
from arena_robot.core.files import write_json
from arena_robot.core.observation import Floats
from arena_robot.skills.as_json import from_json, to_json
from arena_robot.skills.base import Solution, TaskSpec
from arena_robot.skills.identity import solution_key
from arena_robot.skills.prefix_features import Named, structure, task_words, text_rows

VERSION = 1
FLOOR = 1e-9
DIGITS = 9      # so that equal prefixes have equal scores, in whatever order they are summed
STRATEGIES: dict[str, Callable[[Floats], float]] = {
    'last': lambda p: float(p[-1]),
    'mean': lambda p: float(p.mean()),
    'min': lambda p: float(p.min()),
    'max': lambda p: float(p.max()),
    'product': lambda p: float(np.exp(np.log(np.maximum(p, FLOOR)).mean())),
}


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
    """Return what a verifier sees of a prefix: ``sees`` is structure, all, or name."""
    nothing = np.zeros(0)
    if sees == 'name':
        return task_words(spec), nothing
    if sees == 'structure':
        return structure(spec, solution, length), nothing
    return structure(spec, solution, length), text_rows(spec, solution, length)


def matrix(rows: Sequence[tuple[Named, Floats]], names: Sequence[str]) -> Floats:
    """Return (n, D): the named features in order, then the text; unknown names are left out."""
    place = {name: k for k, name in enumerate(names)}
    found = np.zeros((len(rows), len(names)))
    for row, (named, _) in zip(found, rows, strict=True):
        for name, value in named.items():
            if name in place:
                row[place[name]] = value
    if not rows or not rows[0][1].size:
        return found
    return np.concatenate([found, np.array([text for _, text in rows])], axis=1)


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
    found = scorer.prefixes(spec, solution)
    return strategy(how)(found) if len(found) else 0.0


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
