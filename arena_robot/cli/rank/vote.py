"""Verbs of collective choice: ballots by voting rules, strategies by the game they play."""

import argparse
import sys
from typing import TYPE_CHECKING, Any

from arena_robot.cli.terminal import ListRows, json_text


def vote_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument('profile', metavar='PROFILE.json', help='alternatives and ballots')
    parser.add_argument('--method', required=True, metavar='M',
                        help='a rule by name, module:name, or all')
    parser.add_argument('--list-methods', action=ListRows, help='list the rules and exit',
                        table='arena_robot.ranking.voting.rules:RULES')
    parser.add_argument('--k', type=int, help='places that approval counts (default 3)')
    parser.add_argument('--winners', type=int, metavar='W',
                        help='seats of stv (default half of the alternatives)')
    parser.add_argument('--as-printed', action='store_true',
                        help='count stv and schulze as the tables of their paper do')
    parser.add_argument('--plot', metavar='FILE',
                        help='draw the graph of ranked pairs (.png or .svg)')


def run_vote(args: argparse.Namespace) -> int:
    """
    Aggregate ranked ballots with a voting rule.

    PROFILE is a JSON file: {"alternatives": ["a", "b", "c", "d"], "votes": [{"weight": 1,
    "ranking": ["a", ["b", "c"], "d"]}], "unranked": "ignored" or "last"}; a list inside a ranking
    is a tie. --list-methods lists the rules. Ties are reported, never broken.

      arena vote profile.json --method schulze
      arena vote profile.json --method all --k 2 --winners 3 --json
    """
    from arena_robot.core.errors import RankingError
    from arena_robot.core.files import read_json
    from arena_robot.ranking.voting.profile import profile_from_json
    from arena_robot.ranking.voting.rules import RULES, vote
    from arena_robot.ranking.voting.scoring import result_to_json

    profile = profile_from_json(read_json(args.profile))
    answers: dict[str, dict[str, Any]] = {}
    for name in RULES.names() if args.method == 'all' else [args.method]:
        try:
            result = vote(profile, name, args.k, args.winners, as_printed=args.as_printed)
            answers[name] = result_to_json(result, profile.names)
        except RankingError as error:
            if args.method != 'all':
                raise
            answers[name] = {'scores': None, 'winners': [], 'tiers': None, 'unique': False,
                             'warnings': [], 'refused': str(error)}
    if args.plot:
        from arena_robot.reports.game_plots import draw_ranked_pairs
        draw_ranked_pairs(profile, args.plot)
    notes = list(profile.warnings())
    if args.json:
        shape = {'methods': answers} if args.method == 'all' else answers[args.method]
        print(json_text({**shape, 'profile_warnings': notes}))
        return 0
    print('\n\n'.join(_ballot_lines(name, answer) for name, answer in answers.items()))
    for note in notes:
        print(f'arena: {note}', file=sys.stderr)
    return 0


def _ballot_lines(method: str, answer: dict[str, Any]) -> str:
    """Return one rule's outcome as text: rank, alternative, score or chance."""
    if 'refused' in answer:
        return f'{method}\n  refused: {answer["refused"]}'
    sure = '' if answer['unique'] else '   (not unique)'
    lines = [f'{method}: winners {", ".join(answer["winners"]) or "nobody"}{sure}']
    numbers = answer.get('lottery') or answer['scores'] or {}
    tiers = answer['tiers'] or ([answer['winners']] if 'lottery' in answer else [])
    width = max((len(name) for tier in tiers for name in tier), default=0)
    place = 1
    for tier in tiers:
        for name in tier:
            number = numbers.get(name)
            shown = '' if number is None else f'{number:12.6g}'
            lines.append(f'  {place:>3}{"=" if len(tier) > 1 else " "} {name:<{width}}{shown}')
        place += len(tier)
    lines += [f'  note: {note}' for note in answer['warnings']]
    return '\n'.join(lines)


if TYPE_CHECKING:
    from arena_robot.ranking.games.payoffs import GameInput

RATINGS = ('deviation', 'nash', 'uniform', 'alpha_rank')


def game_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument('game', metavar='GAME.json', help='payoffs or scores')
    parser.add_argument('--rating', choices=RATINGS, default='deviation')
    parser.add_argument('--normalise', action='store_true',
                        help='scale each task of a table of scores to [0, 1] first')
    parser.add_argument('--plot', metavar='FILE',
                        help='plot the contributions of tasks to models (.png or .svg; deviation '
                             'ratings of a table)')


