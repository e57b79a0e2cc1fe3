"""The verbs `rank` and `study`: forms, wrong usage, workers, published tables."""

import csv
import json
import re

import numpy as np
import pytest
from roboarena_tables import SAMPLE

from arena_robot.cli.main import main
from arena_robot.ranking.base import Comparisons
from arena_robot.ranking.methods import rank
from arena_robot.ranking.quality import MEASURES
from arena_robot.records.roboarena import (
    RankedBy,
    RoboArenaData,
    RoboArenaRollout,
    RoboArenaSession,
)

POLICIES = ('amber', 'blue', 'cyan', 'dun')
VERBS = {
    'rank': ['--sessions', '{tables}/sessions.csv', '--method', 'elo', '--intervals', '6',
             '--json'],
    'study methods': ['--sessions', '{tables}/sessions.csv', '--episodes', '{tables}/episodes.csv',
                  '--method', 'bt,elo', '--splits', '5', '--sizes', '12', '--repeats', '2',
                  '--redraw', '3', '--json'],
    'study pairs': ['--policies', '4', '--comparisons', '40', '--repeats', '4', '--goal', 'top1',
                      '--json'],
}


@pytest.fixture
def tables(tmp_path):
    rng = np.random.default_rng(0)
    skill = np.array([0.3, 0.45, 0.6, 0.75])
    sessions, episodes = [], []
    for s in range(240):
        ran = rng.permutation(4)
        score = np.clip(skill + rng.normal(0, 0.25, 4), 0, 1).round(2)
        a, b = ran[:2]
        gap = score[a] - score[b]
        preference = 'TIE' if abs(gap) < 0.05 else 'A' if gap > 0 else 'B'
        sessions.append((f's{s}', 1, preference, POLICIES[a], POLICIES[b], f'e{s % 24}',
                         f'h{s % 2}'))
        episodes += [(f's{s}', POLICIES[k], score[k]) for k in ran]
    sessions.append(('lone', 1, 'A', 'erin', 'amber', 'e0', 'h0'))
    return (write(tmp_path / 's.csv', 'session_uuid valid preference policy_a policy_b evaluator '
                  'institution', sessions),
            write(tmp_path / 'e.csv', 'session_uuid policy partial_success', episodes))


def write(path, header, rows):
    with path.open('w', newline='') as file:
        out = csv.writer(file)
        out.writerow(header.split())
        out.writerows(rows)
    return str(path)


def ask(capsys, *words):
    code = main(list(words))
    done = capsys.readouterr()
    return code, done.out, done.err


def test_json_has_the_agreed_form_in_full_precision(tables, capsys):
    code, out, _ = ask(capsys, 'rank', '--sessions', tables[0], '--method', 'davidson', '--json',
                       '--policies', 'amber,blue,cyan,dun', '--intervals', '50')
    report = json.loads(out)
    assert code == 0
    assert report['method'] == 'davidson'
    rows = report['standings']
    assert rows[0]['policy'] == 'dun'
    assert [row['rank'] for row in rows] == [1, 2, 3, 4]
    for row in rows:
        assert row['low'] < row['score'] < row['high']
        assert row['n'] > 20
        assert len(repr(row['score'])) > 12
    assert report['diagnostics']['converged'] is True
    assert 'log_likelihood' in report['diagnostics']
    assert abs(sum(row['score'] for row in rows)) < 1e-9


