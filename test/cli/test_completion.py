"""Completions are scripts that the shells can load, and they know every verb."""

import re
import shutil
import subprocess

import pytest

from arena_robot.cli import completion
from arena_robot.cli.main import main, parser, verbs
from arena_robot.cli.verb_map import OTHERS, grouped


@pytest.fixture(scope='module')
def words():
    return completion.tree(parser())


def completed(script, *typed):
    """What bash offers after ``typed``; the last word may be unfinished."""
    line = ' '.join(f"'{word}'" for word in ('arena', *typed))
    done = subprocess.run(
        ['bash', '--norc', '-c', f'{script}\nCOMP_WORDS=({line}); COMP_CWORD={len(typed)}; '
         '_arena; printf "%s\\n" "${COMPREPLY[@]}"'],
        capture_output=True, text=True, timeout=30, check=True)
    return done.stdout.split()


def test_every_verb_is_known(words):
    for module in verbs():
        assert tuple(module.VERB.split()) in words


def test_bash_completes_verbs_options_and_choices(words):
    script = completion.bash(words)
    assert {'demo', 'policy', 'rank'} <= set(completed(script, ''))
    assert completed(script, 'dem') == ['demo']
    assert 'serve' in completed(script, 'policy', '')
    assert '--sessions' in completed(script, 'demo', '--s')
    assert '--sessions' in completed(script, 'demo', '--keep', '--s')
    assert completed(script, 'completion', 'f') == ['fish']
    assert completed(script, 'no-such-verb', '--zz') == []


STUBS = r"""
compdef() { }
_files() { }
_describe() { print -l -- ${${(P)2}%%:*} }
"""


def offered(script, folder, *typed):
    """What zsh offers after ``typed``, by the two variables that its completion gives a script."""
    path = folder / '_arena'
    path.write_text(f'{STUBS}\n{script}\n', encoding='utf-8')
    line = ' '.join(f"'{word}'" for word in ('arena', *typed))
    done = subprocess.run(
        ['zsh', '-f', '-c', f'source {path}; words=({line}); CURRENT={len(typed) + 1}; _arena'],
        capture_output=True, text=True, timeout=30, check=True)
    return done.stdout.split()


@pytest.mark.skipif(shutil.which('zsh') is None, reason='zsh is not installed')
def test_zsh_completes_verbs_below_verbs_and_options(words, tmp_path):
    script = completion.zsh(words)
    assert {'demo', 'policy', 'rank'} <= set(offered(script, tmp_path, ''))
    assert {'serve', 'check', 'list'} <= set(offered(script, tmp_path, 'policy', ''))
    assert '--sessions' in offered(script, tmp_path, 'demo', '--keep', '--s')
    assert '--protocol' in offered(script, tmp_path, 'policy', 'serve', '--')
    assert 'fish' in offered(script, tmp_path, 'completion', '')


def test_no_script_hides_what_its_shell_gives_it(words):
    """In zsh the line is in `words` and `CURRENT`: a local of that name would be empty."""
    declared = re.findall(r'local (?:-a )?([^\n]+)', completion.zsh(words))
    names = {name.split('=')[0] for line in declared for name in line.split()}
    assert not names & {'words', 'CURRENT'}


@pytest.mark.parametrize(('shell', 'check'), [('zsh', ['-n']), ('fish', ['--no-execute'])])
def test_other_shells_can_read_their_script(words, tmp_path, shell, check):
    script = getattr(completion, shell)(words)
    assert all(module.VERB.split()[-1] in script for module in verbs())
    if shutil.which(shell) is None:
        pytest.skip(f'{shell} is not installed')
    path = tmp_path / 'script'
    path.write_text(script)
    subprocess.run([shell, *check, path], check=True, timeout=30)


def test_the_verb_prints_a_script(capsys):
    assert main(['completion', 'bash']) == 0
    assert 'complete -F _arena arena' in capsys.readouterr().out


def test_the_map_has_every_verb_and_a_place_for_it(capsys):
    with pytest.raises(SystemExit) as caught:
        main(['--help'])
    assert caught.value.code == 0
    text = capsys.readouterr().out
    for module in verbs():
        assert f'  {module.VERB} ' in text
    assert max(map(len, text.splitlines())) <= 99
    titles = [title for title, _ in grouped([(m.VERB, m.HELP) for m in verbs()])]
    assert titles[0] == 'First steps'
    assert OTHERS not in titles, 'a verb has no place on the map; see cli/verb_map.py'
