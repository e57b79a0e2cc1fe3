"""The command `arena`: verbs, help, exit codes, `--json`, mistyped words, colours, completion."""

import io
import json
import os
import shlex
import shutil
import subprocess
import sys

import pytest

from arena_robot import __version__
from arena_robot.cli import doctor_checks
from arena_robot.cli.main import main
from arena_robot.cli.verbs import MAP, VERBS, Verb, parser, typed
from arena_robot.core import terminal
from arena_robot.core.errors import ConfigError, PolicyTimeout
from arena_robot.demo.display import GREEN, Display

# Verbs that run until they are interrupted, or print a file for another program.
PROGRAMS = {'demo', 'blind', 'station', 'session', 'console', 'server', 'policy serve',
            'judge label', 'judge serve', 'help', 'completion'}
every_verb = pytest.mark.parametrize('verb', VERBS, ids=lambda verb: verb.words)


def said(capsys, *words):
    try:
        code = main(words)
    except SystemExit as stop:
        code = stop.code
    done = capsys.readouterr()
    return code, done.out, done.err


def raising(error, cause=None):
    def run(args):
        raise error from cause
    return run


@pytest.mark.parametrize(('run', 'code', 'text'), [
    (lambda args: args.n, 3, ''),
    (raising(ConfigError('no such key')), 2, 'arena: no such key'),
    (raising(PolicyTimeout('too slow')), 1, 'arena: too slow [policy_timeout]'),
    (raising(KeyboardInterrupt()), 130, 'interrupted'),
    (raising(ImportError('initialization failed'), KeyboardInterrupt()), 130, 'interrupted'),
])
def test_exit_codes(monkeypatch, capsys, run, code, text):
    monkeypatch.setattr(Verb, 'load', lambda verb: (
        lambda leaf: leaf.add_argument('--n', type=int), run))
    exit_code, _, err = said(capsys, 'policy', 'list', '--n', '3')
    assert exit_code == code
    assert text in err


def test_a_module_that_cannot_be_imported_is_not_an_interruption(monkeypatch):
    monkeypatch.setattr(Verb, 'load',
                        lambda verb: (lambda leaf: None, raising(ImportError('cv2'))))
    with pytest.raises(ImportError, match='cv2'):
        main(['policy', 'list'])


def test_version(capsys):
    assert said(capsys, '--version')[:2] == (0, f'arena {__version__}\n')


@pytest.mark.parametrize('word', ['--version', '--help'])
def test_the_map_is_there_at_once(word):
    before = os.times()
    subprocess.run([sys.executable, '-m', 'arena_robot.cli.main', word], check=True, timeout=60.0,
                   stdout=subprocess.DEVNULL)
    after = os.times()    # processor time: other tests run at the same time
    took_s = after.children_user + after.children_system - (
        before.children_user + before.children_system)
    assert 0.0 < took_s < 0.3


@every_verb
def test_every_verb_explains_itself(verb, capsys):
    assert typed([*verb.words.split(), '--help', 'more']) == (verb,)
    assert not verb.help.endswith('.')
    code, out, _ = said(capsys, *verb.words.split(), '--help')
    assert code == 0
    assert f'usage: arena {verb.words} ' in ' '.join(out.split())
    about, _, options = out.partition('\n\n')[2].partition('\noptions:')
    assert len(about.split()) > 4, 'the docstring of its function says what it does'
    assert options


@every_verb
def test_every_verb_that_prints_data_has_json(verb):
    leaf = parser([verb]).leaf(verb.words.split())
    has = any('--json' in action.option_strings for action in leaf._actions)
    assert has is not (verb.words in PROGRAMS or verb.words.startswith('emulate '))


@pytest.mark.parametrize('words', [
    ('policy', 'list'), ('judge', 'list'), ('skill', 'spec', 'open_drawer'),
    ('results', 'categorise', 'put the cup on the plate')])
def test_json_is_one_document(words, capsys):
    code, out, _ = said(capsys, *words, '--json')
    assert code == 0
    assert json.loads(out)


@pytest.mark.parametrize('words', [[], ['--version'], ['policy'], ['dont'], ['main'], ['parsing'],
                                   ['..'], ['policy-check']])
def test_words_that_begin_no_verb_find_none(words):
    assert typed(words) == ()


@pytest.mark.parametrize(('words', 'loaded'), [
    (('--help',), []), (('policy',), []), (('help', 'rank'), ['help', 'rank']),
    (('policy', 'list'), ['policy list']), (('dont',), [])])
def test_a_verb_loads_no_other(words, loaded, monkeypatch, capsys):
    loads, load = [], Verb.load
    monkeypatch.setattr(Verb, 'load', lambda verb: loads.append(verb.words) or load(verb))
    said(capsys, *words)
    assert loads == loaded


def test_the_map_is_one_screen_with_every_verb_or_its_group(capsys):
    code, out, _ = said(capsys, '--help')
    assert code == 0
    assert len(out.splitlines()) <= 32
    assert max(map(len, out.splitlines())) <= 99
    shown = {row.words if isinstance(row, Verb) else f'{row.word} …'
             for _, rows in MAP[:-1] for row in rows}
    for verb in VERBS:
        group = f'{verb.words.split()[0]} …'
        assert (group if group in shown else verb.words) in out
    assert said(capsys)[:2] == (2, out), 'without a verb'


def test_a_group_without_a_verb_lists_its_verbs(capsys):
    code, out, _ = said(capsys, 'policy')
    assert code == 2
    assert 'run the conformance suite' in out


@pytest.mark.parametrize(('words', 'expected'), [
    ((), 'First steps'), (('policy',), 'usage: arena policy '),
    (('policy', 'serve'), 'usage: arena policy serve '), (('doctor',), 'usage: arena doctor ')])