def test_a_policy_that_lost_its_only_comparison_is_ranked_and_told(tables, capsys):
    code, out, err = ask(capsys, 'rank', '--sessions', tables[0])
    assert code == 0
    row = next(line for line in out.splitlines() if 'erin' in line)
    assert 'too few to tell' in row
    assert row.split()[0] == '–'
    printed = {line.split()[1]: line.split()[0] for line in out.splitlines()[1:6]}
    _, out, _ = ask(capsys, 'rank', '--sessions', tables[0], '--json')
    assert printed == {row['policy']: '–' if row['too_few'] else '-'.join(
        str(rank) for rank in sorted({row['rank_low'], row['rank_high']}))
        for row in json.loads(out)['standings']}, 'no rank beside the range of ranks'
    code, out, err = ask(capsys, 'rank', '--sessions', tables[0], '--json', '--policies',
                         'amber,blue,erin')
    rows = {row['policy']: row for row in json.loads(out)['standings']}
    assert code == 0
    assert rows['erin']['too_few']
    assert (rows['erin']['low'], rows['erin']['high']) == (None, None)
    assert (rows['erin']['rank_low'], rows['erin']['rank_high']) == (1, 3)
    assert not rows['amber']['too_few']
    code, out, err = ask(capsys, 'rank', '--sessions', tables[0], '--method', 'bt',
                         '--option', 'l2=0')
    assert 'left out, not comparable with the others: erin' in err


def test_intervals_can_count_evaluators_as_one_observation_each(tables, capsys):
    reports = {}
    for unit in ('session', 'evaluator', 'institution', 'auto'):
        _, out, _ = ask(capsys, 'rank', '--sessions', tables[0], '--cluster-by', unit, '--json')
        reports[unit] = json.loads(out)
    kinds = {unit: report['diagnostics']['intervals'] for unit, report in reports.items()}
    assert (kinds['session']['clusters'], kinds['auto']['by']) == (241, 'evaluator')
    assert (kinds['evaluator']['clusters'], kinds['institution']['clusters']) == (24, 2)
    assert all(row['too_few'] for row in reports['institution']['standings'])


@pytest.mark.parametrize('method', [
    'elo', 'elo_online', 'bt', 'bt_shrunk', 'davidson', 'task', 'task_paper',
    'task_partial', 'progress', 'progress_gls', 'bt_robust'])
def test_every_method_runs_from_the_command_line(tables, capsys, method):
    code, out, _ = ask(capsys, 'rank', '--sessions', tables[0], '--episodes', tables[1],
                       '--method', method, '--policies', 'amber,blue,cyan,dun', '--intervals',
                       '5', '--seed', '3', '--json')
    report = json.loads(out)
    assert code == 0
    assert report['standings'][-1]['policy'] == 'amber'
    assert report['standings'][0]['low'] is not None


def test_without_intervals_the_bounds_are_null(tables, capsys):
    _, out, _ = ask(capsys, 'rank', '--sessions', tables[0], '--intervals', '0', '--json')
    assert json.loads(out)['standings'][0]['low'] is None
    _, out, _ = ask(capsys, 'rank', '--sessions', tables[0], '--intervals', '0')
    assert 'rank  policy' in out


def test_pairs_and_evaluators_are_reported(tables, capsys):
    words = ('rank', '--sessions', tables[0], '--episodes', tables[1], '--intervals', '0',
             '--pair', 'dun,amber', '--evaluators', '--influence')
    _, out, _ = ask(capsys, *words, '--json')
    report = json.loads(out)
    assert report['evidence']['better'] == 'dun'
    assert report['evidence_of_progress']['better'] == 'dun'
    assert {row['name'] for row in report['evaluators']} == {f'e{k}' for k in range(24)}
    assert {row['name'] for row in report['institutions']} == {'h0', 'h1'}
    assert {row['name'] for row in report['influence']} == {f'e{k}' for k in range(24)}
    assert all(row['largest'] > 0 for row in report['influence'])
    assert [row['kind'] for row in report['fragility']['found']] == [
        'verdict', 'evaluator', 'institution']
    _, out, _ = ask(capsys, *words)
    assert out.count('dun is better, decided after') == 2
    assert 'dun against amber: got further in' in out
    assert 'evaluators' in out
    assert 'largest change' in out
    assert report['fragility']['words'] in out


