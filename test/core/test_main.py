import types

import pytest

from arena_robot import __version__
from arena_robot.cli import main as command
from arena_robot.core.errors import ConfigError, PolicyTimeout


def verb(words, run):
    return types.SimpleNamespace(VERB=words, HELP='does it', __doc__='Does it.', run=run,
                                 add_arguments=lambda parser: parser.add_argument('--n', type=int))


def raising(error):
    def run(args):
        raise error
    return run


@pytest.mark.parametrize(('run', 'code', 'text'), [
    (lambda args: args.n, 3, ''),
    (raising(ConfigError('no such key')), 2, 'arena: no such key'),
    (raising(PolicyTimeout('too slow')), 1, 'arena: too slow [policy_timeout]'),
    (raising(KeyboardInterrupt()), 130, 'interrupted'),
])
def test_exit_codes(monkeypatch, capsys, run, code, text):
    monkeypatch.setattr(command, 'verbs', lambda: [verb('group do', run)])
    assert command.main(['group', 'do', '--n', '3']) == code
    assert text in capsys.readouterr().err


def test_unknown_verbs_are_wrong_usage(monkeypatch, capsys):
    monkeypatch.setattr(command, 'verbs', lambda: [verb('do', lambda args: 0)])
    with pytest.raises(SystemExit) as caught:
        command.main(['dont'])
    assert caught.value.code == 2
    assert "'do'" in capsys.readouterr().err


def test_version(capsys):
    with pytest.raises(SystemExit):
        command.main(['--version'])
    assert capsys.readouterr().out.split() == ['arena', __version__]


def test_a_verb_is_found_by_its_words_alone():
    found = {module.VERB: command.typed([*module.VERB.split(), '--help', 'more'])
             for module in command.verbs()}
    assert found == {module.VERB: [module] for module in command.verbs()}


@pytest.mark.parametrize('words', [[], ['--version'], ['policy'], ['dont'], ['main'], ['parsing'],
                                   ['station_watch'], ['..'], ['policy-check']])
def test_words_that_begin_no_verb_find_none(words):
    assert command.typed(words) == []


def test_a_verb_loads_no_other(monkeypatch, capsys):
    monkeypatch.setattr(command, 'verbs', lambda: pytest.fail('it loads every verb'))
    with pytest.raises(SystemExit) as caught:
        command.main(['policy', 'list', '--help'])
    assert caught.value.code == 0
    assert 'usage: arena policy list' in capsys.readouterr().out


@pytest.mark.parametrize('module', command.verbs(), ids=lambda m: m.VERB)
def test_every_verb_explains_itself(module, capsys):
    assert module.HELP
    assert not module.HELP.endswith('.')
    assert module.__doc__
    with pytest.raises(SystemExit) as caught:
        command.main([*module.VERB.split(), '--help'])
    assert caught.value.code == 0
    assert 'usage: arena ' + module.VERB in capsys.readouterr().out
