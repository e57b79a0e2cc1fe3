"""
The statements of "Deviation ratings" (Marris et al. 2025) that its text or public data give.

The biased Shapley game and populations of its mixtures, LiveBench's tie, the Atari agents that
share the first place, and the populations of figure 3, which are played with the package
open_spiel.
"""

import importlib
from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from arena_robot.ranking.base import Floats
from arena_robot.ranking.games.deviation import (
    DeviationRatings,
    deviation_ratings,
    rate_table,
    uniform_ratings,
)
from arena_robot.ranking.games.payoffs import MODEL_MODEL_TASK, MODEL_TASK, normalised
from arena_robot.ranking.reproduce.lines import (
    PublishedLine,
    line,
    mean_margin,
    ordered,
    unchecked,
)

MARRIS = 'Marris et al. 2025'
# Table 2a: what R, P and S get against each other, and with the equilibrium N as a fourth.
SHAPLEY = np.array([
    [-8, -2, 4, -680 / 241], [2, -8, -1, -680 / 241], [-4, 1, -8, -680 / 241],
    [-712 / 241, -920 / 241, -184 / 241, -680 / 241]])
UNIFORM = (-2126, -2367, -3331, -2497)
ATARI_FIRST = {MODEL_TASK: 4, MODEL_MODEL_TASK: 3}
# With this game ngu is first too: the figure's tie of three is found without it.
LEFT_OUT = 'montezuma_revenge'
# Figure 3: eight policies a player, of which the lowest two are replaced in each round. Behind
# each game its populations and rounds: Sheriff's differ more, and are played faster.
GAMES = {'three-player Kuhn poker': ('kuhn_poker(players=3)', 5, 30),
         'Sheriff': ('sheriff(item_penalty=1.0,item_value=5.0,max_bribe=2,max_items=10,'
                     'num_rounds=2,sheriff_penalty=1.0)', 16, 100)}
POPULATION, REPLACED = 8, 2


def table_2_lines() -> list[PublishedLine]:
    """Return the lines of the biased Shapley game."""
    rated = np.concatenate(deviation_ratings([SHAPLEY, SHAPLEY.T]).ratings)
    equal = bool(np.ptp(rated) < 1e-9)
    lines = [line(MARRIS, 'table 2, four strategies have one deviation rating', 'R = P = S = N',
                  f'all {rated[0]:.6f}' if equal else str(rated.round(4).tolist()), equal,
                  'the ratings are not equal')]
    uniform = np.rint(964 * uniform_ratings([SHAPLEY, SHAPLEY.T])[0]).astype(int).tolist()
    return lines + [line(MARRIS, f'table 2, uniform rating of {name}', f'{printed}/964',
                         f'{ours}/964', ours == printed, 'the printed payoffs give this value')
                    for name, printed, ours in zip('RPSN', UNIFORM, uniform, strict=True)]


def livebench_lines(models: Sequence[str], scores: Floats | None) -> list[PublishedLine]:
    """Return the line of LiveBench's four-way tie, for scores (models, tasks) where given."""
    what, published = 'figure 2, four models share the first place', 'a tie of four at -0.0497'
    if scores is None:
        return [unchecked(MARRIS, what, published, 'the scores of 18 August 2024 are not in a '
                          'public repository; give them with --livebench')]
    first, value = _first(models, scores, MODEL_MODEL_TASK)
    return [line(MARRIS, what, published, f'{", ".join(first)} at {value:.4f}',
                 len(first) == 4 and abs(value + 0.0497) < 6e-5, 'these are other scores')]


def _first(names: Sequence[str], scores: Floats, kind: str) -> tuple[list[str], float]:
    """Return who shares the first place of (names, tasks) scores, and the rating there."""
    rated = rate_table(scores, kind).ratings[0]
    first = np.flatnonzero(rated > rated.max() - 1e-6).tolist()
    return [names[k] for k in first], float(rated.max())


def atari_tie_lines(agents: Sequence[str], games: Sequence[str], scores: Floats,
                    ) -> list[PublishedLine]:
    """Return who is first of (agents, games) scores, without and with one game."""
    table, kept = normalised(scores), [game != LEFT_OUT for game in games]
    lines = []
    for kind, count in ATARI_FIRST.items():
        first, with_it = (_first(agents, of, kind)[0] for of in (table[:, kept], table))
        known = {'r2d2(bandit)', 'agent57', 'muzero'} <= set(first)
        lines.append(line(
            MARRIS, f'figure 4, agents that share the first place, {kind}, without {LEFT_OUT}',
            f'{count} of 20, with r2d2(bandit), agent57 and muzero',
            f'{len(first)} of {len(agents)}: {", ".join(first)}; with {LEFT_OUT} '
            f'{len(with_it)}: {", ".join(with_it)}', known and len(first) == count,
            f'these are {len(agents)} of the 20 agents'))
    return lines


