"""
The journal of a session, ``journal.jsonl``: one JSON object per line.

Line n is ``{"n": n, "t": stamp_ns, "move": "...", "data": {...}}``. If the process is killed or
the machine loses power, at most the last line is incomplete.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from arena_robot.core.errors import DataError

JOURNAL = 'journal.jsonl'


@dataclass(frozen=True)
class Entry:
    """One entry of the journal."""

    n: int
    stamp_ns: int
    move: str
    data: Mapping[str, Any]


def read_journal(path: Path) -> Iterator[Entry]:
    """
    Yield the entries of a journal file; an incomplete last line is ignored.

    Raises DataError for any other damage, naming the line.
    """
    raw = path.read_bytes()
    lines = raw[:whole_length(raw)].splitlines()
    for n, line in enumerate(lines):
        try:
            entry = parse_entry(line)
        except DataError as error:
            raise DataError(f'{path} line {n + 1} is damaged: {error}') from error
        if entry.n != n:
            raise DataError(f'{path} line {n + 1} has number {entry.n}: lines are missing')
        yield entry


def parse_entry(line: bytes) -> Entry:
    """Return the entry in a line of a journal; DataError when it is not one."""
    try:
        item = json.loads(line)
        return Entry(int(item['n']), int(item['t']), str(item['move']), dict(item['data']))
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        raise DataError(f'{error or type(error).__name__}') from error


def line_of(entry: Entry) -> bytes:
    """Return the line that an entry is written as; ValueError for what JSON cannot hold."""
    item = {'n': entry.n, 't': entry.stamp_ns, 'move': entry.move, 'data': entry.data}
    return (json.dumps(item, ensure_ascii=False, allow_nan=False) + '\n').encode('utf-8')


def whole_length(raw: bytes) -> int:
    """Return the length of a file's complete lines."""
    return raw.rfind(b'\n') + 1
