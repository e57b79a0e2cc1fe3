"""List the judges that `arena audit --judge` knows."""

import argparse

VERB = 'judge list'
HELP = 'list the judges'


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments: none."""


def run(args: argparse.Namespace) -> int:
    """Print names and what each is."""
    import inspect

    from arena_robot.audit.judges import JUDGES
    rows = [(name, (inspect.getdoc(maker) or '').split('\n')[0])
            for name, maker in JUDGES.rows().items()]
    width = max(len(name) for name, _ in rows)
    for name, about in rows:
        print(f'{name:{width}}  {about}')
    return 0
