"""Rooms import only downwards, no module imports itself, outside libraries have one home."""

import ast
import functools
import gc
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / 'arena_robot'
ROW = {'robots': 0, 'core': 1, 'records': 2, 'models': 2, 'ranking': 2, 'safety': 2,
       'drivers': 3, 'policy': 3, 'recording': 3, 'audit': 3, 'skills': 3, 'session': 4,
       'server': 4, 'reports': 4, 'nodes': 5, 'web': 5, 'trials': 5, 'demo': 6, 'blind': 6,
       'cli': 7}
# Rows inside a room: folders and files of a lower row know nothing of those of a higher one. Files
# that are not named here are the room's ground, row 0, and know no folder of it.
ROWS_INSIDE = {
    'ranking': {'pairwise': 1, 'games': 1, 'task': 2, 'hierarchical': 2, 'evaluators': 2,
                'voting': 2, 'intervals': 3, 'methods': 4, 'reproduce': 5, 'fitting': 5,
                'differences': 5},
    'recording': {'bag': 1, 'episode': 2, 'formats': 3},
    'web': {'console': 1, 'site': 1, 'label_page': 2},
    'server': {'store': 1, 'access': 2, 'pool': 2, 'transparency': 2, 'client': 3, 'relay': 3,
               'sessions': 4, 'results': 5, 'upkeep': 6, 'service': 7, 'app': 8},
    'nodes': {'remote': 1, 'recorder': 1, 'ranking': 1, 'replay': 1, 'session': 2, 'vendor': 2,
              'audit': 2, 'backends': 3, 'adopt': 3, 'arm': 4, 'gripper': 4, 'camera': 4,
              'simulation': 5, 'executables': 5, 'station': 6},
}
HOMES = {
    'rclpy': ('nodes/',), 'arena_msgs': ('nodes/',), 'rcl_interfaces': ('nodes/',),
    'mujoco': ('drivers/sim/', 'safety/models.py', 'safety/bounds.py'),
    'grpc': ('policy/', 'server/'), 'google': ('policy/', 'server/'),
    'grpc_health': ('policy/', 'server/'), 'grpc_reflection': ('policy/', 'server/'),
    'websockets': ('policy/openpi/',),
    'msgpack': ('policy/openpi/', 'policy/gr00t_client.py', 'drivers/droid_nuc/'),
    'mcap': ('recording/',), 'argcomplete': ('cli/',),
    'zmq': ('policy/gr00t_client.py', 'drivers/droid_nuc/', 'drivers/emulators/droid_nuc.py'),
    'sqlalchemy': ('server/store/',), 'alembic': ('server/store/',),
    'fastapi': ('web/', 'blind/page.py'), 'starlette': ('web/', 'blind/page.py'),
    'uvicorn': ('web/',), 'matplotlib': ('core/figures.py', 'ranking/plots.py', 'reports/'),
    'pyzed': ('drivers/zed.py',), 'pyrealsense2': ('drivers/realsense.py',),
    'pylibfranka': ('drivers/franka/libfranka.py',), 'franka': ('drivers/franka/rs.py',),
    'gymnasium': ('drivers/sim/',), 'huggingface_hub': ('blind/publish.py',),
    'rerun': ('recording/',), 'rosbags': ('recording/',),
    'zstandard': ('recording/',),
    'av': ('recording/', 'drivers/uvc.py'),
    'h5py': ('recording/',), 'pyarrow': ('recording/', 'audit/simple.py'),
    'cryptography': ('server/',), 'prometheus_client': ('server/',),
    'authlib': ('web/site/',), 'joserfc': ('web/site/',),
    'joblib': ('core/parallel.py',), 'distributed': ('core/parallel.py',),
    'ray': ('core/parallel.py',), 'pandas': ('ranking/standings.py',),
    'polars': ('ranking/standings.py',), 'serial': ('drivers/robotiq.py',),
}
FILES = sorted(p for p in PACKAGE.rglob('*.py') if '_pb2' not in p.name)


@functools.cache
def parsed(path: Path) -> ast.Module:
    """Return the tree of a file; collecting garbage while it grows took four times as long."""
    gc.disable()
    try:
        return ast.parse(path.read_text(encoding='utf-8'))
    finally:
        gc.enable()


@functools.cache
def imports(path: Path) -> set[str]:
    names = set()
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f'{path}: write the whole name, not a relative import'
            names |= {f'{node.module}.{alias.name}' for alias in node.names}
    return names


