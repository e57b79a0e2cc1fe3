"""The command line: serving for real, loading by name, waiting for a server that loads."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from policy_samples import observation, pictures

from arena_robot.cli.main import main
from arena_robot.cli.policy import serve
from arena_robot.cli.policy.check import await_server
from arena_robot.core.errors import BadReply, ConfigError, PolicyRefused, PolicyUnavailable
from arena_robot.policy.base import PolicySpec
from arena_robot.policy.conformance.probe import ProbeLimits
from arena_robot.policy.conformance.suite import run_suite
from arena_robot.policy.connect import SERVERS, connect, load_policy, parse_kwargs
from arena_robot.policy.examples import EXAMPLES
from arena_robot.policy.examples.simple import Echo
from arena_robot.policy.openpi.server import OpenpiPolicyServer
from arena_robot.policy.options import CallOptions, ServeOptions
from arena_robot.policy.recording import read

ROOT = Path(__file__).parents[2]
QUICK = CallOptions(connect_timeout_s=1.0)

AUTHORS = """
import numpy as np
from arena_robot.core.action import Chunk
from arena_robot.policy.base import PolicySpec

class MyPolicy:
    spec = PolicySpec(image_size=(24, 32))

    def __init__(self, gain=1.0):
        self.gain = gain

    def infer(self, observation, episode=''):
        return Chunk(np.full((2, 8), self.gain), self.spec.action_space)

    def reset(self, episode=''):
        pass
