"""Verbs over many episodes leave the same files for any number of jobs."""

import json
import os
import shutil

import pytest

from arena_robot.cli.main import main

LONG = pytest.mark.skipif('ARENA_TEST_WALKS' not in os.environ,
                          reason='the layouts share the code that runs two jobs: make walks')


@pytest.fixture
def session(pristine, tmp_path):
    for slot in 'AB':
        shutil.copytree(pristine, tmp_path / 'session' / slot)
    return tmp_path / 'session'


def content(folder):
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob('*'))
            if p.is_file() and p.suffix not in ('.h5', '.npz')}


def test_derive_and_check_with_two_jobs(session, capsys):
    assert main(['episode', 'derive', str(session)]) == 0
    alone, said = content(session), capsys.readouterr().out
    assert main(['episode', 'derive', '--jobs', '2', str(session)]) == 0
    assert content(session) == alone
    assert capsys.readouterr().out == said
    reports = []
    for jobs in ('1', '2'):
        main(['episode', 'check', '--json', '--jobs', jobs, str(session)])
        reports.append(json.loads(capsys.readouterr().out))
    assert reports[0] == reports[1]
    assert [r['folder'] for r in reports[0]] == [str(session / slot) for slot in 'AB']


@pytest.mark.parametrize('layout', [
    'roboarena', pytest.param('droid', marks=LONG), pytest.param('lerobot', marks=LONG)])
def test_export_with_two_jobs(layout, pristine, tmp_path, capsys):
    places = []
    for n in range(2):
        for slot in 'AB':
            shutil.copytree(pristine, tmp_path / f's{n}' / slot)
        places.append(str(tmp_path / f's{n}'))
    for jobs in ('1', '2'):
        assert main(['export', *places, '--format', layout, '--output', str(tmp_path / jobs),
                     '--jobs', jobs]) == 0
    first, second = content(tmp_path / '1'), content(tmp_path / '2')
    assert first.keys() == second.keys()
    assert {k: v for k, v in first.items() if not k.endswith('.mp4')} == {
        k: v for k, v in second.items() if not k.endswith('.mp4')}
    assert '4 episodes exported' in capsys.readouterr().out


@pytest.mark.parametrize('jobs', ['1', '2'])
def test_an_export_that_fails_leaves_no_half_written_session(jobs, pristine, tmp_path, capsys):
    places = []
    for name in ('whole', 'broken'):
        shutil.copytree(pristine, tmp_path / name / 'A')
        places.append(str(tmp_path / name))
    shutil.copytree(pristine, tmp_path / 'broken' / 'B')
    for file in (tmp_path / 'broken' / 'B').glob('*.mcap'):
        file.write_bytes(file.read_bytes()[:1000])
    for file in (*(tmp_path / 'broken' / 'B').glob('*.npz'),
                 *(tmp_path / 'broken' / 'B').glob('*.mp4')):
        file.unlink()
    output = tmp_path / 'dump'
    assert main(['export', *places, '--format', 'roboarena', '--output', str(output),
                 '--jobs', jobs]) != 0
    sessions = output / 'evaluation_sessions'
    assert all((one / 'metadata.yaml').exists() for one in sessions.glob('*'))
    assert not (sessions / 'broken').exists()
    assert {one.name for one in output.iterdir()} <= {'evaluation_sessions',
                                                      'global_metadata.yaml'}
