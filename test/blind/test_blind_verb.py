"""`arena blind` as a program: its first minute, its QR code, what it says of wrong input."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import cv2
import numpy as np
import pyarrow.parquet as pq
import pytest
from blind_rig import INSTRUCTION, SEEN, Numbered, number_of
from http_server import free_port
from waiting import until

from arena_robot.blind.trials import read_study
from arena_robot.cli.blind import qr_code
from arena_robot.cli.main import main
from arena_robot.core.errors import PolicyError
from arena_robot.policy.base import PolicySpec
from arena_robot.policy.connect import SERVERS, connect
from arena_robot.policy.timing import made_up_observation

ROOT = Path(__file__).parents[2]


@pytest.fixture
def arms():
    policies = Numbered(1), Numbered(2)
    with SERVERS['openpi'](policies[0]) as one, SERVERS['grpc'](policies[1]) as two:
        yield policies, (f'azure={one.address}', f'olive={two.address}')


@contextlib.contextmanager
def running(folder, *words):
    """Run the verb; yield what it prints, as a function, and the process."""
    out = folder / 'said.txt'
    with out.open('w') as file, subprocess.Popen(
            [sys.executable, '-m', 'arena_robot.cli.main', 'blind', *words, '--port', '0',
             '--grpc-port', '0', '--page-port', '0', '--page-host', '127.0.0.1'],
            cwd=folder, stdout=file, stderr=subprocess.STDOUT,
            env={**os.environ, 'XDG_DATA_HOME': str(folder / 'data')}) as process:
        try:
            yield out.read_text, process
        finally:
            process.kill()


def place(read, what):
    """Return the address that is printed after some words."""
    return until(lambda: (found := re.search(rf'{what}: (\S+)', read())) and found[1], read)


def call(page, path, **words):
    data = json.dumps(words).encode() if words else None
    request = urllib.request.Request(f'{page}api/{path}', data,
                                     {'Content-Type': 'application/json'})
    with urllib.request.urlopen(request, timeout=20.0) as reply:
        return json.load(reply)


def test_from_the_command_to_a_verdict_through_a_kill(tmp_path, arms):
    words = (*arms[1], '--instruction', INSTRUCTION, '--rounds', '1')
    with running(tmp_path, *words) as (read, process):
        page = place(read, 'the page for the phone')
        with connect(place(read, 'openpi and RoboArena').replace('ws', 'openpi')) as robot:
            call(page, 'move', move='start')
            first = number_of(robot.infer(SEEN, 'e'))
            call(page, 'move', move='end')
            call(page, 'draft', success=True)
        process.send_signal(signal.SIGKILL)
        process.wait(20.0)
    with running(tmp_path) as (read, process):    # the study is in its folder
        page = place(read, 'the page for the phone')
        assert call(page, 'state')['draft'] == {'success': True}
        call(page, 'move', move='score', success=True)
        with connect(place(read, 'gRPC')) as robot:
            call(page, 'move', move='start')
            second = number_of(robot.infer(SEEN, 'e'))
        call(page, 'move', move='end')
        call(page, 'move', move='score', success=False)
        call(page, 'move', move='judge', preference='A', reason='')
        assert call(page, 'move', move='reveal')['phase'] == 'revealed'
        process.send_signal(signal.SIGTERM)
        assert process.wait(20.0) == 0
        assert 'stopped' in read()
    names = {1.0: 'azure', 2.0: 'olive'}
    found = [result.arm for result in read_study(tmp_path / 'study').with_arms()]
    assert found == [names[first], names[second]]


@pytest.mark.parametrize('protocol', ['openpi and RoboArena', 'gRPC'])
def test_the_terminal_names_no_policy_that_fails(tmp_path, arms, protocol):
    policies, pairs = arms
    with running(tmp_path, *pairs, '--instruction', INSTRUCTION) as (read, _):
        page = place(read, 'the page for the phone')
        address = place(read, protocol).replace('ws://', 'openpi://')
        for policy in policies:
            policy.fails = True
        call(page, 'move', move='start')
        with connect(address) as robot, pytest.raises(PolicyError):
            robot.infer(SEEN, 'e')
        until(lambda: 'this trial is void' in read(), read)
        said = read()
    named = [word for pair in pairs for word in (pair.partition('=')[0], pair.partition('//')[2])]
    assert len(named) == 4
    assert [word for word in named if word in said] == []
    assert 'Traceback' not in said


@pytest.fixture
def lerobot():
    python = os.environ.get('ARENA_LEROBOT')
    if not python or subprocess.run([python, '-c', 'import lerobot, grpc, mujoco'], check=False,
                                    capture_output=True, timeout=60).returncode:
        pytest.skip('ARENA_LEROBOT names no Python that has lerobot, grpcio and mujoco')
    return python


@pytest.mark.timeout(600)
def test_a_study_is_run_by_lerobots_own_program(tmp_path, arms, lerobot):
    plugins = [ROOT / 'config' / f'lerobot_{part}_arena' for part in ('robot', 'policy')]
    for plugin in plugins:
        info = tmp_path / f'{plugin.name}-0.1.0.dist-info'    # as pip makes it of the project
        info.mkdir()
        (info / 'METADATA').write_text(
            f'Metadata-Version: 2.1\nName: {plugin.name}\nVersion: 0.1.0\n')
    path = os.pathsep.join(map(str, (tmp_path, *plugins, ROOT)))

    def record(name, address):
        subprocess.run(
            [lerobot, '-m', 'lerobot.scripts.lerobot_record', '--robot.type=arena_station',
             '--robot.id=sim', '--policy.type=arena', f'--policy.address={address}',
             '--policy.cameras={left: left, wrist: wrist}',
             f'--dataset.repo_id=lab/eval_{name}', f'--dataset.root={tmp_path / name}',
             f'--dataset.single_task={INSTRUCTION}', '--dataset.num_episodes=1',
             '--dataset.episode_time_s=2', '--dataset.reset_time_s=0', '--dataset.fps=15',
             '--dataset.push_to_hub=false', '--play_sounds=false'],
            check=True, timeout=240, cwd=tmp_path,
            env={**os.environ, 'HF_HUB_OFFLINE': '1', 'MUJOCO_GL': 'egl', 'PYTHONPATH': path})
        (table,) = (tmp_path / name).glob('data/*/*.parquet')
        return pq.read_table(table)['action'].to_pylist()

    with running(tmp_path, *arms[1], '--instruction', INSTRUCTION, '--rounds', '1') as (read, _):
        page, actions = place(read, 'the page for the phone'), []
        for slot in 'AB':
            call(page, 'move', move='start')
            actions.append(record(slot, place(read, 'gRPC')))
            call(page, 'move', move='end')
            call(page, 'move', move='score', success=True)
        call(page, 'move', move='judge', preference='A', reason='')
        assert call(page, 'move', move='reveal')['phase'] == 'revealed'
    names = {1.0: 'azure', 2.0: 'olive'}
    found = [result.arm for result in read_study(tmp_path / 'study').with_arms()]
    assert [names[rows[0][0]] for rows in actions] == found
    assert all(len(rows) > 5 for rows in actions)


@pytest.mark.timeout(600)
def test_a_study_of_a_checkpoint_behind_lerobots_own_server(tmp_path, lerobot):
    # One thread each: more of them wait for each other on a busy machine.
    port, variables = free_port(), {**os.environ, 'HF_HUB_OFFLINE': '1', 'OMP_NUM_THREADS': '1'}
    tiny = Path(__file__).parents[1] / 'policy' / 'tiny_lerobot.py'
    subprocess.run([lerobot, tiny, 'act', 'act'], check=True, timeout=300, env=variables,
                   cwd=tmp_path)
    spec = PolicySpec(image_size=(96, 96), chunk_length=10)
    seen = made_up_observation(spec)
    with SERVERS['grpc'](Numbered(2, spec)) as other, subprocess.Popen(
            [lerobot, '-m', 'lerobot.async_inference.policy_server', f'--port={port}'],
            cwd=tmp_path, env=variables) as process:
        try:
            place_of = (f'lerobot://localhost:{port}?checkpoint=act&policy_type=act&'
                        'action_space=joint_position&image_size=96x96&'
                        'cameras=exterior_1_left:left_left,wrist_left:wrist_left')
            with connect(place_of, wait_s=120.0) as policy:
                expected = policy.infer(seen, 'e').actions
            with running(tmp_path, f'azure={place_of}', f'olive={other.address}', '--instruction',
                         INSTRUCTION, '--rounds', '1') as (read, _):
                page = place(read, 'the page for the phone')
                answers = []
                with connect(place(read, 'gRPC')) as robot:
                    for _ in 'AB':
                        call(page, 'move', move='start')
                        answers.append(robot.infer(seen, 'e').actions)
                        call(page, 'move', move='end')
                        call(page, 'move', move='score', success=True)
                call(page, 'move', move='judge', preference='A', reason='')
                assert call(page, 'move', move='reveal')['phase'] == 'revealed'
        finally:
            process.kill()
    shapes = {'azure': (8, 8), 'olive': (10, 8)}
    found = [result.arm for result in read_study(tmp_path / 'study').with_arms()]
    assert [answer.shape for answer in answers] == [shapes[arm] for arm in found]
    assert np.allclose(answers[found.index('azure')], expected, atol=1e-6)


@pytest.mark.parametrize(('words', 'says'), [
    (['a=openpi://h:1', 'b=openpi://h:2'], '--instruction'),
    (['a', '--instruction', 'x'], "'a' is not NAME=ADDRESS"),
    (['a=openpi://h:1', '--instruction', 'x'], '2 to 26 arms'),
    (['a=zmq://h:1', 'b=openpi://h:2', '--instruction', 'x'], "unknown protocol 'zmq'")])
def test_wrong_words_are_refused_before_anything_is_made(words, says, tmp_path, capsys):
    assert main(['blind', *words, '--folder', str(tmp_path / 'new')]) == 2
    assert says in capsys.readouterr().err
    assert not (tmp_path / 'new').exists()


def test_policies_of_another_study_are_refused(tmp_path, capsys):
    path = tmp_path / 'study.yaml'
    path.write_text('name: cups\nsuccess: it is in\narms: [{name: a}, {name: b}]\n'
                    'conditions: [{name: start}]\n', encoding='utf-8')
    for words, says in ((['c=openpi://h:1'], 'c is no policy of the study'),
                        (['a=openpi://h:1'], 'say where b is served')):
        assert main(['blind', *words, '--study', str(path)]) == 2
        assert says in capsys.readouterr().err


def test_the_qr_code_is_the_link():
    link = 'http://192.168.1.20:8600/?token=Zx81_abcdefghijk'
    lines = [re.sub('\x1b\\[[0-9;]*m', '', line) for line in qr_code(link).split('\n')]
    light = [[character in upper for character in line]
             for line in lines for upper in ('█▀', '█▄')]
    picture = np.kron(np.array(light, np.uint8) * 255, np.ones((8, 8), np.uint8))
    assert cv2.QRCodeDetector().detectAndDecode(picture)[0] == link
    assert len(lines) < 24, 'the terminal shows the whole code'
