"""``--jobs`` and ``--cluster``: what a verb prints is the same for all of their values."""

import pytest

from arena_robot.cli.main import main

VERBS = {
    'rank': ['--sessions', '{tables}/sessions.csv', '--method', 'elo', '--intervals', '6',
             '--json'],
    'study methods': ['--sessions', '{tables}/sessions.csv', '--episodes', '{tables}/episodes.csv',
                  '--method', 'bt,elo', '--splits', '5', '--sizes', '12', '--repeats', '2',
                  '--redraw', '3', '--json'],
    'study pairs': ['--policies', '4', '--comparisons', '40', '--repeats', '4', '--goal', 'top1',
                      '--json'],
}


@pytest.fixture(scope='module')
def tables(tmp_path_factory):
    """Return a folder with the tables of 60 made-up sessions of four policies."""
    folder = tmp_path_factory.mktemp('tables')
    sessions = ['session_uuid,evaluation_type,institution,evaluator,created,completed,valid,'
                'preference,policy_a,policy_b,feedback_text']
    episodes = ['session_uuid,policy,order,instruction,binary_success,partial_success,'
                'duration_steps,video,letter,notes']
    for n in range(60):
        a, b = n % 4, (n + 1 + n // 4 % 3) % 4
        verdict = 'tie' if n % 7 == 0 else 'A' if (a > b) != (n % 5 == 0) else 'B'
        sessions.append(f's{n},A/B,lab,e{n % 3},2026-01-01 00:00:00,2026-01-01 00:09:00,1,'
                        f'{verdict},p{a},p{b},')
        for letter, policy in (('A', a), ('B', b)):
            score = (policy + n * 7 % 3) / 6
            episodes.append(f's{n},p{policy},1,lift the cube,{int(score == 1)},{score},100,,'
                            f'{letter},')
    (folder / 'sessions.csv').write_text('\n'.join(sessions) + '\n', encoding='utf-8')
    (folder / 'episodes.csv').write_text('\n'.join(episodes) + '\n', encoding='utf-8')
    return folder


@pytest.mark.parametrize('verb', VERBS)
def test_a_verb_prints_the_same_wherever_its_work_is_done(verb, tables, dask, capsys):
    words = [*verb.split(), *(word.format(tables=tables) for word in VERBS[verb])]
    printed = set()
    for more in ([], ['--jobs', '2'], ['--cluster', dask]):
        assert main([*words, *more]) == 0
        printed.add(capsys.readouterr().out)
    assert len(printed) == 1
    assert printed.pop()


@pytest.mark.parametrize(('words', 'says'), [
    (['--jobs', '0'], 'at least 1'), (['--cluster', 'here'], 'dask://host:port')])
def test_wrong_workers_are_refused(words, says, tables, capsys):
    assert main(['rank', '--sessions', f'{tables}/sessions.csv', *words]) == 2
    assert says in capsys.readouterr().err
