"""The verb ``arena driver check``, on a terminal and without one."""

import json
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from arena_robot.cli.main import main
from arena_robot.drivers.sim.arm_control import ArmControl

HERE = Path(__file__).parent
ARENA = (sys.executable, '-m', 'arena_robot.cli.main', 'driver', 'check')


@pytest.fixture
def lab(monkeypatch):
    monkeypatch.syspath_prepend(str(HERE))


def test_the_checks_load_neither_pytest_nor_the_simulator():
    code = ('import sys, arena_robot.drivers.conformance.rig, '
            'arena_robot.drivers.conformance.suite\n'
            'print(*{"pytest", "mujoco", "rclpy"} & set(sys.modules))')
    found = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True,
                           timeout=60, check=True)
    assert found.stdout.split() == []


def outcomes(capsys):
    report = json.loads(capsys.readouterr().out)
    return report, {r['check']: r['outcome'] for r in report['results']}


def test_a_camera_needs_no_leave(lab, capsys):
    assert main(['driver', 'check', 'camera', 'lab_drivers:LabCamera']) == 0
    out = capsys.readouterr().out
    assert out.startswith('camera lab_drivers:LabCamera\n  pass  protocol is kept: Camera\n')
    assert 'skip  silence is stale then times out: no program can take the readings away' in out
    assert '13 passed, 0 failed, 1 skipped' in out


def test_without_a_terminal_nothing_moves_and_the_code_is_not_0(lab, capsys, monkeypatch):
    monkeypatch.setattr('sys.stdin', open(os.devnull))      # noqa: SIM115 - closed by monkeypatch
    assert main(['driver', 'check', 'gripper', 'lab_drivers:LabGripper', '--json']) == 1
    report, found = outcomes(capsys)
    assert found['state_is_in_range'] == 'pass'
    assert found['closes_and_opens'] == found['nan_is_refused'] == 'skip'
    assert not report['passed']
    assert 'nobody can be asked without a terminal; add --yes' in report['ended']
    sys.stdin.close()


def test_with_yes_everything_is_run_on_the_simulated_gripper(capsys):
    assert main(['driver', 'check', 'gripper', 'sim', '--yes', '--json']) == 0
    report, found = outcomes(capsys)
    assert report['passed']
    assert set(found.values()) == {'pass'}


def test_the_simulated_arm_and_camera_pass(capsys):
    assert main(['driver', 'check', 'arm', 'sim', '--yes', '--param', 'robot=fr3']) == 0
    assert '21 passed, 0 failed, 0 skipped' in capsys.readouterr().out
    assert main(['driver', 'check', 'camera', 'sim', '--param', 'role=wrist']) == 0
    assert '14 passed, 0 failed, 0 skipped' in capsys.readouterr().out


@pytest.mark.parametrize('part', ['arm', 'gripper'])
def test_a_recorded_part_passes_but_for_what_moves(part, capsys, tmp_path):
    stamps = np.arange(0, 60 * 10 ** 9, 10 ** 7, dtype=np.int64) + 5
    q = 0.1 * np.sin(stamps * 1e-9)[:, None] * np.ones(7)
    np.savez(tmp_path / 'steps.npz', **{
        'arm/stamp_ns': stamps, 'arm/q': q, 'gripper/stamp_ns': stamps,
        'gripper/position': np.linspace(0, 1, len(stamps))})
    assert main(['driver', 'check', part, 'replay', '--param', f'folder={tmp_path}', '--yes']) == 0
    assert 'skip  stop ends a motion: a recording does not move' in capsys.readouterr().out


@pytest.mark.parametrize(('words', 'says'), [
    (['arm', 'simm'], "Did you mean 'sim'"),
    (['arm', 'sim', '--param', 'tusk=1'], "Did you mean 'task'"),
    (['camera', 'sim', '--param', 'role=top'], "no camera role 'top'"),
    (['arm', 'replay'], '--param folder=DIR'),
    (['arm', 'lab_drivers:LabArm', '--param', 'klock=1'], "Did you mean 'clock'"),
    (['arm', 'lab_drivers:LabCamera'], 'it lacks command(command)'),
])
def test_wrong_words_are_explained(lab, words, says, capsys):
    assert main(['driver', 'check', *words]) == 2
    assert says in capsys.readouterr().err


def test_a_dry_run_shows_what_would_be_sent_and_sends_nothing(capsys, monkeypatch):
    def sent(*_):
        raise AssertionError('a dry run sent something')
    for name in ('track', 'move', 'recover'):
        monkeypatch.setattr(ArmControl, name, sent)
    assert main(['driver', 'check', 'arm', 'sim', '--param', 'robot=fr3', '--dry-run']) == 0
    said = capsys.readouterr().out
    assert 'nothing is sent' in said
    assert '30 in all' in said.split('tracks a stream')[1]
    assert said.split('stop ends a motion')[1].split('moves and says')[0].count('move_to [') == 2
    assert main(['driver', 'check', 'gripper', 'sim', '--dry-run', '--json']) == 0
    shown = json.loads(capsys.readouterr().out)['dry_run']
    assert shown['closes and opens'] == [
        'command position 1, speed 0.3, force 0 … position 0.4, speed 0.3, force 0, 3 in all']
    assert main(['driver', 'check', 'camera', 'sim', '--param', 'role=wrist', '--dry-run']) == 0


@pytest.fixture
def terminal():
    """Return a function that starts the verb on a terminal, and the terminal's other end."""
    ours, theirs = pty.openpty()
    started = []

    def start(*words):
        process = subprocess.Popen(
            [*ARENA, *words], stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, bufsize=1, cwd=HERE)
        started.append(process)
        return process, ours
    yield start
    for process in started:
        process.kill()
        process.wait()
        process.stdout.close()
    os.close(ours)
    os.close(theirs)


def lines_until(process, word):
    seen = []
    while word not in ''.join(seen):
        character = process.stdout.read(1)
        assert character, ''.join(seen)
        seen.append(character)
    return ''.join(seen)


@pytest.mark.parametrize(('answer', 'code', 'says'), [
    ('yes', 1, 'MOVE was not typed'), ('MOVE', 0, 'passed, 0 failed')])
def test_the_word_must_be_typed_before_anything_moves(terminal, answer, code, says):
    process, keyboard = terminal('gripper', 'lab_drivers:LabGripper')
    lines_until(process, 'Type MOVE to go on: ')
    os.write(keyboard, f'{answer}\n'.encode())
    rest = process.stdout.read()
    assert says in rest
    assert process.wait(30) == code


def test_ctrl_c_stops_the_part_and_says_so(terminal):
    process, _ = terminal('gripper', 'lab_drivers:LabGripper', '--yes')
    lines_until(process, 'opening moves nothing')
    process.send_signal(signal.SIGINT)
    rest = process.stdout.read()
    assert process.wait(30) == 130
    assert rest.rstrip().endswith('interrupted; the gripper was stopped and closed')
