"""Shells can load the completion scripts, and are told every verb, option and choice."""

import shlex
import shutil
import subprocess
import sys

import pytest

from arena_robot.cli.main import main
from arena_robot.cli.verbs import VERBS


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

