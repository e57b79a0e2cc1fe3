"""
Print the help of a verb, or the list of all verbs.

    arena help
    arena help policy serve
"""

import argparse

VERB = 'help'
HELP = 'print the help of a verb'


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb that is asked for."""
    parser.add_argument('verb', nargs='*', help='such as: policy serve')


def run(args: argparse.Namespace) -> int:
    """Print it."""
    from arena_robot.cli.main import parser
    found = parser().leaf(args.verb)
    known = found.prog.split()[1:]
    if known != args.verb:
        if found.groups():
            found.parse_args(args.verb[len(known):])    # names the nearest verb
        found.error(f"'{' '.join(args.verb)}' is no verb; `{found.prog}` is")
    found.print_help()
    return 0
