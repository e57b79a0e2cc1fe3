"""
Count lines and files of each room and of the tests, at one or more revisions side by side.

Generated files (``_pb2``) are left out. Without a revision: the working tree.

    python bench/count_rooms.py [REVISION ...]
"""

import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from statistics import median

ROOT = Path(__file__).parent.parent
WORKING_TREE = ''
SMALL_FILE_LINES = 60


def sizes(revision: str) -> Iterator[tuple[str, int]]:
    """Yield (path, lines) of every module of the package and of the tests."""
    if revision == WORKING_TREE:
        for folder in ('arena_robot', 'test'):
            for path in sorted((ROOT / folder).rglob('*.py')):
                yield path.relative_to(ROOT).as_posix(), path.read_bytes().count(b'\n')
        return
    listed = _git('ls-tree', '-r', '--name-only', revision, 'arena_robot', 'test').decode()
    paths = [path for path in listed.splitlines() if path.endswith('.py')]
    asked = ''.join(f'{revision}:{path}\n' for path in paths).encode()
    texts = _git('cat-file', '--batch', given=asked)
    for path in paths:
        header, _, texts = texts.partition(b'\n')
        length = int(header.split()[-1])
        yield path, texts[:length].count(b'\n')
        texts = texts[length + 1:]


def rooms(revision: str) -> dict[str, list[int]]:
    """Return the lengths of the files of each room, of the whole package, and of the tests."""
    lengths: dict[str, list[int]] = defaultdict(list)
    for path, lines in sizes(revision):
        if '_pb2' in path:
            continue
        folder, *rest = path.split('/')
        lengths[folder].append(lines)
        if folder == 'arena_robot' and len(rest) > 1:
            lengths[f'  {rest[0]}'].append(lines)
    return dict(sorted(lengths.items(), key=lambda item: (item[0] != 'arena_robot', item[0])))


def main(revisions: list[str]) -> None:
    """Print the table."""
    columns = [rooms(revision) for revision in revisions or [WORKING_TREE]]
    names = list(dict.fromkeys(name for column in columns for name in column))
    print(f"{'':<14}" + ''.join(f'{revision[:22] or "working tree":>24}'
                                for revision in revisions or [WORKING_TREE]))
    print(f"{'':<14}" + f"{'lines':>9}{'files':>7}{'<60':>8}" * len(columns))
    for name in names:
        print(f'{name:<14}' + ''.join(_cells(column.get(name, [])) for column in columns))
    print(f"{'median file':<14}" + ''.join(
        f"{median(column['arena_robot']):>9.0f}{'':>15}" for column in columns))


def _cells(lengths: list[int]) -> str:
    small = sum(length < SMALL_FILE_LINES for length in lengths)
    return f'{sum(lengths):>9}{len(lengths):>7}{small:>8}'


def _git(*words: str, given: bytes = b'') -> bytes:
    return subprocess.run(['git', '-C', str(ROOT), *words], check=True, input=given,
                          stdout=subprocess.PIPE).stdout


if __name__ == '__main__':
    main(sys.argv[1:])
