"""CSV tables with a header: the one reader and writer, and cells that no spreadsheet runs."""

import csv
import io
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from arena_robot.core.errors import DataError
from arena_robot.core.files import write_text

# With these a spreadsheet takes a cell for a formula.
FORMULA = ('=', '+', '-', '@', '\t', '\r')


def rows_of(path: Path, needed: Sequence[str] = ()) -> list[tuple[int, dict[str, str]]]:
    """Return the rows of a table with their lines; DataError without a column that is needed."""
    try:
        with path.open(newline='', encoding='utf-8-sig') as file:
            reader = csv.DictReader(file)
            header = reader.fieldnames or []
            missing = [name for name in needed if name not in header]
            if missing:
                raise DataError(f"{path}: no column {', '.join(missing)}; "
                                f"found: {', '.join(header) or 'an empty file'}")
            return [(reader.line_num, {k: _as_typed(v or '') for k, v in row.items()
                                       if k is not None})
                    for row in reader]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f'{path}: cannot be read: {error}') from error


def harmless(value: Any) -> Any:
    """Return the cell; one that a spreadsheet would read as a formula gets a quote in front."""
    if isinstance(value, str) and value.lstrip("'").startswith(FORMULA):
        return f"'{value}"
    return value


def csv_line(values: Sequence[Any]) -> str:
    """Return one line of a table whose cells are harmless, with its end."""
    line = io.StringIO(newline='')
    csv.writer(line, lineterminator='\n').writerow(tuple(map(harmless, values)))
    return line.getvalue()


def write_csv(path: Path, columns: Sequence[str], rows: Iterable[tuple[Any, ...]]) -> None:
    """Write a table whose cells are harmless, atomically."""
    lines = io.StringIO(newline='')
    writer = csv.writer(lines)
    writer.writerow(columns)
    writer.writerows(tuple(map(harmless, row)) for row in rows)
    write_text(path, lines.getvalue())


def _as_typed(value: str) -> str:
    return value[1:] if value.startswith("'") and value.lstrip("'").startswith(FORMULA) else value
