"""The checks find each promise that a driver breaks; ``arena driver check`` runs them."""

import json
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from broken_drivers import BROKEN, FinishesFirst
from lab_drivers import LabArm, LabCamera, LabGripper, QuickClock

from arena_robot.cli.main import main
from arena_robot.core.conformance import FAIL, PASS, SKIP
from arena_robot.drivers.conformance.rig import ArmRig, CameraRig, GripperRig
from arena_robot.drivers.conformance.suite import SUITES, run_moving, run_still
from arena_robot.drivers.sim.arm_control import ArmControl

HERE = Path(__file__).parent
ARENA = (sys.executable, '-m', 'arena_robot.cli.main', 'driver', 'check')
RIGS = {LabArm: ('arm', ArmRig), LabGripper: ('gripper', GripperRig),
        LabCamera: ('camera', CameraRig)}


@pytest.fixture
def lab(monkeypatch):
    monkeypatch.syspath_prepend(str(HERE))


def test_the_checks_load_neither_pytest_nor_the_simulator():
    code = ('import sys, arena_robot.drivers.conformance.rig, '
            'arena_robot.drivers.conformance.suite\n'
            'print(*{"pytest", "mujoco", "rclpy"} & set(sys.modules))')
    process = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True,
                             timeout=60, check=True)
    assert process.stdout.split() == []


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
    report, results = outcomes(capsys)
    assert results['state_is_in_range'] == 'pass'
    assert results['closes_and_opens'] == results['nan_is_refused'] == 'skip'
    assert not report['passed']
    assert 'nobody can be asked without a terminal; add --yes' in report['ended']
    sys.stdin.close()


def test_with_yes_everything_is_run_on_the_simulated_gripper(capsys):
    assert main(['driver', 'check', 'gripper', 'sim', '--yes', '--json']) == 0
    report, results = outcomes(capsys)
    assert report['passed']
    assert set(results.values()) == {'pass'}


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
    output = capsys.readouterr().out
    assert 'nothing is sent' in output
    assert '30 in all' in output.split('tracks a stream')[1]
    assert output.split('stop ends a motion')[1].split('moves and says')[0].count('move_to [') == 2
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
    process, keyboard = terminal('gripper', 'sim')
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


def rig_of(driver, **options):
    kind, rig = next(RIGS[base] for base in driver.__mro__ if base in RIGS)
    part = driver(QuickClock())
    options = {'harmless': True, **options}
    return kind, rig(part, part.clock, silence=part.silence, mend=part.mend,
                     trip=getattr(part, 'trip', None), **options)


def results_of(driver, **options):
    kind, rig = rig_of(driver, **options)
    results = []
    run_still(SUITES[kind], rig, results.append)
    run_moving(SUITES[kind], rig, results.append)
    return results


@pytest.mark.parametrize('driver', RIGS)
def test_a_driver_that_keeps_its_promises_passes(driver):
    results = results_of(driver)
    assert [r for r in results if r.outcome != PASS] == []
    assert len({r.check for r in results}) == len(results)


@pytest.mark.parametrize(('driver', 'check'), BROKEN)
def test_each_broken_promise_is_found(driver, check):
    results = {r.check: r for r in results_of(driver)}
    result = results[check]
    assert result.outcome == FAIL, result
    assert result.sent
    assert result.received
    assert result.change


def test_every_check_has_a_driver_that_fails_it():
    known = {check.__name__ for suite in SUITES.values()
             for check in (*suite.still, *suite.moving)}
    assert {param.values[1] for param in BROKEN} == known


def test_on_a_real_arm_nothing_more_moves_after_a_failure():
    results = {r.check: r for r in results_of(FinishesFirst, harmless=False, joints=(6,))}
    assert results['stop_ends_a_motion'].outcome == FAIL
    assert results['tracks_a_stream'].outcome == SKIP
    assert results['tracks_a_stream'].detail == 'not run after stop_ends_a_motion failed'


def test_one_joint_moves_a_little_and_comes_back():
    kind, rig = rig_of(LabArm, harmless=False, joints=(6,),
                       withheld={'far_target_is_clipped': 'real'})
    before, most = rig.part.q.copy(), np.zeros(7)

    def told(result):
        nonlocal most
        assert result.outcome == (SKIP if result.check == 'far_target_is_clipped' else PASS)

    step = rig.part.step

    def watched():
        nonlocal most
        step()
        most = np.maximum(most, np.abs(rig.part.q - before))
    rig.part.step = watched
    run_moving(SUITES[kind], rig, told)
    assert np.all(most[:6] < 1e-9)
    assert 0.1 < most[6] <= 0.2 + 1e-9
    np.testing.assert_allclose(rig.part.q, before, atol=1e-6)


def test_an_interrupted_motion_is_stopped_before_the_arm_is_closed(monkeypatch):
    kind, rig = rig_of(LabArm)
    calls = []

    def interrupt(seconds):
        if rig.part.motion is not None:
            raise KeyboardInterrupt
        rig.clock.sleep_until_ns(rig.clock.now_ns() + round(seconds * 1e9))

    rig.sleep = interrupt
    stop, close = rig.part.stop, rig.part.close
    monkeypatch.setattr(rig.part, 'stop', lambda: (calls.append('stop'), stop()))
    monkeypatch.setattr(rig.part, 'close', lambda: (calls.append('close'), close()))
    with pytest.raises(KeyboardInterrupt):
        run_moving(SUITES[kind], rig, lambda result: calls.clear())
    assert calls == ['stop', 'close']
    assert rig.part.motion is None