def population_lines(steps: int = 8) -> list[PublishedLine]:
    """
    Return the lines of figure 1: ratings of populations of mixtures of R, P and S.

    Where the paper draws mixtures at random, all mixtures in ``steps`` equal steps stand here.
    """
    pure, even = np.eye(3), np.array([(r, p, steps - r - p) for r in range(steps + 1)
                                      for p in range(steps + 1 - r)]) / steps
    lines = []
    for part, mixtures, order in (
            ('a, even', [*pure, *even], 'R > P > S'),
            ('b, near paper', [*pure, *(0.3 * even + [0, 0.7, 0])], 'S > R > P'),
            ('c, at most 0.75 of scissors', even[even[:, 2] <= 0.75], '')):
        rated, uniform = _rated(mixtures)
        spread = float(np.ptp(rated.ratings[0]))
        found = ' > '.join('RPS'[k] for k in np.argsort(-uniform[:3])) if order else ''
        lines.append(line(MARRIS, f'figure 1{part}: deviation ratings are equal'
                          + (', uniform ones not' if order else ''), f'equal {order}'.strip(),
                          f'equal within {spread:.0e} {found}'.strip(),
                          spread < 1e-6 and found == order, 'these mixtures rate otherwise'))
    mixtures = np.array([*pure[:2], *even[even[:, 2] <= 0.25]])
    rated, _ = _rated(mixtures)
    rock, paper = rated.ratings[0][:2].tolist()
    played = sorted({'RPS'[mixtures[k].argmax()] for k in rated.joint[:, 0]})
    return [*lines, line(
        MARRIS, 'figure 1d, at most 0.25 of scissors: paper is above rock; what is mostly '
        'rock and mostly paper is played', 'P > R; P, R',
        f'{paper:.3g} > {rock:.3g}; {", ".join(played)}',
        paper > rock and played == ['P', 'R'], 'these mixtures rate otherwise')]


def _rated(mixtures: ArrayLike) -> tuple[DeviationRatings, Floats]:
    """Return the deviation and uniform ratings of (k, 3) mixtures of R, P and S."""
    payoffs = np.asarray(mixtures) @ SHAPLEY[:3, :3] @ np.transpose(mixtures)
    return deviation_ratings([payoffs, payoffs.T]), uniform_ratings([payoffs, payoffs.T])[0]


def improvement_lines() -> list[PublishedLine]:
    """Return the lines of figure 3; what cannot be played without open_spiel is said."""
    what = 'figure 3, dropping the policies with the lowest rating narrows the gap to equilibrium'
    try:
        spiel = importlib.import_module('pyspiel')
    except ImportError:
        return [unchecked(MARRIS, what, 'drawn', 'the package open_spiel is not installed: '
                          'pip install open_spiel')]
    fell, text = {}, {}
    for game, (name, populations, rounds) in GAMES.items():
        gaps = np.array([[gap_before_and_after(spiel, name, rounds, seed, uniform=uniform)
                          for seed in range(populations)] for uniform in (False, True)])
        (start, by_deviation), (_, by_uniform) = gaps.mean(axis=1)
        fell[game] = gaps[:, :, 0] - gaps[:, :, 1]
        text[game] = f'from {start:.3f} to {by_deviation:.3f} by deviation and to ' \
                     f'{by_uniform:.3f} by uniform ratings in {rounds} rounds'
    kuhn, sheriff = GAMES
    why = 'random policies of these populations do not show it'
    return [ordered(MARRIS, f'{what} of {kuhn}, by both ratings', 'falls by both', text[kuhn],
                    [mean_margin(x) for x in fell[kuhn]], why),
            ordered(MARRIS, f'{what} of {sheriff}, by deviation ratings', 'falls',
                    text[sheriff], [mean_margin(fell[sheriff][0])], why),
            ordered(MARRIS, f'{what} of {sheriff} more than uniform ratings do',
                    'does not fall by uniform ratings', text[sheriff],
                    [mean_margin(fell[sheriff][0] - fell[sheriff][1])], why)]


def gap_before_and_after(spiel: Any, name: str, rounds: int, seed: int, *, uniform: bool,
                         ) -> tuple[float, float]:
    """
    Return what the players of a game gain by a best response, before and after ``rounds``.

    Each player has ``POPULATION`` random policies. A round rates them by the payoffs of all
    against all, by uniform or by deviation ratings, and replaces the ``REPLACED`` lowest of each
    player. The gain is that over the strictest coarse correlated equilibrium of the population,
    in the whole game, summed over players.
    """
    game, rng = spiel.load_game(name), np.random.default_rng(seed)
    root, players = game.new_initial_state(), range(game.num_players())

    def fresh(player: int) -> Any:
        return spiel.GetRandomPolicy(game, int(rng.integers(2 ** 31)), player)

    def playing(joint: Sequence[int]) -> list[Any]:
        return [policies[player][place] for player, place in enumerate(joint)]

    policies = [[fresh(player) for _ in range(POPULATION)] for player in players]
    shape = (POPULATION,) * len(players)
    payoffs, new = np.empty((*shape, len(players))), np.ones((len(players), POPULATION), bool)
    gaps = []
    for k in range(rounds + 1):
        for joint in np.ndindex(shape):
            if new[players, joint].any():
                payoffs[joint] = spiel.expected_returns(root, playing(joint), -1, True)
        tensors = list(np.moveaxis(payoffs, -1, 0))
        if k in {0, rounds}:
            rated = deviation_ratings(tensors)
            device = [(float(mass), spiel.to_joint_tabular_policy(playing(joint), False))
                      for joint, mass in zip(rated.joint.tolist(), rated.mass, strict=True)]
            gaps.append(float(spiel.cce_dist(game, device).dist_value))
        new[:] = False
        ratings = uniform_ratings(tensors) if uniform else deviation_ratings(tensors).ratings
        for player, place in product(players, range(REPLACED)):
            lowest = int(np.argsort(ratings[player], kind='stable')[place])
            policies[player][lowest], new[player, lowest] = fresh(player), True
    return gaps[0], gaps[-1]