def test_study_methods_has_the_agreed_form(tables, capsys, tmp_path):
    picture = tmp_path / 'pictures' / 'curve.svg'
    words = ('study', 'methods', '--sessions', tables[0], '--episodes', tables[1], '--method',
             'bt,progress', '--splits', '8', '--repeats', '3', '--sizes', '20,60,999',
             '--redraw', '4', '--plot', str(picture))
    code, out, _ = ask(capsys, *words, '--json')
    report = json.loads(out)
    assert code == 0
    assert set(report['methods']) == {'bt', 'progress'}
    for measure in MEASURES:
        mean, low, high = report['methods']['bt'][measure]
        assert low <= mean <= high
    assert [row['sessions'] for row in report['efficiency']['bt']] == [20, 60]
    assert set(report['redraw']) == {'bt', 'progress'}
    assert report['methods']['bt']['gain']['pearson'] == [0, 0, 0]
    assert report['redraw']['progress']['gain']['pearson'][0] != 0
    assert report['settings']['left_out'] == ['erin']
    assert set(report['reference']) == set(POLICIES)
    assert picture.read_text().startswith('<?xml')
    _, repeated, _ = ask(capsys, *words, '--json')
    assert json.loads(repeated) == report
    _, out, _ = ask(capsys, *words)
    assert 'fresh draws of the compared pair' in out


@pytest.mark.parametrize(('words', 'problem', 'code'), [
    (('rank', '--method', 'beauty'), "no ranking method 'beauty'. Did you mean 'bt'?", 2),
    (('rank', '--option', 'k'), 'is not KEY=VALUE', 2),
    (('rank', '--option', 'k=3'), "'bt_shrunk' does not take", 2),
    (('rank', '--method', 'task_partial'), 'no comparison has one', 1),
    (('rank', '--method', 'progress'), 'no scored rollout of amber, blue', 1),
    (('rank', '--policies', 'amber'), 'rank 1 policy', 1),
    (('rank', '--policies', 'amber,zoe'), 'no counted session has zoe', 2),
    (('rank', '--level', '1.5'), '--level must be', 2),
    (('rank', '--pair', 'amber'), 'is not two policies', 2),
    (('rank', '--plot', 'x.gif'), 'must end in .png or .svg', 2),
    (('study', 'methods'), 'study methods needs --episodes', 2),
    (('study', 'methods', '--episodes', 'E', '--sizes', 'many'), 'not a list of whole numbers', 2),
    (('study', 'methods', '--episodes', 'E', '--splits', '0'), 'must be at least 1', 2)])
def test_wrong_usage_is_told(tables, capsys, words, problem, code):
    words = [tables[1] if word == 'E' else word for word in words]
    exit_code, out, err = ask(capsys, *words, '--sessions', tables[0])
    assert (exit_code, out) == (code, '')
    assert problem in err


def test_options_reach_the_method(tables, capsys):
    _, out, _ = ask(capsys, 'rank', '--sessions', tables[0], '--method', 'elo', '--intervals',
                    '0', '--json', '--option', 'k=64', '--option', 'orders=3')
    diagnostics = json.loads(out)['diagnostics']
    assert (diagnostics['k'], diagnostics['orders']) == (64, 3)


def test_the_origin_of_what_is_ranked_is_told(tmp_path, capsys):
    rows = [(f's{n}', 1, 'AB'[n % 2], 'amber', 'blue', origin)
            for n, origin in enumerate(['relayed', 'imported', 'relayed', 'local', ''])]
    table = write(tmp_path / 's.csv',
                  'session_uuid valid preference policy_a policy_b origin', rows)
    assert main(['rank', '--sessions', table, '--intervals', '0']) == 0
    assert 'comparisons: 1 imported, 1 local, 1 of unknown origin, 2 relayed' in \
        capsys.readouterr().out
    assert main(['rank', '--sessions', table, '--intervals', '0', '--json']) == 0
    assert json.loads(capsys.readouterr().out)['origins'] == {
        'imported': 1, 'local': 1, 'of unknown origin': 1, 'relayed': 2}


