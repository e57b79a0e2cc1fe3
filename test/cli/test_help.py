"""Help, mistyped words, and terminals without colours."""

import io
import os

import pytest

from arena_robot.cli import doctor_checks
from arena_robot.cli.main import main
from arena_robot.core import terminal
from arena_robot.demo.display import GREEN, Display


def said(capsys, *words):
    try:
        code = main(words)
    except SystemExit as stop:
        code = stop.code
    done = capsys.readouterr()
    return code, done.out, done.err


def test_without_a_verb_all_verbs_are_listed(capsys):
    code, out, _ = said(capsys)
    assert code == 2
    assert 'First steps:' in out
    assert '  policy serve ' in out


def test_a_group_without_a_verb_lists_its_verbs(capsys):
    code, out, _ = said(capsys, 'policy')
    assert code == 2
    assert 'run the conformance suite' in out


@pytest.mark.parametrize(('words', 'expected'), [
    ((), 'First steps:'), (('policy',), 'usage: arena policy '),
    (('policy', 'serve'), 'usage: arena policy serve '), (('doctor',), 'usage: arena doctor ')])
def test_help_is_a_verb(capsys, words, expected):
    code, out, _ = said(capsys, 'help', *words)
    assert code == 0
    assert expected in out


@pytest.mark.parametrize(('words', 'expected'), [
    (('sesion',), "there is no verb 'sesion'. Did you mean 'session'?"),
    (('policy', 'serv'), "there is no verb 'serv'. Did you mean 'serve'?"),
    (('help', 'polcy'), "there is no verb 'polcy'. Did you mean 'policy'?"),
    (('help', 'rank', 'x'), "'rank x' is no verb; `arena rank` is"),
    (('demo', '--sesions', '3'), "Did you mean '--sessions'?"),
    (('rank', '--sesions', 'x'), "Did you mean '--sessions'?"),
    (('export', 'x', '--format', 'lerbot'), "Did you mean 'lerobot'?"),
    (('vote', 'x', '--method', 'all', '--jsn'), "Did you mean '--json'?")])
def test_a_mistyped_word_gets_the_nearest_one(capsys, words, expected):
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