def test_help_is_a_verb(capsys, words, expected):
    code, out, _ = said(capsys, 'help', *words)
    assert code == 0
    assert expected in out


@pytest.mark.parametrize(('words', 'expected'), [
    (('sesion',), "there is no verb 'sesion'. Did you mean 'session'?"),
    (('policy', 'serv'), "there is no verb 'serv'. Did you mean 'serve'?"),
    (('help', 'polcy'), "there is no verb 'polcy'. Did you mean 'policy'?"),
    (('version',), "there is no verb 'version'. Did you mean '--version'?"),
    (('policy', 'check', 'localhost:8000'), 'write one such as grpc://host:8000 or openpi://'),
    (('help', 'rank', 'x'), "'rank x' is no verb; `arena rank` is"),
    (('results', 'categorise', 'lift the cup', ''), "write what a robot is to do, such as 'put"),
    (('rank', '--sessions', 'nope.csv'), 'nope.csv: cannot be read: No such file or directory'),
    (('demo', '--sesions', '3'), "Did you mean '--sessions'?"),
    (('rank', '--sesions', 'x'), "Did you mean '--sessions'?"),
    (('episode', 'export', 'x', '--format', 'lerbot'), "Did you mean 'lerobot'?"),
    (('vote', 'x', '--method', 'all', '--jsn'), "Did you mean '--json'?")])
def test_what_is_mistyped_gets_what_to_type(capsys, words, expected):
    code, out, err = said(capsys, *words)
    assert (code, out) == (2, '')
    assert expected in ' '.join(err.split())


class Screen(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def screen(monkeypatch):
    monkeypatch.delenv('NO_COLOR', raising=False)
    monkeypatch.setenv('TERM', 'xterm')
    return Screen()


def test_a_terminal_takes_colours(screen):
    assert terminal.colours(screen)
    assert Display(screen).colour(GREEN, 'x') != 'x'
    assert not terminal.colours(io.StringIO())


def test_no_color_keeps_what_is_drawn_again(screen, monkeypatch):
    monkeypatch.setenv('NO_COLOR', '1')
    assert not terminal.colours(screen)
    assert terminal.redraws(screen)
    assert Display(screen).colour(GREEN, 'x') == 'x'


def test_a_dumb_terminal_gets_plain_lines(screen, monkeypatch):
    monkeypatch.setenv('TERM', 'dumb')
    with Display(screen, lambda: ['live']) as display:
        display.line(display.colour(GREEN, 'one'))
    assert screen.getvalue() == 'one\n'


@pytest.mark.parametrize(('name', 'value'), [('NO_COLOR', '1'), ('TERM', 'dumb')])
def test_no_verb_writes_colours_then(screen, monkeypatch, name, value):
    monkeypatch.setenv(name, value)
    monkeypatch.delenv('RCUTILS_COLORIZED_OUTPUT', raising=False)
    monkeypatch.setattr('sys.stdout', screen)
    monkeypatch.setattr(doctor_checks, 'all_checks', lambda *_: [
        doctor_checks.DoctorFinding('disk', True, 'free'),
        doctor_checks.DoctorFinding('clock', False, 'off', 'set it')])
    assert main(['doctor']) == 1
    assert '\033' not in screen.getvalue()
    assert os.environ['RCUTILS_COLORIZED_OUTPUT'] == '0'
    monkeypatch.delenv('RCUTILS_COLORIZED_OUTPUT')


@pytest.fixture(scope='module')
def script(tmp_path_factory):
    """Bash's script, with an `arena` on the PATH that it calls."""
    folder = tmp_path_factory.mktemp('bin')
    arena = folder / 'arena'
    arena.write_text(f"#!/bin/sh\nexec '{sys.executable}' -m arena_robot.cli.main \"$@\"\n")
    arena.chmod(0o755)
    done = subprocess.run([arena, 'completion', 'bash'], capture_output=True, text=True,
                          timeout=60, check=True)
    return f'PATH={shlex.quote(str(folder))}:$PATH\n{done.stdout}'


def completed(script, line):
    """What bash offers for a line with the cursor at its end."""
    ask = (f'COMP_LINE={shlex.quote(line)}; COMP_POINT={len(line)}; COMP_TYPE=9\n'
           '_python_argcomplete arena; printf "%s\\n" "${COMPREPLY[@]}"')
    done = subprocess.run(['bash', '--norc', '-c', f'{script}\n{ask}'], capture_output=True,
                          text=True, timeout=60, check=True)
    return done.stdout.split()


@pytest.mark.parametrize(('line', 'offered'), [
    ('arena ', {verb.words.split()[0] for verb in VERBS}),
    ('arena dem', {'demo'}),
    ('arena policy ', {'serve', 'check', 'list'}),
    ('arena demo --s', {'--sessions'}),
    ('arena demo --keep --s', {'--sessions'}),
    ('arena policy serve frozen --pro', {'--protocol'}),
    ('arena completion f', {'fish'}),
])
def test_bash_completes_verbs_options_and_choices(script, line, offered):
    assert offered <= set(completed(script, line))


def test_nothing_is_offered_for_an_unknown_verb(script):
    assert completed(script, 'arena no-such-verb --zz') == []


@pytest.mark.parametrize(('shell', 'check'), [('bash', ['-n']), ('zsh', ['-n']),
                                              ('fish', ['--no-execute'])])
def test_each_shell_can_read_its_script(tmp_path, capsys, shell, check):
    assert main(['completion', shell]) == 0
    script = capsys.readouterr().out
    assert 'arena' in script
    if shutil.which(shell) is None:
        pytest.skip(f'{shell} is not installed')
    path = tmp_path / 'script'
    path.write_text(script)
    subprocess.run([shell, *check, path], check=True, timeout=30)
