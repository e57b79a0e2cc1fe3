"""The limits that the project sets itself: short functions and files, and tests that can fail."""

import ast
import functools
from collections import defaultdict
from pathlib import Path

from test_imports import parsed

ROOT = Path(__file__).parent.parent
FUNCTION_LINES, FILE_LINES, SHORT_LINES, MAY_RUN_AGAIN = 40, 500, 30, 5
FOLDERS = ('arena_robot', '.ci', 'launch', 'bench', 'docs', 'test')
GENERATED = ('_pb2.py', '_pb2_grpc.py')
# A migration is a record of a schema: it is never changed again, and split it would read worse.
MIGRATIONS = ROOT / 'arena_robot' / 'server' / 'store' / 'migrations' / 'versions'
FILES = sorted([ROOT / 'setup.py', *(path for folder in FOLDERS
                                     for path in (ROOT / folder).rglob('*.py')
                                     if not path.name.endswith(GENERATED))])
TESTS = [path for path in FILES if path.is_relative_to(ROOT / 'test')]
CHECKS = {'raises', 'warns', 'fail', 'assert_allclose', 'assert_array_equal', 'assert_equal'}
SHORT = set((ROOT / 'test' / 'short_files.txt').read_text(encoding='utf-8').split())
Function = ast.FunctionDef | ast.AsyncFunctionDef


def name(path):
    return path.relative_to(ROOT).as_posix()


def functions(path):
    return [node for node in ast.walk(parsed(path)) if isinstance(node, Function)]


def test_files_are_short():
    sizes = {name(path): len(path.read_text(encoding='utf-8').splitlines()) for path in FILES}
    assert {path: lines for path, lines in sizes.items() if lines > FILE_LINES} == {}
    short = {path for path, lines in sizes.items()
             if lines < SHORT_LINES and not path.endswith('/__init__.py')
             and not path.startswith(name(MIGRATIONS))}
    assert short - SHORT == set(), f'files of less than {SHORT_LINES} lines: merge them by subject'


def test_functions_are_short():
    long = {f'{name(path)}:{f.lineno} {f.name}': f.end_lineno - f.lineno + 1
            for path in FILES if path.parent != MIGRATIONS
            for f in functions(path) if f.end_lineno - f.lineno >= FUNCTION_LINES}
    assert long == {}


@functools.cache
def called(function):
    """Return the names of what a function calls or takes: helpers, methods, fixtures."""
    names = {argument.arg for argument in function.args.args}
    for node in ast.walk(function):
        if isinstance(node, ast.Call):
            names.add(getattr(node.func, 'attr', getattr(node.func, 'id', '')))
    return names


def can_fail(function):
    """Tell whether a function itself asserts, raises, or waits for an error."""
    return bool(called(function) & CHECKS) or any(
        isinstance(node, ast.Assert | ast.Raise) for node in ast.walk(function))


def idle(trees):
    """Return the tests that neither assert nor call a helper of a test file that does."""
    every = [(path, node) for path, tree in trees.items()
             for node in ast.walk(tree) if isinstance(node, Function)]
    able = {node.name for _, node in every if can_fail(node)} - COMMON
    while more := {node.name for _, node in every if called(node) & able} - able - COMMON:
        able |= more
    return [(path, node.name) for path, node in every
            if node.name.startswith('test_') and not can_fail(node) and not called(node) & able]


# Methods of the fakes that raise; a test does not become one that can fail by calling these.
COMMON = {'__init__', 'open', 'close', 'run', 'start', 'stop', 'get', 'infer', 'reset', 'call',
          'command', 'state', 'wait', 'write', 'read', 'add', 'put', 'send', 'move_to'}


def test_every_test_can_fail():
    assert idle({path: parsed(path) for path in TESTS}) == []


def test_a_test_that_cannot_fail_is_found():
    text = ('def helper():\n    assert 1\n\ndef by_helper():\n    helper()\n\n'
            'def test_one():\n    by_helper()\n\ndef test_two():\n    len([])\n\n'
            'def test_three():\n    open()\n\ndef open():\n    raise OSError\n')
    assert idle({'x': ast.parse(text)}) == [('x', 'test_two'), ('x', 'test_three')]


def holds_always(node):
    """Tell whether an assertion is of a constant, or of what its own line makes true."""
    test = node.test
    if isinstance(test, ast.Constant) or (isinstance(test, ast.Tuple) and test.elts):
        return True
    return isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(
        test.ops[0], ast.Eq | ast.Is | ast.LtE | ast.GtE) and ast.dump(test.left) == ast.dump(
            test.comparators[0]) and not any(isinstance(n, ast.Call) for n in ast.walk(test))


def test_no_assertion_holds_always():
    lines = [f'{name(path)}:{node.lineno}' for path in TESTS for node in ast.walk(parsed(path))
             if isinstance(node, ast.Assert) and holds_always(node)]
    assert lines == []


def test_few_tests_may_run_again():
    marked = [f'{name(path)}:{node.lineno}' for path in TESTS for node in ast.walk(parsed(path))
              if isinstance(node, ast.Attribute) and node.attr == 'flaky']
    assert len(marked) <= MAY_RUN_AGAIN, marked


def test_a_program_starts_when_all_of_it_is_defined():
    early = [name(path) for path in FILES if path.is_relative_to(ROOT / 'arena_robot')
             for node in parsed(path).body[:-1]
             if isinstance(node, ast.If) and "'__main__'" in ast.unparse(node.test)]
    assert early == []


PACKAGE = Path(__file__).parent.parent / 'arena_robot'


def shared_names(folder):
    """Return the files of each public top-level class name that more than one file defines."""
    found = defaultdict(list)
    for path in sorted(folder.rglob('*.py')):
        if not path.stem.endswith(('_pb2', '_pb2_grpc')):
            for node in ast.parse(path.read_text(encoding='utf-8')).body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith('_'):
                    found[node.name].append(path.relative_to(folder).as_posix())
    return {name: files for name, files in found.items() if len(files) > 1}


def test_no_two_public_classes_share_a_name():
    assert not shared_names(PACKAGE)


def test_a_shared_name_is_found(tmp_path):
    (tmp_path / 'one.py').write_text('class Gate:\n    pass\n\n\nclass _Own:\n    pass\n')
    (tmp_path / 'two.py').write_text('class Gate:\n    pass\n\n\nclass _Own:\n    pass\n')
    (tmp_path / 'wire_pb2.py').write_text('class Gate:\n    pass\n')
    assert shared_names(tmp_path) == {'Gate': ['one.py', 'two.py']}
