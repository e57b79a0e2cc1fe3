"""`arena blind` as a program: its first minute, its QR code, what it says of wrong input."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import urllib.request

import cv2
import numpy as np
import pytest
from blind_rig import INSTRUCTION, SEEN, Numbered, number_of
from waiting import until

from arena_robot.blind.trials import read_study
from arena_robot.cli.blind import qr_code
from arena_robot.cli.main import main
from arena_robot.core.errors import PolicyError
from arena_robot.policy.connect import SERVERS, connect


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