"""


@pytest.mark.parametrize(('protocol', 'stop'), [
    ('grpc', signal.SIGTERM), ('openpi', signal.SIGINT)])
def test_a_file_beside_the_author_is_served_until_a_signal(protocol, stop, tmp_path):
    (tmp_path / 'my_policy.py').write_text(AUTHORS, encoding='utf-8')
    (tmp_path / 'token').write_text('s3cret\n', encoding='utf-8')
    process = subprocess.Popen(
        [sys.executable, '-m', 'arena_robot.cli.main', 'policy', 'serve', 'my_policy:MyPolicy',
         '--port', '0', '--protocol', protocol, '--kwargs', 'gain=0.25', '--token-file', 'token',
         '--record', 'calls', '--log', 'queries.jsonl'],
        cwd=tmp_path, env={**os.environ, 'PYTHONPATH': str(ROOT)}, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    with process:
        try:
            assert process.stdout is not None
            address = process.stdout.readline().split(' at ')[1].split(';')[0]
            assert address.startswith(f'{protocol}://127.0.0.1:')
            with connect(address, CallOptions(token='s3cret')) as policy:
                chunk = policy.infer(observation(pictures(policy.spec, 24, 32)))
            assert chunk.actions.tolist() == [[0.25] * 8] * 2
            process.send_signal(stop)
            assert process.wait(10) == 0
            assert process.stdout.read() == 'stopped\n'
            _, _, recorded = read(tmp_path / 'calls' / '000000.npz')
            assert np.array_equal(recorded.actions, chunk.actions)
            line, = (tmp_path / 'queries.jsonl').read_text().splitlines()
            assert (json.loads(line)['actions'], json.loads(line)['error']) == (2, '')
        finally:
            process.kill()


@pytest.mark.parametrize('name', sorted(EXAMPLES.built_in))
def test_every_example_loads_by_its_name(name):
    policy = load_policy(name)
    assert policy.spec.problems() == []


@pytest.mark.parametrize(('name', 'kwargs', 'says'), [
    ('ecko', {}, "Did you mean 'echo'"),
    ('no_such_module:Class', {}, "cannot import 'no_such_module'"),
    ('arena_robot.policy.examples.simple:Ecco', {}, "Did you mean 'Echo'"),
    ('echo', {'size': 3}, 'cannot be made with'),
    ('pathlib:Path', {}, 'it lacks infer(observation'),
])
def test_what_cannot_be_loaded_is_explained(name, kwargs, says):
    with pytest.raises(ConfigError) as caught:
        load_policy(name, kwargs)
    assert says in str(caught.value)


def test_arguments_are_read_as_yaml():
    assert parse_kwargs(['a=1', 'b=0.5', 'c=text', 'd=[1, 2]', 'e=true']) == {
        'a': 1, 'b': 0.5, 'c': 'text', 'd': [1, 2], 'e': True}


@pytest.mark.parametrize('pair', ['novalue', '=1', '1x=2', 'a=[1'])
def test_arguments_that_are_none_are_explained(pair):
    with pytest.raises(ConfigError):
        parse_kwargs([pair])


def test_wrong_use_ends_with_two(capsys):
    assert main(['policy', 'check', 'http://127.0.0.1:1']) == 2
    assert 'unknown protocol' in capsys.readouterr().err
    assert main(['policy', 'serve', 'echo', '--token-file', '/nowhere/at/all']) == 2
    assert 'cannot read /nowhere/at/all' in capsys.readouterr().err


@pytest.mark.parametrize(('host', 'token', 'warns'), [
    ('0.0.0.0', '', True), ('gpu1', '', True), ('0.0.0.0', 't', False), ('127.0.0.1', '', False),
    ('::1', '', False), ('localhost', '', False)])
def test_serving_everybody_without_a_token_is_warned_of(host, token, warns):
    assert ('no token is asked for' in serve.open_to_all(host, token)) is warns


def test_a_spec_that_is_none_is_explained():
    class Wrong:
        infer = reset = spec = None

    for spec, says in (({'image_size': 224}, 'must be a PolicySpec, found a dict'),
                       (PolicySpec(image_size=224), 'image_size must be two sides'),
                       (PolicySpec(chunk_length='8'), 'a value of a wrong type')):
        Wrong.spec = spec
        with pytest.raises(BadReply, match=says):
            SERVERS['grpc'](Wrong()).open()


def test_the_examples_are_listed(capsys):
    assert main(['policy', 'list']) == 0
    printed = capsys.readouterr().out
    assert [line.split()[0] for line in printed.splitlines()] == sorted(EXAMPLES.built_in)


def test_the_ten_lines_of_the_documentation_pass_the_suite():
    text = (ROOT / 'docs' / 'policies.md').read_text(encoding='utf-8')
    source = text.split('```python\n')[1].split('```')[0]

    def load_model(checkpoint):
        return lambda pixels, prompt: np.full((3, 8), pixels.mean() / 255.0)

    names = {'load_model': load_model}
    exec(compile(source, 'my_policy.py', 'exec'), names)
    limits = ProbeLimits(calls=5)
    with SERVERS['grpc'](names['MyPolicy'](checkpoint='tiny')) as server:
        report = run_suite(server.address, limits)
    assert report.passed, report.text()


@pytest.fixture
def short_pauses(monkeypatch):
    monkeypatch.setattr('arena_robot.policy.connect.PAUSE_S', 0.05)


def free_port():
    with socket.create_server(('127.0.0.1', 0)) as taken:
        return taken.getsockname()[1]


@pytest.mark.usefixtures('short_pauses')
def test_a_server_that_comes_later_is_waited_for_and_each_attempt_is_told():
    port, told = free_port(), []
    server = OpenpiPolicyServer(Echo(), ServeOptions(port=port))

    def tell(waited_s, error):
        told.append(error)
        if len(told) == 2:
            server.open()

    with connect(f'openpi://127.0.0.1:{port}', QUICK, 20.0, tell) as policy:
        assert policy.spec.image_size == (224, 224)
    server.close()
    assert all('does not answer' in error for error in told)


@pytest.mark.usefixtures('short_pauses')
def test_the_end_of_the_wait_says_how_long_and_why():
    with pytest.raises(PolicyUnavailable, match=r'waited \d s: .* does not answer'):
        connect(f'openpi://127.0.0.1:{free_port()}', QUICK, 0.2)
    with pytest.raises(PolicyUnavailable, match=r'^openpi://'):
        connect(f'openpi://127.0.0.1:{free_port()}', QUICK)


@pytest.mark.usefixtures('short_pauses')
def test_a_server_that_refuses_is_not_waited_for():
    told = []
    with OpenpiPolicyServer(Echo(), ServeOptions(token='k')) as server, \
            pytest.raises(PolicyRefused, match='HTTP 401'):
        connect(server.address, QUICK, 20.0, lambda *what: told.append(what))
    assert told == []


@pytest.mark.usefixtures('short_pauses')
def test_the_command_line_shows_progress_and_the_end(capsys):
    port = free_port()
    server = OpenpiPolicyServer(Echo(), ServeOptions(port=port))
    starting = threading.Timer(0.3, server.open)
    starting.start()
    await_server(f'openpi://127.0.0.1:{port}', QUICK, 20.0)
    starting.join()
    server.close()
    waited, *_, last = capsys.readouterr().err.splitlines()
    assert re.fullmatch(f'waiting for openpi://127.0.0.1:{port}: \\d+ of 20 s', waited)
    assert last == f'openpi://127.0.0.1:{port} answers'
