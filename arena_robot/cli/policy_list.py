"""List the example policies: `arena policy serve NAME` serves one, `arena policy check` too."""

import argparse

VERB = 'policy list'
HELP = 'list the example policies'


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments: there are none."""


def run(args: argparse.Namespace) -> int:
    """Print each example with the first line of what it says about itself."""
    import importlib

    from arena_robot.policy.examples import EXAMPLES

    for name, where in sorted(EXAMPLES.items()):
        module, _, made_by = where.partition(':')
        text = (getattr(importlib.import_module(module), made_by).__doc__ or '').strip()
        print(f'{name:<16}{text.splitlines()[0] if text else ""}')
    return 0
