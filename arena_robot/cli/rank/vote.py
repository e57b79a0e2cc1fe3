"""
Aggregate ranked ballots with a voting rule.

PROFILE is a JSON file: {"alternatives": ["a", "b", "c", "d"], "votes": [{"weight": 1,
"ranking": ["a", ["b", "c"], "d"]}], "unranked": "ignored" or "last"}; a list inside a ranking
is a tie. --list-methods lists the rules. Ties are reported, never broken.

  arena vote profile.json --method schulze
  arena vote profile.json --method all --k 2 --winners 3 --json
"""

import argparse
import sys
from typing import Any

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
    """Count and print."""
    from arena_robot.core.errors import RankingError
    from arena_robot.ranking.json_input import read_json
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
    print('\n\n'.join(table(name, answer) for name, answer in answers.items()))
    for note in notes:
        print(f'arena: {note}', file=sys.stderr)
    return 0


def table(method: str, answer: dict[str, Any]) -> str:
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
