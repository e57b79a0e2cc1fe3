"""
Each format that several rooms share has one home: its file name stands in one module.

Whoever writes a second reader has to name the file, and fails here.
"""

import ast
import re
from functools import cache
from pathlib import Path

import pytest
from test_imports import parsed

PACKAGE = Path(__file__).parent.parent / 'arena_robot'
RECORDS = PACKAGE / 'records'
HOMES = {
    'session.json': 'records/session_file.py', 'episode.json': 'records/episode_file.py',
    'sessions.csv': 'records/roboarena_files.py', 'episodes.csv': 'records/roboarena_files.py',
    'global_metadata.yaml': 'records/roboarena_files.py',
    'evaluation_sessions': 'records/roboarena_files.py',
}


@cache
def literals(path: Path) -> list[str]:
    """Return the texts in a module, parts of f-strings included and docstrings left out."""
    tree = parsed(path)
    prose = {id(node.value) for node in ast.walk(tree)
             if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)}
    return [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)
            and isinstance(node.value, str) and id(node) not in prose]


def names_file(text: str, name: str) -> bool:
    """Tell whether a text is the name of a file or ends a path with it; sentences are not."""
    return re.search(rf'(^|/){re.escape(name)}/?$', text) is not None


@pytest.mark.parametrize('name', HOMES)
def test_each_format_is_named_in_one_module(name):
    modules = {path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob('*.py')
               for text in literals(path) if names_file(text, name)}
    assert modules == {HOMES[name]}


def test_no_two_records_share_a_file_name():
    names = [text for path in sorted(RECORDS.glob('*.py')) for text in set(literals(path))
             if re.fullmatch(r'[\w.*/]*\w\.(json|csv|yaml)', text)]
    assert sorted(names) == sorted(set(names))
    assert set(names) >= {name for name in HOMES if '.' in name}


def test_names_of_files_are_told_from_sentences():
    assert names_file('session.json', 'session.json')
    assert names_file('*/session.json', 'session.json')
    assert not names_file('a folder with session.json', 'session.json')
    assert not names_file('old_session.json', 'session.json')


def test_tables_are_read_in_one_module():
    readers = [path for path in PACKAGE.rglob('*.py') for node in ast.walk(parsed(path))
               if isinstance(node, ast.Import) and 'csv' in {alias.name for alias in node.names}]
    assert readers == [PACKAGE / 'core' / 'csv_tables.py']