def run_game(args: argparse.Namespace) -> int:
    """
    Rate the strategies of a game, or of the game that a table of scores defines.

    GAME is a JSON file: {"players": N, "shape": [...], "payoffs": [one nested list per player],
    "labels": null or [...]}, or {"scores": [[...]], "models": [...], "tasks": [...], "kind":
    "model_vs_task" or "model_vs_model_vs_task"}, a row of scores per model.

    Ratings: deviation (any game), nash (two players, zero-sum), uniform (mean payoff), alpha_rank
    (small games: stationary distribution of an evolution). They are in the units of the payoffs;
    --normalise scales each task of a table to [0, 1] first.

      arena game game.json --rating deviation
      arena game scores.json --rating deviation --json --plot contributions.svg
    """
    import dataclasses

    from arena_robot.core.errors import DataError
    from arena_robot.core.files import read_json
    from arena_robot.ranking.games.payoffs import game_from_json, normalised

    game = game_from_json(read_json(args.game))
    if args.normalise:
        if game.scores is None:
            raise DataError('--normalise is for tables of scores; this game has payoffs')
        game = dataclasses.replace(game, scores=normalised(game.scores))
    rate = {'deviation': _deviation, 'nash': _nash, 'uniform': _uniform,
            'alpha_rank': _alpha_rank}[args.rating]
    answer = rate(game)
    if args.plot:
        if not answer.get('contributions'):
            raise DataError('--plot draws the task contributions; they come with --rating '
                            'deviation of a table of scores')
        from arena_robot.reports.game_plots import draw_contributions
        draw_contributions(answer['contributions'], game.names[0], game.names[-1], args.plot)
    print(json_text(answer) if args.json else _rating_lines(answer, game))
    return 0


def _floats(values: Any) -> list[Any]:
    out: list[Any] = (values + 0.).tolist()
    return out


def _deviation(game: 'GameInput') -> dict[str, Any]:
    from arena_robot.ranking.games.deviation import deviation_ratings, rate_table

    if game.scores is not None and game.kind is not None:
        rated = rate_table(game.scores, game.kind)
    else:
        rated = deviation_ratings(game.payoffs or ())
    return {
        'ratings': [_floats(r) for r in rated.ratings],
        'equilibrium': {'joint': rated.joint.tolist(), 'probability': _floats(rated.mass)},
        'contributions': None if rated.contributions is None else _floats(rated.contributions),
        'diagnostics': {
            'rating': 'deviation', 'residual': rated.residual, 'stages': rated.stages,
            'linear_programs': rated.programs, 'columns_used': rated.columns,
            'joint_strategies': rated.size}}


def _nash(game: 'GameInput') -> dict[str, Any]:
    from arena_robot.ranking.games.nash_alpha import nash_average

    averaged = nash_average(_two_player(game, 'Nash averaging'))
    return {
        'ratings': [_floats(r) for r in averaged.ratings],
        'equilibrium': {'marginals': [_floats(averaged.first.mixed),
                                      _floats(averaged.second.mixed)]},
        'contributions': None,
        'diagnostics': {'rating': 'nash', 'value': averaged.value,
                        'unique': [averaged.first.unique, averaged.second.unique],
                        'essential': [list(averaged.first.essential),
                                      list(averaged.second.essential)]}}


def _uniform(game: 'GameInput') -> dict[str, Any]:
    from arena_robot.ranking.games.deviation import uniform_ratings, uniform_table

    if game.scores is not None and game.kind is not None:
        ratings = uniform_table(game.scores, game.kind)
    else:
        ratings = uniform_ratings(game.payoffs or ())
    return {'ratings': [_floats(r) for r in ratings], 'equilibrium': None, 'contributions': None,
            'diagnostics': {'rating': 'uniform'}}


def _alpha_rank(game: 'GameInput') -> dict[str, Any]:
    from arena_robot.ranking.games.nash_alpha import alpha_rank

    payoffs = game.payoffs if game.scores is None else _two_player(game, 'α-Rank')
    ranked = alpha_rank(payoffs or ())
    return {'ratings': [_floats(r) for r in ranked.ratings], 'equilibrium': None,
            'contributions': None, 'diagnostics': {'rating': 'alpha_rank'}}


def _two_player(game: 'GameInput', rating: str) -> Any:
    from arena_robot.core.errors import DataError
    from arena_robot.ranking.games.payoffs import MODEL_TASK

    if game.scores is None:
        return game.payoffs
    if game.kind != MODEL_TASK:
        raise DataError(f"{rating} of a table is for the kind '{MODEL_TASK}'; this one is "
                        f"'{game.kind}'. Use deviation ratings")
    return game.scores, -game.scores


def _rating_lines(answer: dict[str, Any], game: 'GameInput') -> str:
    """Return the ratings of each player as text, best first; equal ones share a rank."""
    blocks = []
    for p, (ratings, names) in enumerate(zip(answer['ratings'], game.names, strict=True)):
        order = sorted(range(len(names)), key=lambda i: (-round(ratings[i], 6), i))
        width = max(map(len, names))
        lines = [f'player {p + 1}: {answer["diagnostics"]["rating"]} ratings']
        for i in order:
            rank = 1 + sum(round(rating, 6) > round(ratings[i], 6) for rating in ratings)
            lines.append(f'  {rank:>3} {names[i]:<{width}} {ratings[i] + 0.:12.6f}')
        blocks.append('\n'.join(lines))
    return '\n\n'.join(blocks)
