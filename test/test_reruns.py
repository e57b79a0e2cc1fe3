"""A test runs again only where its mark says why; reruns are counted over runs, and few may."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
INI = """
[pytest]
addopts = --strict-markers
markers =
    rerun: of ours
    flaky: of pytest-rerunfailures
"""
UNSTEADY = """
import pathlib, pytest

@pytest.mark.rerun(reason='the clock of a shared machine is late at times')
@pytest.mark.parametrize('k', range({tests}))
def test_unsteady(k, tmp_path_factory):
    mark = pathlib.Path(__file__).with_name(f'{{pathlib.Path(__file__).stem}}_{{k}}')
    seen = mark.exists()
    mark.touch()
    assert seen
"""


@pytest.fixture
def run(tmp_path):
    pytest.importorskip('pytest_rerunfailures', reason='pytest-rerunfailures is not installed')
    pytest.importorskip('xdist', reason='pytest-xdist is not installed')
    (tmp_path / 'pytest.ini').write_text(INI)

    def pytest_run(name, text, *options):
        (tmp_path / f'{name}.py').write_text(text)
        done = subprocess.run(
            [sys.executable, '-m', 'pytest', '-q', '-p', 'pytest_rerunfailures', '-p',
             'xdist.plugin', '-p', 'reruns', *options, f'{name}.py'],
            cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False,
            env={**os.environ, 'PYTHONPATH': str(HERE), 'PYTEST_DISABLE_PLUGIN_AUTOLOAD': '1',
                 'ARENA_RERUNS': str(tmp_path / 'kept')})
        return done.returncode, done.stdout + done.stderr
    return pytest_run


def test_reruns_are_counted_over_runs_named_and_fail_above_the_limit(run):
    code, said = run('test_one', UNSTEADY.format(tests=2), '-n', '1')
    assert code == 0
    assert '2 rerun' in said.splitlines()[-2]
    assert said.splitlines()[-1].startswith('reruns: 2, at most 5; test_one.py::test_unsteady[')
    code, said = run('test_two', UNSTEADY.format(tests=4))
    assert '4 passed' in said
    assert 'reruns: 6, at most 5: too many; ' in said.splitlines()[-1]
    assert code == 1


@pytest.mark.parametrize(('text', 'message'), [
    ('@pytest.mark.rerun\ndef test_x():\n    pass\n', 'write why it may run again'),
    ("@pytest.mark.rerun(reason='busy')\ndef test_x():\n    pass\n", 'write why'),
    ("@pytest.mark.rerun(reason='a long and good reason for it')\nclass TestX:\n"
     '    def test_x(self):\n        pass\n', 'mark each test that may run again by itself'),
])
def test_a_mark_without_a_reason_or_on_more_than_a_test_is_refused(run, text, message):
    code, said = run('test_three', f'import pytest\n\n\n{text}')
    assert code == pytest.ExitCode.USAGE_ERROR
    assert message in said
