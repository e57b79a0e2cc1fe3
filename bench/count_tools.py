"""
Count who uses what should have one home: atomic writes, processes, JPEG, ISO time, calls.

Reads the sources of a revision (default: the working tree) and lists, per tool, the files of
arena_robot that call it.

    python bench/count_tools.py [REVISION]
"""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
REPLACE = 'Path.replace'
# What the name of a called function is, or what it ends with.
TOOLS = {
    'replace a file by another': ('os.replace', 'os.rename', '.rename', REPLACE),
    'fsync': ('os.fsync', 'os.fdatasync'),
    'start a process': ('subprocess.Popen',),
    'JPEG': ('cv2.imencode', 'cv2.imdecode', 'cv2.imwrite', 'cv2.imread'),
    'ISO time': ('.isoformat', '.fromisoformat', 'datetime.fromtimestamp'),
    'wait for a ROS service or action': ('.wait_for_service', '.wait_for_server'),
    'gRPC channel': ('grpc.secure_channel', 'grpc.insecure_channel', 'aio.secure_channel',
                     'aio.insecure_channel'),
    'many at once': ('joblib.Parallel', 'Parallel', 'multiprocessing.Pool'),
}


def sources(revision: str | None) -> Iterator[tuple[str, str]]:
    """Yield (path below arena_robot, text) of every module that was written by hand."""
    if revision is None:
        for path in sorted((ROOT / 'arena_robot').rglob('*.py')):
            yield path.relative_to(ROOT / 'arena_robot').as_posix(), path.read_text('utf-8')
        return
    listed = _git('ls-tree', '-r', '--name-only', revision, 'arena_robot')
    for name in listed.splitlines():
        if name.endswith('.py'):
            yield name.removeprefix('arena_robot/'), _git('show', f'{revision}:{name}')


def users(revision: str | None = None) -> dict[str, list[str]]:
    """Return the files that call each tool."""
    found: dict[str, list[str]] = {tool: [] for tool in TOOLS}
    for name, text in sources(revision):
        if '_pb2' in name:
            continue
        calls = {_called(node) for node in ast.walk(ast.parse(text))
                 if isinstance(node, ast.Call)}
        for tool, endings in TOOLS.items():
            if any(_is(call, ending) for call in calls for ending in endings):
                found[tool].append(name)
    return found


def _called(node: ast.Call) -> str:
    name = _dotted(node.func)
    # Text has a method of this name as well, which takes two arguments.
    one = name.endswith('.replace') and len(node.args) == 1 and not node.keywords
    return REPLACE if one else name


def _is(call: str, ending: str) -> bool:
    return call.endswith(ending) if ending.startswith('.') else (
        call == ending or call.endswith('.' + ending))


def _dotted(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return f'{_dotted(node.value)}.{node.attr}'
    return node.id if isinstance(node, ast.Name) else ''


def _git(*words: str) -> str:
    return subprocess.run(['git', '-C', str(ROOT), *words], check=True, capture_output=True,
                          text=True).stdout


if __name__ == '__main__':
    for tool, names in users(sys.argv[1] if len(sys.argv) > 1 else None).items():
        print(f'{len(names):3}  {tool}: {", ".join(names)}')
