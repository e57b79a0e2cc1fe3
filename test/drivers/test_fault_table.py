"""The table of faults in faults.md: each row has its test, which reads these very words."""

import ast
import functools
import re
from pathlib import Path

import pytest

HERE = Path(__file__).parent
PAGE = HERE / 'faults.md'
FEWEST = 40
ROWS = [tuple(cell.strip() for cell in line.strip('|').split('|'))
        for line in PAGE.read_text(encoding='utf-8').split('<!-- faults -->')[-1].split(
            '<!-- end of faults -->')[0].splitlines()[3:] if line.startswith('|')]


@functools.cache
def read_by(name):
    """Return the text constants by function of a test file."""
    tree = ast.parse((HERE / f'{name}.py').read_text(encoding='utf-8'))
    return {function.name: [node.value for node in ast.walk(function)
                            if isinstance(node, ast.Constant) and isinstance(node.value, str)]
            for function in tree.body if isinstance(function, ast.FunctionDef)}


def found(where):
    """Return what the test of a row says; it is named by its function, or by a parameter's id."""
    file, _, title = where.partition(': ')
    wanted = f"test_{title.replace(' ', '_')}"
    for name, texts in read_by(file).items():
        if name == wanted or (name.startswith('test_') and title in texts):
            return texts
    return None


@pytest.mark.parametrize('row', ROWS, ids=lambda row: row[0])
def test_the_words_of_a_row_are_those_that_its_test_reads(row):
    _, read, _, where = row
    texts = found(where)
    assert texts is not None, f'there is no test {where}'
    text = ' '.join(texts).replace('\\', '')
    for words in re.findall(r'`([^`]+)`', read):
        assert words in text, f'{where} does not read {words!r}'


def test_every_injected_fault_of_a_franka_has_its_row():
    file = 'test_franka_faults'
    titles = {row[3].partition(': ')[2] for row in ROWS if row[3].startswith(f'{file}:')}
    tree = ast.parse((HERE / f'{file}.py').read_text(encoding='utf-8'))
    named = {word.value.value for node in ast.walk(tree) if isinstance(node, ast.Call)
             for word in node.keywords if word.arg == 'id'}
    assert named - titles == set()
    assert len(ROWS) >= FEWEST
