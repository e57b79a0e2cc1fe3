"""
Count what one more field of a verdict costs: files that name a field, and shapes of a verdict.

``files``: files of the package and of arena_msgs in which the name of a field occurs; of a field
that went in with one commit these are the files which that commit had to edit, less the tests.
Generated files are left out.
``shapes``: dataclasses and other classes, dictionary literals, ROS messages, protobuf messages
and SQL tables that hold several of the fields. ``--base REV`` prints the same of another commit.
"""

import argparse
import ast
import re
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PLACES = ('arena_robot', 'arena_msgs')
KINDS = ('.py', '.pyi', '.js', '.html', '.msg', '.srv', '.action', '.proto')
SAID = {'progress', 'progress_a', 'progress_b', 'preference', 'explanation', 'notes', 'notes_a',
        'notes_b', 'invalid_reason', 'feedback_text', 'longform_feedback'}
DEFAULT = ('explanation', 'invalid_reason', 'lighting', 'clutter')
FEW, MANY = 2, 3    # a dictionary literal with two such keys is common; with three it is a verdict


def files(root: Path) -> list[Path]:
    """Return the source files of the package and the messages; caches are left out."""
    return sorted(path for place in PLACES for path in (root / place).rglob('*')
                  if path.suffix in KINDS and '__pycache__' not in path.parts)


def naming(root: Path, field: str) -> list[str]:
    """
    Return the files that people write in which a field is named.

    A word in a sentence of Python is no name.
    """
    word = re.compile(rf'\b{re.escape(field)}\b')
    found = []
    for path in files(root):
        if '_pb2' in path.name:
            continue
        text = path.read_text(encoding='utf-8', errors='replace')
        if word.search(text) and (path.suffix != '.py' or field in _names(ast.parse(text))):
            found.append(path.relative_to(root).as_posix())
    return found


def _names(tree: ast.AST) -> set[str]:
    """Return the identifiers and the whole texts of a module."""
    found = set()
    for node in ast.walk(tree):
        for attribute in ('id', 'attr', 'arg', 'name', 'value'):
            if isinstance(word := getattr(node, attribute, None), str):
                found.add(word)
    return found


def shapes(root: Path) -> list[str]:
    """Return every shape of a verdict as ``file: what``."""
    found = []
    for path in files(root):
        name = path.relative_to(root).as_posix()
        text = path.read_text(encoding='utf-8')
        if path.suffix == '.py' and not name.endswith(('_pb2.py', '_pb2_grpc.py')):
            found += [f'{name}: {what}' for what in _python(ast.parse(text))]
        elif path.suffix in ('.msg', '.srv', '.action'):
            found += [name] if len(_declared(text)) >= FEW else []
        elif path.suffix == '.proto':
            found += [f'{name}: {title}' for title, body in re.findall(
                r'message (\w+) \{(.*?)\}', text, re.S) if len(_declared(body)) >= FEW]
    return found


def _declared(text: str) -> set[str]:
    return set(re.findall(r'^\s*[\w/\[\] ]+ (\w+)(?: = \d+;.*)?$', text, re.M)) & SAID


def _python(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            names = {item.target.id for item in node.body if isinstance(item, ast.AnnAssign)
                     and isinstance(item.target, ast.Name)}
            if len(names & SAID) >= FEW:
                yield f'class {node.name}'
        elif isinstance(node, ast.Dict):
            keys = {key.value for key in node.keys if isinstance(key, ast.Constant)}
            if len(keys & SAID) >= MANY:
                yield f'dict in line {node.lineno}'
        elif isinstance(node, ast.Call) and _called(node) == 'Table':
            columns = {arg.value for call in ast.walk(node) if isinstance(call, ast.Call)
                       and _called(call) == 'Column' for arg in call.args[:1]
                       if isinstance(arg, ast.Constant)}
            derived = any(isinstance(name, ast.Name) and name.id == 'FIELDS'
                          for name in ast.walk(node))
            if derived or len(columns & SAID) >= FEW:
                yield f'table {ast.literal_eval(node.args[0])}'


def _called(node: ast.Call) -> str:
    return node.func.id if isinstance(node.func, ast.Name) else ''


def report(root: Path, title: str, names: list[str]) -> None:
    """Print the counts of one tree."""
    print(f'{title}:')
    for name in names:
        print(f'  files that name {name!r}: {len(naming(root, name))}')
    found = shapes(root)
    print(f'  shapes of a verdict: {len(found)}')
    for one in found:
        print(f'    {one}')


def main() -> None:
    """Print the counts of the working tree, and of another commit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('fields', nargs='*', default=DEFAULT)
    parser.add_argument('--base', help='a commit to compare with')
    parser.add_argument('--files', action='store_true', help='name the files as well')
    arguments = parser.parse_args()
    if arguments.base:
        with tempfile.TemporaryDirectory() as folder:
            packed = f'{folder}/base.tar'
            subprocess.run(['git', 'archive', '-o', packed, arguments.base, *PLACES], check=True,
                           cwd=ROOT)
            subprocess.run(['tar', '-x', '-f', packed, '-C', folder], check=True)
            report(Path(folder), arguments.base, arguments.fields)
    report(ROOT, 'working tree', arguments.fields)
    if arguments.files:
        for name in arguments.fields:
            print(f'{name}:', *naming(ROOT, name), sep='\n  ')


if __name__ == '__main__':
    main()