def test_of_chosen_pairs_it_is_said_which_intervals_hold(tmp_path, capsys):
    rows = [(f's{n}', 1, 'AB'[n % 3 == 0], 'amber', 'blue', '' if n == 0 else n % 2)
            for n in range(20)]
    table = write(tmp_path / 's.csv',
                  'session_uuid valid preference policy_a policy_b chosen', rows)
    for method, words in (('bt', '10 of 20 pairs were chosen by earlier verdicts'),
                          ('bt_shrunk', '')):
        code, out, err = ask(capsys, 'rank', '--sessions', table, '--method', method)
        assert code == 0
        assert 'in 10 the pair was chosen by earlier verdicts' in out
        assert words in err
        assert ('chosen' in err) == bool(words)
    write(tmp_path / 's.csv', 'session_uuid valid preference policy_a policy_b chosen',
          [(*row[:5], 'perhaps') for row in rows])
    assert 'chosen' in ask(capsys, 'rank', '--sessions', table)[2]


def test_waiting_is_told_apart_from_skill(tmp_path, tables, capsys):
    rng, rows = np.random.default_rng(1), []
    for s in range(400):
        waits = rng.random(2).round(3) / 2
        wins = rng.random() < 1 / (1 + np.exp(6.0 * (waits[0] - waits[1]) - 1.0))
        rows.append((f's{s}', 1, 'A' if wins else 'B', 'skilled', 'other', *waits))
    rows.append(('x', 1, 'B', 'skilled', 'other', '', ''))
    path = write(tmp_path / 'w.csv', 'session_uuid valid preference policy_a policy_b waited_a '
                 'waited_b', rows)
    words = ('rank', '--sessions', path, '--method', 'bt', '--intervals', '0', '--waiting')
    code, out, _ = ask(capsys, *words)
    assert code == 0
    assert 'waiting is known of 400 of 401 comparisons' in out
    waiting = json.loads(ask(capsys, *words, '--json')[1])['waiting']
    assert waiting['low'] < -6.0 < waiting['high'] < 0.0
    assert [row['policy'] for row in waiting['standings']] == ['skilled', 'other']
    assert sum(row['score'] for row in waiting['standings']) == pytest.approx(0.0, abs=1e-9)
    assert waiting['standings'][0]['score'] != waiting['standings'][0]['with_waiting']
    code, _, err = ask(capsys, 'rank', '--sessions', tables[0], '--waiting')
    assert code == 2
    assert 'none of these has both' in err


def test_old_verdicts_count_less_and_changes_are_told(tmp_path, tables, capsys):
    rows = [(f's{k}', 1, 'AB'[(k < 60) != (k % 4 == 0)], 'new', ('old', 'older')[k % 2],
             f'2026-0{1 + k // 60}-{1 + k % 28:02} 10:00:00') for k in range(120)]
    path = write(tmp_path / 'dated.csv', 'session_uuid valid preference policy_a policy_b created',
                 rows)
    words = ('rank', '--sessions', path, '--method', 'bt')
    whole = json.loads(ask(capsys, *words, '--json')[1])
    recent = json.loads(ask(capsys, *words, '--half-life', '10', '--json')[1])
    score = [next(row['score'] for row in report['standings'] if row['policy'] == 'new')
             for report in (whole, recent)]
    assert score[0] < score[1] - 0.5
    report = json.loads(ask(capsys, *words, '--windows', '2', '--json')[1])['over_time']
    assert report['changes'][0]['policy'] == 'new'
    assert report['changes'][0]['low'] > 0
    assert [window['first'] for window in report['windows']] == ['2026-01-01', '2026-02-01']
    out = ask(capsys, *words, '--windows', '2')[1]
    assert re.search(r'2026-01-01 to 2026-01-28  2026-02-01 to 2026-02-28  change', out)
    assert re.search(r'new +-\d\.\d+ +\d\.\d+  \+\d\.\d\d \(\+', out)
    code, _, err = ask(capsys, 'rank', '--sessions', tables[0], '--windows', '2')
    assert code == 2
    assert "need the time of every session that counts, in the column 'created'" in err


