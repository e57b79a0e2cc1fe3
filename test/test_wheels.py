"""
The package as pip installs it: what its metadata says, and the first command of each role.

`make install-check` builds the wheels and installs each extra into an empty environment, in an
empty folder; this takes minutes and a package index, so `make test` leaves it out.
"""

import os
import re
import subprocess
import sys
import time
import urllib.request
from itertools import chain
from pathlib import Path

import pytest

from arena_robot import DISTRIBUTION
from arena_robot.cli.main import EXTRAS, extra_of
from arena_robot.cli.verbs import VERBS
from arena_robot.nodes.executables import MODULES

sys.path.insert(0, str(Path(__file__).parent / 'cli'))
from page_walks import Walk, walks

if sys.version_info >= (3, 11):
    import tomllib
else:
    tomllib = pytest.importorskip('pip._vendor.tomli', reason='no reader of TOML in this Python')

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / 'pyproject.toml').read_text(encoding='utf-8'))['project']
OWN = PROJECT['optional-dependencies']
INSTALLED = pytest.mark.skipif('ARENA_TEST_WHEELS' not in os.environ,
                               reason='installs from a package index: make install-check')
WALKS = walks()
FIRST_VERDICT_S = 300    # what docs/blind.md promises


def names(requirements):
    return {re.split(r'[\[<>=]', text)[0].lower() for text in requirements}


def test_the_distribution_has_one_name():
    assert PROJECT['name'] == DISTRIBUTION
    pages = [*ROOT.glob('*.md'), *ROOT.glob('docs/*.md'), ROOT / 'docs' / 'gallery.ipynb',
             *ROOT.glob('config/deploy/*'), *(ROOT / 'arena_robot').rglob('*.py')]
    for page in filter(Path.is_file, pages):
        for name in re.findall(r'(arena[-_]robot|droid[-_]arena)\[', page.read_text('utf-8')):
            assert name == DISTRIBUTION, f"{page}: {name}[…] is somebody else's package"


def test_what_pip_installs_is_what_is_tested():
    pinned = {line.partition('==')[0].partition('[')[0].lower()
              for name in ('requirements.txt', 'requirements-ros.txt', 'requirements-dev.txt')
              for line in (ROOT / name).read_text().splitlines() if '==' in line}
    pinned |= names(OWN['rl']) | {DISTRIBUTION, f'{DISTRIBUTION}-msgs', 'typing_extensions'}
    assert names(PROJECT['dependencies']) | names(chain.from_iterable(OWN.values())) <= pinned


def test_every_verb_has_an_extra():
    assert set(EXTRAS.values()) <= set(OWN)
    for verb in VERBS:
        assert any(verb.words.startswith(words) for words in EXTRAS), verb.words
    assert extra_of(['policy', 'rates', 'x']) == 'sim'
    assert extra_of(['policy', 'serve', 'x']) == 'policy'


def without(package, *words, folder):
    """Run a verb of `arena` where a package is missing; return its exit code and errors."""
    code = (f'import sys; sys.modules["{package}"] = None\n'
            f'from arena_robot.cli.main import main; sys.exit(main({list(words)!r}))')
    done = subprocess.run([sys.executable, '-c', code], cwd=folder, capture_output=True, text=True,
                          timeout=120, check=False,
                          env={**os.environ, 'PYTHONPATH': f'{ROOT}:{folder}'})
    return done.returncode, done.stderr


def test_a_verb_whose_package_is_missing_says_what_to_install(tmp_path):
    code, said = without('fastapi', 'server', '--data', 'data', folder=tmp_path)
    assert code == 1
    assert re.fullmatch(r'arena: arena server needs fastapi, which is not installed: .+\n',
                        said)
    info = tmp_path / 'droid_arena-0.1.0.dist-info'
    info.mkdir()
    (info / 'METADATA').write_text(f'Metadata-Version: 2.1\nName: {DISTRIBUTION}\nVersion: 0\n')
    code, said = without('mujoco', 'sim', 'tasks', folder=tmp_path)
    assert code == 1
    assert said.endswith(f"not installed: pip install '{DISTRIBUTION}[sim]'\n")


def test_a_package_that_a_policy_of_yours_misses_is_not_ours(tmp_path):
    (tmp_path / 'mine.py').write_text('import a_model_library\n')
    _, said = without('fastapi', 'policy', 'check', 'mine:Policy', folder=tmp_path)
    assert 'a_model_library' in said
    assert DISTRIBUTION not in said


@pytest.fixture(scope='session')
def dist():
    subprocess.run([sys.executable, '.ci/wheels.py'], cwd=ROOT, check=True, timeout=300)
    return ROOT / 'dist'


