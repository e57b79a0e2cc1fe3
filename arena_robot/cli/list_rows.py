"""An option that lists the rows of a table, those of installed packages too, and ends."""

import argparse
from collections.abc import Sequence
from typing import Any


class ListRows(argparse.Action):
    """``table`` is the table as ``module:NAME``, imported only when the list is asked for."""

    def __init__(self, option_strings: Sequence[str], dest: str, **options: str) -> None:
        self.table = options.pop('table')
        super().__init__(option_strings, dest, nargs=0, help=options['help'])

    def __call__(self, parser: argparse.ArgumentParser, namespace: argparse.Namespace,
                 values: str | Sequence[Any] | None, option_string: str | None = None) -> None:
        """Print name and summary of every row."""
        from arena_robot.core.extensions import Table, load_object
        found = load_object(self.table)
        assert isinstance(found, Table)
        rows = found.rows()
        width = max(len(name) for name in rows)
        for name, row in rows.items():
            print(f'{name:{width}}  {row.summary}')
        parser.exit()
