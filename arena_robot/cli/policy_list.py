"""
List the example policies and those that installed packages add.

`arena policy serve NAME` serves one, `arena policy check NAME` checks one.
"""

import argparse

VERB = 'policy list'
HELP = 'list the policies by name'


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments: there are none."""


def run(args: argparse.Namespace) -> int:
    """Print each policy with the first line of its docstring."""
    from arena_robot.policy.examples import EXAMPLES

    for name, made_by in sorted(EXAMPLES.rows().items()):
        text = (made_by.__doc__ or '').strip()
        print(f'{name:<16}{text.splitlines()[0] if text else ""}')
    return 0