def forbidden(path: Path) -> list[str]:
    """Return what a file imports from its own row or a higher one."""
    parts = path.relative_to(PACKAGE).parts
    room = parts[0] if len(parts) > 1 else None
    taken = {name: words[1] for name in imports(path)
             if (words := name.split('.'))[0] == 'arena_robot' and words[1:2] and words[1] in ROW}
    return [f'{path.relative_to(PACKAGE)} imports {name}' for name, imported_room in taken.items()
            if room is None or (imported_room != room and ROW[imported_room] >= ROW[room])]


def test_rooms_import_only_downwards():
    assert [line for path in FILES for line in forbidden(path)] == []


def forbidden_inside(path: Path) -> list[str]:
    """Return what a file imports from a folder or file of its room that is not in a lower row."""
    room, *inside = path.relative_to(PACKAGE).with_suffix('').parts
    rows = ROWS_INSIDE.get(room, {})
    if not rows or inside == ['__init__']:
        return []
    parts = {words[2] for name in imports(path)
             if (words := name.split('.'))[:2] == ['arena_robot', room] and words[2:]}
    return [f'{path.relative_to(PACKAGE)} imports {part}' for part in sorted(parts & set(rows))
            if part != inside[0] and rows[part] >= rows.get(inside[0], 0)]


def test_rooms_inside_a_room_import_only_downwards():
    assert [line for path in FILES for line in forbidden_inside(path)] == []
    folders = {f'{room}/{part}' for room, rows in ROWS_INSIDE.items() for part in rows}
    assert {name for name in folders if not (PACKAGE / name).is_dir()
            and not (PACKAGE / f'{name}.py').is_file()} == set()


def test_each_outside_library_has_one_home():
    away = [f'{where} imports {name}; its home is {homes}' for path in FILES
            for name in imports(path)
            if (homes := HOMES.get(name.split('.')[0]))
            and not (where := path.relative_to(PACKAGE).as_posix()).startswith(homes)]
    assert away == []


def module_of(path: Path) -> str:
    words = path.relative_to(PACKAGE.parent).with_suffix('').parts
    return '.'.join(words[:-1] if words[-1] == '__init__' else words)


MODULES = {module_of(path): path for path in sorted(PACKAGE.rglob('*.py'))}


def imported(path: Path) -> set[str]:
    """Return the package's modules that a file imports: at the top, in functions, for types."""
    names = set()
    for name in imports(path):
        while name and name not in MODULES:
            name = name.rpartition('.')[0]
        names.add(name)
    return names - {'', 'arena_robot', module_of(path)}


def cycles(graph: dict[str, set[str]]) -> list[list[str]]:
    """Return the strongly connected components of more than one node."""
    def reached(start: str, edges: dict[str, set[str]]) -> set[str]:
        seen, waiting = set(), [start]
        while waiting:
            for name in edges[waiting.pop()] - seen:
                seen.add(name)
                waiting.append(name)
        return seen

    backward = {name: {user for user in graph if name in graph[user]} for name in graph}
    components: list[list[str]] = []
    for name in graph:
        if not any(name in component for component in components):
            component = reached(name, graph) & reached(name, backward)
            if component:
                components.append(sorted(component))
    return components


def test_no_modules_import_each_other():
    assert cycles({name: imported(path) for name, path in MODULES.items()}) == []


def test_a_cycle_is_found_whatever_its_imports_are_for(tmp_path):
    assert cycles({'a': {'b'}, 'b': {'c', 'd'}, 'c': {'a'}, 'd': set()}) == [['a', 'b', 'c']]
    path = tmp_path / 'lazy.py'
    path.write_text('import arena_robot.core.errors\n'
                    'if TYPE_CHECKING:\n    from arena_robot.core import clock\n'
                    'def f():\n    from arena_robot.core.config import build\n')
    assert set(imports(path)) == {
        'arena_robot.core.errors', 'arena_robot.core.clock', 'arena_robot.core.config.build'}


PROBES = {
    'core/extensions.py': 'whether an object of another package keeps a Protocol; words of a path',
    'cli/doctor_checks.py': 'rosidl makes the type support loader, where it is needed',
}


def probes(tree: ast.AST) -> list[int]:
    """Return the lines that ask an object whether it has an attribute known by name."""
    return [node.lineno for node in ast.walk(tree)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
            and (node.func.id == 'hasattr' or (
                node.func.id == 'getattr' and isinstance(node.args[1], ast.Constant)))]