def test_robots_are_ranked_apart_and_told_whether_they_may_be_pooled(tmp_path, tables, capsys):
    rows = [(f's{k}', 1, 'AB'[(k < 60) != (k % 5 == 0)], 'new', ('old', 'older')[k % 2],
             ('panda', 'ur5e')[k // 60]) for k in range(120)] + [('x', 1, 'A', 'new', 'old', '')]
    path = write(tmp_path / 'r.csv', 'session_uuid valid preference policy_a policy_b robot', rows)
    words = ('rank', '--sessions', path, '--method', 'bt', '--robots')
    code, out, _ = ask(capsys, *words)
    assert code == 0
    assert re.search(r'policy +panda +ur5e\n', out)
    assert re.search(r'new +-\d\.\d+ +\d\.\d+\n', out)
    assert 'comparisons that name no robot: 1\nrobots, by session: not pooled: new is ' in out
    report = json.loads(ask(capsys, *words, '--json')[1])['robots']
    assert report['pooled'] is False
    assert report['differs'][0] == {'policy': 'new', 'best': 'ur5e', 'worst': 'panda'}
    assert set(report['standings']) == {'panda', 'ur5e'}
    code, _, err = ask(capsys, 'rank', '--sessions', tables[0], '--robots')
    assert code == 2
    assert "--robots needs the kind of robot of sessions, in the column 'robot'" in err


def agreements(capsys, *words):
    assert main(['study', 'papers', *words, '--json']) == 0
    return {line['what']: line for line in json.loads(capsys.readouterr().out)}


def test_without_data_only_what_is_printed_whole_is_checked(capsys):
    by_title = agreements(capsys)
    row = by_title['table 2, four strategies have one deviation rating']
    assert row['agreement'] == 'reproduced'
    nash = by_title['table 2, uniform rating of N']
    assert (nash['agreement'], nash['found'], nash['published']) == (
        'differs', '-2496/964', '-2497/964')
    row = by_title['figure 2, four models share the first place']
    assert row['agreement'] == 'cannot be checked'
    assert main(['study', 'papers']) == 0
    assert '14 reproduced, 1 differs, 0 cannot be told, 11 cannot be checked' in \
        capsys.readouterr().out


def test_roboarenas_tables_are_compared_line_by_line(capsys):
    by_title = agreements(capsys, '--roboarena', str(SAMPLE))
    assert by_title['rollouts behind the oracle']['found'] == '464'
    assert by_title['rollouts behind the oracle']['agreement'] == 'differs'
    assert 'snapshot' in by_title['rollouts behind the oracle']['why']
    task = by_title['figure 6, TASK agrees better with the oracle than Elo and Bradley–Terry']
    assert task['agreement'] == 'cannot be told'
    assert re.search(r'smallest margin [-+]0\.\d{4} \[-0\.\d{4}, \+0\.\d{4}\]', task['found'])
    flow = by_title['figure 5, FAST is better than flow (pi0)']
    assert (flow['agreement'], '[+0.' in flow['found']) == ('reproduced', True)
    assert '%' in by_title['preference does not agree with progress']['found']
    assert '%' in by_title['figure 8, accuracy of task categories']['found']
    predicted = by_title["observation 9, on RoboArena's sessions: Copeland and approval predict "
                         'better than Elo']
    assert predicted['agreement'] == 'cannot be told'
    assert re.match(r'errors elo \d\.\d{4}, copeland \d\.', predicted['found'])


def test_open_spiels_tables_are_read_and_merged(tmp_path, capsys):
    rng = np.random.default_rng(5)
    rainbow = 'dqn a3c ddqn prior-ddqn dueling-ddqn distrib-dqn noisy-dqn rainbow'
    games = ['skiing', 'pong', 'montezuma_revenge', *(f'g{k}' for k in range(6))]
    for name, agents, named in (
            ('rainbow_table5', rainbow, games), ('rainbow_table6', rainbow, games),
            ('agent57_table', 'human random agent57 r2d2(bandit) muzero', ['venture', *games]),
            ('muesli_table11', 'random human muzero muesli', games[::-1])):
        rows = [f'{game} ' + ' '.join(f'{x:,.1f}±3' for x in rng.normal(
            0, 2000, len(agents.split()))) for game in named]
        (tmp_path / f'atari_{name}.txt').write_text(
            '\n'.join(['# where from', f'# game {agents}', *rows]) + '\n')
    by_title = agreements(capsys, '--atari', str(tmp_path))
    assert by_title['table 6, borda']['agreement'] == 'differs'
    assert by_title['observation 1, different orders of the agents by the games']['found'] == '9'
    # 5 of Agent57's table, 8 of Rainbow's, and muesli with a MuZero of its own
    tie = by_title['figure 4, agents that share the first place, model_vs_task, without '
                   'montezuma_revenge']
    assert ' of 15: ' in tie['found']
    (tmp_path / 'atari_muesli_table11.txt').unlink()
    assert main(['study', 'papers', '--atari', str(tmp_path)]) == 2
    assert 'is not a table of scores of open_spiel' in capsys.readouterr().err


def test_a_table_that_is_none_is_refused(tmp_path, capsys):
    (tmp_path / 'scores.csv').write_text('model,a,b\nx,1,no\n')
    assert main(['study', 'papers', '--livebench', str(tmp_path / 'scores.csv')]) == 2
    assert 'is not a table of scores' in capsys.readouterr().err


@pytest.fixture(scope='module')
def made_up(tmp_path_factory):
    """Return a folder with the made_up of 60 made-up sessions of four policies."""
    folder = tmp_path_factory.mktemp('made_up')
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
def test_a_verb_prints_the_same_wherever_its_work_is_done(verb, made_up, dask, capsys):
    words = [*verb.split(), *(word.format(tables=made_up) for word in VERBS[verb])]
    printed = set()
    for more in ([], ['--jobs', '2'], ['--cluster', dask]):
        assert main([*words, *more]) == 0
        printed.add(capsys.readouterr().out)
    assert len(printed) == 1
    assert printed.pop()


@pytest.mark.parametrize(('words', 'says'), [
    (['--jobs', '0'], 'at least 1'), (['--cluster', 'here'], 'dask://host:port')])
def test_wrong_workers_are_refused(words, says, made_up, capsys):
    assert main(['rank', '--sessions', f'{made_up}/sessions.csv', *words]) == 2
    assert says in capsys.readouterr().err


# `quick` succeeds in 2 s, `slow` in 6 s; `fails` never succeeds, and is stopped after 4 s.
RUNS = {'quick': (1, 0.5, 90, '2.0'), 'slow': (1, 0.6, 90, ''), 'fails': (0, 0.9, 60, '')}


@pytest.fixture
def timed(tmp_path):
    """Return the words that name tables of 24 sessions, whose preference says the contrary."""
    sessions = ['session_uuid,valid,preference,policy_a,policy_b']
    episodes = ['session_uuid,policy,letter,binary_success,partial_success,duration_steps,'
                'time_to_success_s']
    pairs = [pair for a in RUNS for b in RUNS if a != b for pair in [(a, b)] * 4]
    for n, (a, b) in enumerate(pairs):
        sessions.append(f's{n},1,{"B" if a < b else "A"},{a},{b}')
        for letter, name in (('A', a), ('B', b)):
            success, progress, steps, time = RUNS[name]
            episodes.append(f's{n},{name},{letter},{success},{progress},{steps},{time}')
    for name, lines in (('sessions', sessions), ('episodes', episodes)):
        (tmp_path / f'{name}.csv').write_text('\n'.join(lines) + '\n')
    return ['rank', '--sessions', f'{tmp_path}/sessions.csv', '--episodes',
            f'{tmp_path}/episodes.csv', '--intervals', '50']


@pytest.mark.parametrize(('measure', 'order', 'known'), [
    ('preference', ['slow', 'quick', 'fails'], 24), ('progress', ['fails', 'slow', 'quick'], 24),
    ('success', [{'quick', 'slow'}, 'fails'], 24), ('time', ['quick', {'slow', 'fails'}], 16)])
def test_policies_are_ranked_by_what_is_asked(measure, order, known, timed, capsys):
    assert main([*timed, '--by', measure, '--json']) == 0
    found = json.loads(capsys.readouterr().out)
    names = [row['policy'] for row in found['standings']]
    for place in order:
        group = {place} if isinstance(place, str) else place
        assert set(names[:len(group)]) == group
        del names[:len(group)]
    assert found['by'] == {'measure': measure, 'sessions': known, 'of': 24}
    if measure in ('success', 'time'):    # by the others each pair has a winner without exception
        assert all(row['low'] < row['score'] < row['high'] for row in found['standings'])


def test_a_failure_that_ended_early_says_nothing_of_time():
    def sooner(*runs):
        rollouts = tuple(RoboArenaRollout(policy, slot, None, steps, success=success,
                                          time_to_success_s=time)
                         for (policy, slot), (success, steps, time) in zip(
                             (('p', 'A'), ('q', 'B')), runs, strict=True))
        found = RoboArenaSession('s', 'p', 'q', rollouts=rollouts).better(RankedBy.TIME)
        return found and found.value
    assert sooner((True, 90, 2.0), (False, 60, None)) == 'A'
    assert sooner((False, 60, None), (True, 90, 4.0)) == 'B'
    assert sooner((True, 90, 4.1), (False, 60, None)) is None, 'the failure ended before'
    assert sooner((False, 60, None), (False, 90, None)) is None
    assert sooner((True, 60, None), (True, 60, 4.0)) == 'TIE', 'without a time, the whole rollout'
    assert sooner((True, 0, None), (True, 60, 4.0)) is None
    assert sooner((None, 60, None), (True, 60, 4.0)) is None


def test_tables_without_what_is_asked_are_refused(timed, capsys):
    assert main([*timed[:3], '--by', 'time']) == 2
    assert 'name the table of rollouts with --episodes' in capsys.readouterr().err
    assert main([*timed, '--by', 'time']) == 0
    assert 'by time: 16 of 24 valid sessions say which was better' in capsys.readouterr().out


def test_the_order_by_time_is_that_of_the_rates_at_which_policies_succeed():
    """Times are exponential and cut off at one moment: then the scores differ by log rates."""
    rng, rates, end_s = np.random.default_rng(5), {'slow': 0.05, 'fair': 0.1, 'quick': 0.2}, 10.0
    sessions = []
    for n in range(6000):
        pair = rng.permutation(list(rates))[:2]
        times = [rng.exponential(1.0 / rates[name]) for name in pair]
        sessions.append(RoboArenaSession(f's{n}', *map(str, pair), rollouts=tuple(
            RoboArenaRollout(str(name), slot, None, 150, success=bool(time < end_s),
                             time_to_success_s=float(time) if time < end_s else None)
            for name, slot, time in zip(pair, 'AB', times, strict=True))))
    judged = RoboArenaData(tuple(sessions)).judged_by(RankedBy.TIME)
    failed = sum(not any(r.success for r in s.rollouts) for s in sessions)
    rows = judged.comparisons()
    assert len(rows) == len(sessions) - failed
    assert failed > 500
    ranked = rank(Comparisons.from_words(rows), 'bt', intervals=0)
    scores = dict(zip(ranked.items, ranked.scores, strict=True))
    for quicker, slower in (('quick', 'fair'), ('fair', 'slow')):
        assert scores[quicker] - scores[slower] == pytest.approx(np.log(2.0), abs=0.12)
