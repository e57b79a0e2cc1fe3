"""What one more field of a verdict costs does not grow; what labs cost is as the page says."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SPEC = importlib.util.spec_from_file_location('count_walks', ROOT / 'bench' / 'count_walks.py')
count_walks = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(count_walks)


def test_the_page_on_scale_has_what_its_script_prints():
    printed = subprocess.run([sys.executable, ROOT / 'bench' / 'scale.py'], check=True,
                             capture_output=True, text=True).stdout
    assert printed.count('labs') == 3
    assert printed in (ROOT / 'docs' / 'scale.md').read_text(encoding='utf-8')


@pytest.mark.parametrize(('field', 'most'), [('clutter', 5), ('lighting', 5), ('notes_b', 5)])
def test_a_field_is_named_in_few_files(field, most):
    files = count_walks.naming(ROOT, field)
    assert len(files) <= most, files


def test_a_verdict_has_few_shapes():
    shapes = count_walks.shapes(ROOT)
    assert len(shapes) <= 10, shapes    # two of them are rows of an import and of an export
    assert 'arena_robot/core/verdict.py: class Verdict' in shapes
    assert 'arena_robot/blind/trials.py: class TrialResult' in shapes


def test_a_shape_that_is_added_is_counted(tmp_path):
    folder = tmp_path / 'arena_robot'
    folder.mkdir()
    (folder / 'one.py').write_text('class One:\n    explanation: str\n    notes: str\n'
                                   'class Two:\n    notes: str\n'
                                   "D = {'notes': 1, 'explanation': 2, 'progress': 3}\n"
                                   "T = Table('t', Column('notes', 1), Column('progress', 2))\n")
    (folder / 'm.msg').write_text('# notes\nstring notes\nfloat32 progress_a\n')
    (folder / 'm.proto').write_text('message F {\n  string notes = 1;\n  optional double '
                                    'progress_a = 2;  // words\n}\n')
    assert count_walks.shapes(tmp_path) == [
        'arena_robot/m.msg', 'arena_robot/m.proto: F', 'arena_robot/one.py: class One',
        'arena_robot/one.py: dict in line 6', 'arena_robot/one.py: table t']