@pytest.fixture
def role(request, dist, tmp_path):
    """Return a function that runs a command of an environment with one extra."""
    extra = f'[{request.param}]' if request.param else ''
    started = time.monotonic()
    environment = tmp_path / 'environment'
    subprocess.run([sys.executable, '-m', 'venv', environment], check=True, timeout=120)
    subprocess.run([environment / 'bin' / 'pip', 'install', '--quiet', '--find-links', dist,
                    '--prefer-binary', '--disable-pip-version-check', f'{DISTRIBUTION}{extra}'],
                   check=True, timeout=900, cwd=tmp_path)
    installed_s = time.monotonic() - started
    size = sum(path.lstat().st_size for path in environment.rglob('*') if path.is_file())
    sys.stdout.write(f'\n{DISTRIBUTION}{extra}: {installed_s:.0f} s, {size / 1e6:.0f} MB\n')
    plain = {'PATH': f'{environment}/bin:/usr/bin:/bin', 'HOME': str(tmp_path),
             'PYTHONUNBUFFERED': '1', 'MUJOCO_GL': 'egl',
             'ROS_AUTOMATIC_DISCOVERY_RANGE': 'LOCALHOST',
             'ROS_DOMAIN_ID': os.environ.get('ROS_DOMAIN_ID', '0')}

    def start(*words):
        return subprocess.Popen(words, cwd=tmp_path, env=plain, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def run(*words):
        process = start(*words)
        text, _ = process.communicate(timeout=300)
        return process.returncode, text
    run.start, run.folder, run.environment, run.installed_s = (
        start, tmp_path, plain, installed_s)
    return run


def roles(*extras):
    return pytest.mark.parametrize('role', extras, indirect=True)


@INSTALLED
@roles('', 'ranking')
def test_core_ranks_sessions(role):
    with Walk(role.folder, role.environment) as walk:
        for block in WALKS['ranking'][1]:
            walk.do(block)
    took = min(timed(role, 'arena', '--version') for _ in range(3))
    assert took < 0.3, f'arena --version took {took:.2f} s'
    code, text = role('arena', 'server', '--data', 'x')
    assert code == 1, text
    assert f"pip install '{DISTRIBUTION}[server]'" in text
    assert 'Traceback' not in text


def timed(role, *words):
    started = time.monotonic()
    assert role(*words)[0] == 0
    return time.monotonic() - started


@INSTALLED
@roles('policy')
def test_policy_serves_and_checks(role):
    code, text = role('arena', 'policy', 'check', 'echo', '--calls', '5')
    assert code == 0, text
    assert ' 0 failed' in text


@INSTALLED
@roles('policy')
def test_a_policy_is_served_beside_the_oldest_grpc_and_protobuf(role):
    """Who has LeRobot or a model in the same Python has old ones."""
    oldest = [text.replace('>=', '==') for text in OWN['policy'] if re.match('grpc|proto', text)]
    code, text = role('pip', 'install', '--quiet', '--disable-pip-version-check', *oldest)
    assert code == 0, text
    process = role.start('arena', 'policy', 'serve', 'echo', '--port', '0')
    try:
        seen = ''
        while not (found := re.search(r'arena policy check (grpc:\S+)', seen)):
            line = process.stdout.readline()
            assert line, seen
            seen += line
        code, text = role('arena', 'policy', 'check', found[1], '--calls', '5')
    finally:
        process.terminate()
        assert process.wait(30) == 0
    assert code == 0, text
    assert ' 0 failed' in text


@INSTALLED
@roles('policy')
def test_the_first_blind_verdict_takes_five_minutes(role, browser, monkeypatch):
    """From an empty environment, by what docs/blind.md prints; the phone is Chromium."""
    monkeypatch.syspath_prepend(ROOT / 'test' / 'blind')
    from test_blind_page import Phone
    begun = time.monotonic()
    with Walk(role.folder, role.environment, lambda link: Phone(browser, link)) as walk:
        for block in WALKS['blind'][1]:
            walk.do(block)
    seconds = role.installed_s + time.monotonic() - begun
    sys.stdout.write(f'from an empty environment to the first blind verdict: {seconds:.0f} s\n')
    assert seconds < FIRST_VERDICT_S


@INSTALLED
@roles('server')
def test_server_shows_its_site(role):
    process = role.start('arena', 'server', '--data', 'data', '--port', '0', '--site-port', '0')
    try:
        seen = ''
        while not (found := re.search(r'http://\S+:\d+', seen)):
            line = process.stdout.readline()
            assert line, seen
            seen += line
        with urllib.request.urlopen(found[0], timeout=30) as page:
            assert b'double-blind comparisons of robot policies' in page.read()
    finally:
        process.terminate()
        assert process.wait(30) == 0


@INSTALLED
@roles('exports')
def test_exports_name_what_is_not_an_episode(role):
    code, text = role('arena', 'episode', 'check', 'nothing-here')
    assert code in (1, 2), text
    assert 'nothing-here' in text
    assert 'Traceback' not in text


@INSTALLED
@roles('judges')
def test_judges_are_listed(role):
    code, text = role('arena', 'judge', 'list')
    assert code == 0, text


@INSTALLED
@roles('station')
def test_station_has_its_nodes(role):
    code, text = role('arena', 'console', '--wait', '3')
    assert code == 1, text
    assert 'session node' in text
    elsewhere = ('sim_station', 'ranking_node')    # these are in the extras sim and server
    nodes = [module for name, module in MODULES.items() if name not in elsewhere]
    code, text = role('python', '-c', f'import {", ".join(nodes)}')
    assert code == 0, text


@INSTALLED
@roles('sim')
def test_sim_runs_a_session(role):
    code, text = role('arena', 'session', '--sim', '--auto', '--max-steps', '10',
                      '--data', 'first')
    assert code == 0, text
    sessions = (role.folder / 'first' / 'sessions').glob('[!.]*')
    code, text = role('arena', 'episode', 'check', *map(str, sessions))
    assert code == 0, text


@INSTALLED
@roles('all')
def test_all_runs_the_demonstration(role):
    code, text = role('arena', 'demo', '--sessions', '2', '--data', 'demo')
    assert code == 0, text