def test_a_type_says_what_an_object_has():
    probing = {where: lines for path in FILES if (lines := probes(parsed(path)))
               and (where := path.relative_to(PACKAGE).as_posix())}
    assert {where: lines for where, lines in probing.items() if where not in PROBES} == {}, (
        'hasattr, or getattr by a fixed name; declare the attribute, or ask for a Protocol with '
        'isinstance')
    assert set(probing) == set(PROBES), 'these need not be in PROBES any more'


def test_probes_are_found():
    assert probes(ast.parse("hasattr(a, 'b')\ngetattr(a, 'b', 1)\ngetattr(a, name)")) == [1, 2]


def late_callbacks(tree: ast.AST) -> list[int]:
    """Return the lines that set a lambda, or a method of the class, on another object."""
    lines = set()
    for cls in (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)):
        methods = {node.name for node in cls.body
                   if isinstance(node, ast.FunctionDef) and not node.decorator_list}
        for node in ast.walk(cls):
            if isinstance(node, ast.Assign) and _is_callback(node.value, methods):
                lines |= {node.lineno for target in node.targets
                          if isinstance(target, ast.Attribute) and not _is_self(target.value)}
    return sorted(lines)


def _is_callback(value: ast.expr, methods: set[str]) -> bool:
    return isinstance(value, ast.Lambda) or (
        isinstance(value, ast.Attribute) and _is_self(value.value) and value.attr in methods)


def _is_self(value: ast.expr) -> bool:
    return isinstance(value, ast.Name) and value.id == 'self'


def test_callbacks_are_arguments():
    late = {str(path): lines for path in FILES if (lines := late_callbacks(parsed(path)))}
    assert late == {}, 'give the callback to the constructor or the call'


def test_late_callbacks_are_found():
    text = """
class A:
    def __init__(self, other):
        self.own = lambda: 1
        other.heard = lambda: 2
        other.seen = self.look
        other.size = self.size
    def look(self): pass
    @property
    def size(self): return 3
"""
    assert late_callbacks(ast.parse(text)) == [5, 6]


@pytest.mark.parametrize('module', ['arena_robot.nodes.session.node', 'arena_robot.server.client'])
def test_a_station_loads_no_database(module):
    code = (f'import sys, {module}\n'
            'print(*{"sqlalchemy", "alembic", "fsspec"} & set(sys.modules))')
    process = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True,
                             timeout=60, check=True)
    assert process.stdout.split() == []


def test_the_list_of_verbs_loads_nothing_heavy():
    code = ('import sys\nfrom arena_robot.cli.verbs import VERBS, parser\nparser(VERBS)\n'
            'print(*{"mujoco", "grpc", "scipy", "sqlalchemy", "fastapi", "rclpy", "av", '
            '"matplotlib"} & set(sys.modules))')
    process = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True,
                             timeout=60, check=True)
    assert process.stdout.split() == []


# Who may use each tool of bench/count_tools.py: its home, and what it is no copy of.
TOOL_HOMES = {
    'replace a file by another': ['core/files.py'],
    # Those after the first write on in an open file, or one that is made only once.
    'fsync': ['core/files.py', 'recording/bag/mcap_file.py', 'server/store/uploads.py',
              'session/arena/sealed.py', 'session/protocol/journal.py'],
    'start a process': ['core/process.py'],
    # Those after the first read and write PNG as well.
    'JPEG': ['core/jpeg.py', 'drivers/calibration.py', 'drivers/replay.py',
             'drivers/sim/expert.py', 'drivers/sim/room_model.py'],
    # The store asks which day it is at the station, and writes no time.
    'ISO time': ['core/clock.py', 'session/protocol/store.py'],
    'wait for a ROS service or action': ['nodes/lib/calls.py'],
    'gRPC channel': ['policy/grpc/channel.py'],
    'many at once': ['core/parallel.py'],
}


def test_each_tool_has_one_home():
    # In a process of its own: CPython 3.11 can fail to parse while another thread parses.
    done = subprocess.run([sys.executable, PACKAGE.parent / 'bench' / 'count_tools.py'],
                          check=True, capture_output=True, text=True, timeout=60)
    rows = (line[5:].partition(': ') for line in done.stdout.splitlines())
    assert {tool: names.split(', ') for tool, _, names in rows} == TOOL_HOMES
