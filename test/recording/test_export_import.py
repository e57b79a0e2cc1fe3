"""What is exported holds what was recorded; imports bring it back; jobs change nothing."""

import hashlib
import json
import os
import re
import shutil
from collections import Counter
from dataclasses import replace

import av
import h5py
import numpy as np
import pyarrow.parquet as pq
import pytest
import yaml
from roboarena_tables import SAMPLE, WHOLE, needs_whole
from sample_episodes import TICK_NS, SampleEpisode, SampleMaker, picture
from scipy.special import expit

from arena_robot.cli.main import main
from arena_robot.core.episode import Preference
from arena_robot.core.errors import DataError
from arena_robot.core.verdict import Success
from arena_robot.recording.episode.frames import read_video
from arena_robot.recording.formats import lerobot
from arena_robot.recording.formats.droid import export_droid
from arena_robot.recording.formats.exporting import sources
from arena_robot.recording.formats.lerobot import export_lerobot
from arena_robot.records.audit_file import EpisodeAudit, write_audit
from arena_robot.records.roboarena_files import read_dump, read_evaluations, session_file
from arena_robot.records.session_file import read_session, write_session

ID = SampleEpisode().session_id
LONG = pytest.mark.skipif('ARENA_TEST_WALKS' not in os.environ,
                          reason='the layouts share the code that runs two jobs: make walks')


def test_a_droid_trajectory_has_the_recorded_rows(session, maker, tmp_path, capsys):
    assert main(['episode', 'export', str(session), '--format', 'droid', '--output',
                 str(tmp_path)]) == 0
    assert '2 episodes exported' in capsys.readouterr().out
    folder = tmp_path / f'{ID}_A'
    with h5py.File(folder / 'trajectory.h5') as file:
        stamps = file['observation/timestamp/control/step_start'][:]
        joints = file['observation/robot_state/joint_positions'][:]
        assert file['action/joint_position'].shape == (30, 7)
        assert file['action/gripper_position'].shape == (30,)
        assert 'joint_velocity' not in file['action']
        assert file.attrs['current_task'] == maker.sample.prompt
        seen = file['observation/timestamp/cameras/camera_wrist_frame_received'][:]
    start = maker.sample.start_ns
    assert stamps.tolist() == [(start + k * TICK_NS) // 10**6 for k in range(30)]
    assert joints[7].tolist() == maker.q(maker.state_stamp(start + 7 * TICK_NS))
    assert (stamps - seen)[1:].tolist() == [20] * 29
    about = json.loads((folder / f'metadata_{ID}.json').read_text())
    assert (about['policy'], about['success'], about['partial_success']) \
        == ('first policy', False, 0.25)
    shown = list(read_video(folder / 'recordings/MP4/camera_wrist.mp4'))
    made = np.hstack([picture(12, f'wrist_{eye}', 320, 180) for eye in ('left', 'right')])
    assert (len(shown), shown[12].shape) == (30, (180, 640, 3))
    assert np.abs(shown[12].astype(int) - made).mean() < 4.0
    assert main(['episode', 'export', str(session), '--format', 'droid', '--output',
                 str(tmp_path)]) == 2


def test_a_roboarena_dump_comes_back_as_the_same_session(session, maker, tmp_path, capsys):
    dump = tmp_path / 'dump'
    assert main(['episode', 'export', str(session), '--format', 'roboarena', '--output',
                 str(dump)]) == 0
    about = yaml.safe_load((dump / 'global_metadata.yaml').read_text())
    assert about == {'total_sessions': 1, 'total_policy_episodes': 2, 'policy_index': {
        'first_policy': {'action_space': 'joint_position'},
        'second': {'action_space': 'joint_position'}}}
    home = dump / 'evaluation_sessions' / ID
    rollout = home / 'A_first_policy'
    with np.load(next(rollout.glob('*_npz_file.npz')), allow_pickle=True) as npz:
        rows = npz['data']
    assert len(rows) == 30
    assert {k: len(v) for k, v in rows[0].items()} == {
        'cartesian_position': 6, 'joint_position': 7, 'gripper_position': 1, 'action': 8}
    assert rows[16]['gripper_position'] == [1.0]
    assert sorted(p.name.rsplit('_', 1)[1] for p in rollout.glob('*.mp4')) == [
        'left.mp4', 'right.mp4', 'wrist.mp4']
    with av.open(str(next(rollout.glob('*_wrist.mp4')))) as video:
        assert (video.streams.video[0].width, video.streams.video[0].height) == (512, 288)
    imported, = read_dump(dump).sessions
    assert (imported.session_id, imported.preference.value, imported.explanation) == (
        ID, 'B', 'B was surer')
    assert (imported.policy_a, imported.policy_b) == ('first_policy', 'second')
    assert [(r.letter, r.progress, r.steps) for r in imported.rollouts] == [('A', 0.25, 30),
                                                                      ('B', 1.0, 20)]
    capsys.readouterr()
    second = tmp_path / 'again'
    assert main(['episode', 'import', str(dump), '--output', str(second)]) == 0
    assert '1 sessions, 1 with a valid verdict, 2 rollouts' in capsys.readouterr().out
    back, before = read_session(second / ID), read_session(session)
    assert [back.progress(slot) for slot in 'AB'] == [0.25, 1.0]
    assert (back.verdict.preference.value, back.prompt, back.created) == (
        'B', maker.sample.prompt, before.created)
    assert main(['episode', 'import', str(dump), '--output', str(second)]) == 2
    assert main(['episode', 'export', str(session), '--format', 'roboarena', '--output',
                 str(dump)]) == 2


def test_a_dump_with_one_slot_names_both_policies_and_comes_back(session, tmp_path, capsys):
    partial = tmp_path / ID
    shutil.copytree(session, partial)
    shutil.rmtree(partial / 'B')
    dump, second = tmp_path / 'dump', tmp_path / 'again'
    assert main(['episode', 'export', str(partial), '--format', 'roboarena', '--output',
                 str(dump)]) == 0
    about = yaml.safe_load((dump / 'global_metadata.yaml').read_text())
    assert (about['total_sessions'], about['total_policy_episodes']) == (1, 1)
    imported, = read_dump(dump).sessions
    assert (imported.policy_a, imported.policy_b) == ('first_policy', 'second')
    assert [r.letter for r in imported.rollouts] == ['A']
    capsys.readouterr()
    assert main(['episode', 'import', str(dump), '--output', str(second)]) == 0
    assert '1 sessions, 1 with a valid verdict, 1 rollouts' in capsys.readouterr().out
    back = read_session(second / ID)
    assert (back.reveal.policy_a, back.reveal.policy_b) == ('first_policy', 'second')
    assert back.progress('B') is None


def lerobot_rows(root, info, episode):
    """Return the rows of an episode, after a look at its table and its part of the videos."""
    path = info['data_path'].format(chunk_index=episode['data/chunk_index'],
                                    file_index=episode['data/file_index'])
    table = pq.read_table(root / path)
    assert set(table.column_names) == {n for n, f in info['features'].items()
                                       if f['dtype'] != 'video'}
    length = episode['dataset_to_index'] - episode['dataset_from_index']
    rows = [row for row in table.to_pylist() if row['episode_index'] == episode['episode_index']]
    assert length == episode['length'] == len(rows)
    for key, feature in info['features'].items():
        if feature['dtype'] == 'video':
            begin, end = (round(info['fps'] * episode[f'videos/{key}/{side}_timestamp'])
                          for side in ('from', 'to'))
            frames = list(read_video(lerobot_video(root, info, episode, key)))[begin:end]
            assert len(frames) == length
            assert list(frames[0].shape) == feature['shape']
            made = picture(11, f"{key.rpartition('.')[2]}_left", 320, 180).astype(int)
            assert np.abs(frames[11].astype(int) - made).mean() < 4.0
    return rows


def lerobot_video(root, info, episode, key):
    return root / info['video_path'].format(
        video_key=key, chunk_index=episode[f'videos/{key}/chunk_index'],
        file_index=episode[f'videos/{key}/file_index'])


def test_a_lerobot_dataset_is_whole_and_consistent(session, maker, tmp_path):
    root = tmp_path / 'dataset'
    assert main(['episode', 'export', str(session), '--format', 'lerobot', '--output',
                 str(root)]) == 0
    info = json.loads((root / 'meta/info.json').read_text())
    assert (info['codebase_version'], info['fps'], info['total_frames']) == ('v3.0', 15, 50)
    assert info['splits'] == {'train': '0:2'}
    episodes = pq.read_table(root / 'meta/episodes/chunk-000/file-000.parquet').to_pylist()
    tasks = pq.read_table(root / 'meta/tasks.parquet')
    assert tasks.to_pylist() == [{'task_index': 0, 'task': maker.sample.prompt}]
    assert json.loads(tasks.schema.metadata[b'pandas'])['index_columns'] == ['task']
    stats = json.loads((root / 'meta/stats.json').read_text())
    rows = [row for episode in episodes for row in lerobot_rows(root, info, episode)]
    assert [r['index'] for r in rows] == list(range(50))
    assert [r['episode_index'] for r in rows] == [0] * 30 + [1] * 20
    assert rows[7]['timestamp'] == pytest.approx(7 / 15)
    assert rows[7]['true_timestamp'] == pytest.approx(7 * TICK_NS * 1e-9)
    assert rows[7]['observation.state'][:7] == pytest.approx(
        maker.q(maker.state_stamp(maker.sample.start_ns + 7 * TICK_NS)), abs=1e-6)
    assert stats['action']['max'][:7] == pytest.approx(
        np.max([r['action'] for r in rows], axis=0)[:7].tolist())
    assert np.shape(stats['observation.images.wrist']['mean']) == (3, 1, 1)
    assert 0.2 < stats['observation.images.wrist']['mean'][0][0][0] < 0.8
    with av.open(str(lerobot_video(root, info, episodes[1], 'observation.images.wrist'))) as video:
        stamps = [frame.time for frame in video.decode(video=0)]
    assert stamps == pytest.approx([k / 15 for k in range(50)], abs=1e-4)
    with pytest.raises(DataError, match='not empty'):
        export_lerobot(sources(session), root)


def test_episodes_of_two_action_spaces_become_a_dataset_each(message_folders, pristine, tmp_path,
                                                             capsys):
    folder, out = tmp_path / ID, tmp_path / 'out'
    shutil.copytree(pristine, folder / 'A')
    SampleMaker(SampleEpisode(slot='B', steps=20, space='joint_velocity'),
                message_folders).write(folder / 'B')
    assert main(['episode', 'export', str(folder), '--format', 'lerobot', '--output',
                 str(out)]) == 0
    assert str(out / 'joint_velocity') in capsys.readouterr().out
    for space, frames in (('joint_position', 30), ('joint_velocity', 20)):
        info = json.loads((out / space / 'meta/info.json').read_text())
        assert (info['action_space'], info['total_frames'], info['total_episodes']) == (
            space, frames, 1)


@pytest.mark.parametrize('limit', ['TABLE_MB', 'VIDEO_MB'])
def test_lerobot_files_end_at_their_limit(limit, session, tmp_path, monkeypatch):
    monkeypatch.setattr(lerobot, limit, 0)
    monkeypatch.setattr(lerobot, 'CHUNK_FILES', 1)
    export_lerobot(sources(session), tmp_path)
    info = json.loads((tmp_path / 'meta/info.json').read_text())
    episodes = pq.read_table(tmp_path / 'meta/episodes/chunk-000/file-000.parquet').to_pylist()
    assert [row['index'] for e in episodes for row in lerobot_rows(tmp_path, info, e)] == list(
        range(50))
    files = {kind: len(list((tmp_path / kind).rglob('file-000.*'))) for kind in ('data', 'videos')}
    assert files == ({'data': 2, 'videos': 3} if limit == 'TABLE_MB' else
                     {'data': 1, 'videos': 6})


def test_lerobot_statistics_are_of_all_frames_and_of_each_episode(session, tmp_path):
    export_lerobot(sources(session), tmp_path)
    stats = json.loads((tmp_path / 'meta/stats.json').read_text())
    table = pq.read_table(tmp_path / 'data/chunk-000/file-000.parquet')
    episodes = pq.read_table(tmp_path / 'meta/episodes/chunk-000/file-000.parquet').to_pylist()
    action = np.array(table['action'].to_pylist())
    names = ['count', 'max', 'mean', 'min', 'q01', 'q10', 'q50', 'q90', 'q99', 'std']
    assert {key: sorted(of) for key, of in stats.items()} == dict.fromkeys(stats, names)
    for part, of in ((action, {name: stats['action'][name] for name in names}),
                     (action[30:], {name: episodes[1][f'stats/action/{name}'] for name in names})):
        assert of['count'] == [len(part)]
        np.testing.assert_allclose(of['std'], part.std(0), atol=1e-6)
        np.testing.assert_allclose(of['q01'], np.quantile(part, 0.01, 0, method='inverted_cdf'),
                                   atol=1e-6)
        np.testing.assert_allclose(of['q99'], part.max(0), atol=1e-6)
    seen = np.stack([picture(k % 30, 'left_left', 320, 180)[::4, ::4] for k in (0, 15, 30, 45)])
    wanted = seen.reshape(-1, 3) / 255.0
    got = stats['observation.images.left']
    assert (got['count'], np.shape(got['q50'])) == ([4], (3, 1, 1))
    np.testing.assert_allclose(np.ravel(got['mean']), wanted.mean(0), atol=0.01)
    np.testing.assert_allclose(np.ravel(got['std']), wanted.std(0), atol=0.01)


def test_lerobot_episodes_carry_verdict_origin_and_audit(session, tmp_path):
    folder, root = tmp_path / ID, tmp_path / 'out'
    shutil.copytree(session, folder)
    audit = EpisodeAudit('x', 'judge', 'm', 'ok', 'c', 0.1, 0.1, times_s=(0.0, 1.0),
                         phi=(0.0, 0.5))
    write_audit(folder / 'B', audit)
    before = read_session(folder)
    write_session(folder, replace(before, verdict=replace(
        before.verdict, success_b=Success.NO, failure_tags_b='stuck; collision')))
    write_audit(folder / 'A', replace(audit, status='failed', judge='broken'))
    export_lerobot(sources(folder), root)
    a, b = pq.read_table(root / 'meta/episodes/chunk-000/file-000.parquet').to_pylist()
    assert (a['policy'], a['partial_success'], a['success'], a['preference']) == (
        'first policy', 0.25, False, 'B')
    assert (b['policy'], b['success'], b['valid'], b['end_reason'], b['explanation']) == (
        'second', False, True, 'stopped', 'B was surer')
    assert (b['failure_tags'], b['time_to_success_s'], a['failure_tags']) == (
        'stuck; collision', None, '')
    with h5py.File(export_droid(sources(folder)[1], tmp_path / 'droid') / 'trajectory.h5') as file:
        assert not file.attrs['success']
    assert b['bag_sha256'] == hashlib.sha256(
        (folder / 'B' / 'B_0.mcap').read_bytes()).hexdigest() != a['bag_sha256']
    progress = pq.read_table(root / 'sarm_progress.parquet')
    assert progress.schema.metadata[b'reward_model_path'] == b'judge'
    assert (progress['index'].to_pylist(), progress['frame_index'].to_pylist()) == (
        list(range(30, 50)), list(range(20)))
    for head in ('sparse', 'dense'):
        assert progress[f'progress_{head}'].to_pylist() == pytest.approx(
            [min(k / 30, 0.5) for k in range(20)], abs=1e-6)


def test_before_the_reveal_only_the_letters_are_exported(session, tmp_path):
    secret = tmp_path / ID
    shutil.copytree(session, secret)
    data = json.loads((secret / 'session.json').read_text())
    (secret / 'session.json').write_text(json.dumps({**data, 'reveal': None}))
    dump = tmp_path / 'dump'
    assert main(['episode', 'export', str(secret), '--format', 'roboarena', '--output',
                 str(dump)]) == 0
    files = '\n'.join(str(p) + (p.read_text() if p.suffix == '.yaml' else '')
                      for p in sorted(dump.rglob('*')))
    assert 'A_A' in files
    assert 'first policy' not in files
    assert 'second' not in files


def test_a_session_file_that_is_none_is_named(tmp_path):
    (tmp_path / 'session.json').write_text('[1]')
    with pytest.raises(DataError, match='expected a mapping, found a list'):
        read_session(tmp_path)


SESSIONS = 'session_uuid,valid,preference,policy_a,policy_b,created,feedback_text\n'
EPISODES = 'session_uuid,policy,instruction,partial_success,duration_steps,letter\n'


def test_tables_become_records_letters_or_not(tmp_path):
    (tmp_path / 'sessions.csv').write_text(
        SESSIONS + 's1,1,tie,p,q,2025-03-21,fine\ns2,0,,q,r,,\n')
    (tmp_path / 'episodes.csv').write_text(
        EPISODES + 's1,q,do it,0.5,40,\ns1,p,do it,1.0,30,\ns1,z,do it,,10,C\n')
    first, two = read_evaluations(tmp_path).sessions
    assert [(r.policy, r.letter) for r in first.rollouts] == [('q', 'B'), ('p', 'A'), ('z', 'C')]
    record = session_file(first, 'tables')
    assert (record.verdict.preference.value, record.progress('A'), record.slots['B'].steps) == (
        'TIE', 1.0, 40)
    assert record.reveal.policy_b == 'q'
    assert record.other_rollouts[0].policy == 'z'
    assert (two.valid, two.preference, two.prompt) == (False, None, '')


@pytest.mark.parametrize(('text', 'match'), [
    ('session_uuid,valid\n', 'no column preference'),
    (SESSIONS + 's1,1,left,p,q,,\n', "sessions.csv:2: preference is 'left'"),
])
def test_tables_that_cannot_be_read_are_named(tmp_path, text, match):
    (tmp_path / 'sessions.csv').write_text(text)
    with pytest.raises(DataError, match=match):
        read_evaluations(tmp_path / 'sessions.csv')


TRIALS = 'task,model,robot,trials,successes,score\n'


def test_each_independent_trial_is_paired_once_at_its_task_and_robot(tmp_path):
    table = tmp_path / 'board.csv'
    table.write_text(TRIALS + 'hang_cup,p,ur5,10,7,0.8\nhang_cup,q,ur5,10,4,\n'
                     'hang_cup,r,ur5,5,0,\nhang_cup,p,arx5,1,1,0.9\nhang_cup,q,arx5,1,0,0.3\n')
    sessions = read_evaluations(table).sessions
    rows = Counter((s.robot, r.policy, r.success) for s in sessions for r in s.rollouts)
    assert sum(rows.values()) == 2 * len(sessions) == 26    # of 27 one has nobody to meet
    assert all(rows[key] <= most for key, most in {
        ('ur5', 'p', True): 7, ('ur5', 'p', False): 3, ('ur5', 'q', True): 4,
        ('ur5', 'q', False): 6, ('ur5', 'r', False): 5}.items())
    for session in sessions:
        a, b = session.rollouts
        assert session.policies() == {'A': a.policy, 'B': b.policy}
        assert session.preference == (
            None if a.success == b.success else Preference.A if a.success else Preference.B)
        assert a.prompt == 'hang cup'
    assert {r.policy: r.progress for s in sessions if s.robot == 'arx5' for r in s.rollouts} == {
        'p': 0.9, 'q': 0.3}
    assert read_evaluations(table).sessions == sessions


def test_standings_of_trials_are_log_odds_of_success_however_hard_the_tasks(tmp_path, capsys):
    table, hard = tmp_path / 'board.csv', {'easy': (1.5, 'ur5'), 'hard': (-2.0, 'arx5')}
    table.write_text(TRIALS + ''.join(
        f'{task},{model},{robot},4000,{round(4000 * expit(theta + ease))},\n'
        for task, (ease, robot) in hard.items() for model, theta in (('p', 0.5), ('q', -0.5))))
    assert main(['episode', 'import', str(table), '--output', str(tmp_path / 'out')]) == 0
    assert 'says that it holds' not in capsys.readouterr().out
    assert main(['rank', '--sessions', str(tmp_path / 'out' / 'sessions.csv'), '--robots',
                 '--json']) == 0
    report = json.loads(capsys.readouterr().out)
    assert {row['policy']: row['score'] for row in report['standings']} == pytest.approx(
        {'p': 0.5, 'q': -0.5}, abs=0.05)
    assert (set(report['robots']['standings']), report['robots']['pooled']) == (
        {'ur5', 'arx5'}, True)


@pytest.mark.parametrize(('row', 'said'), [
    ('t,p,ur5,10,11,', "trials is '10' and successes '11'; expected whole numbers"),
    ('t,p,ur5,2.5,1,', "trials is '2.5'"), ('t,p,ur5,,1,', "trials is ''"),
    ('t,,ur5,1,1,', "model is ''; expected a name"),
    ('t,p,ur5,1,1,43', "score is '43'; expected a number from 0 to 1")])
def test_trials_that_cannot_be_are_refused(tmp_path, row, said):
    table = tmp_path / 'board.csv'
    table.write_text(TRIALS + row)
    with pytest.raises(DataError, match=rf'board\.csv:2: {re.escape(said)}'):
        read_evaluations(table)


def test_odd_names_and_foreign_folders_are_refused(tmp_path, capsys):
    (tmp_path / 'sessions.csv').write_text(SESSIONS + '../x,1,A,p,q,,\n')
    assert main(['episode', 'import', str(tmp_path), '--output', str(tmp_path / 'out')]) == 2
    assert "session_uuid is '../x'; expected a name" in capsys.readouterr().err
    with pytest.raises(DataError, match='neither a RoboArena data dump'):
        read_evaluations(tmp_path / 'out')
    home = tmp_path / 'dump' / 'evaluation_sessions' / 's'
    home.mkdir(parents=True)
    (home / 'metadata.yaml').write_text('policies: {A: {duration: 3}}')
    with pytest.raises(DataError, match=r'metadata\.yaml: policies are'):
        read_evaluations(tmp_path / 'dump')


@pytest.mark.parametrize(('tables', 'ties'), [
    (SAMPLE, 5), pytest.param(WHOLE, 82, marks=needs_whole)], ids=['sample', 'whole'])
def test_the_real_tables_keep_their_verdicts(tables, ties, tmp_path, capsys):
    assert main(['episode', 'import', str(tables), '--output', str(tmp_path)]) == 0
    sessions = read_evaluations(tables).sessions
    assert sum(s.counts and s.preference.value == 'TIE' for s in sessions) >= ties
    second = read_evaluations(tmp_path).sessions
    assert second == sessions


@pytest.fixture
def pair(pristine, tmp_path):
    for slot in 'AB':
        shutil.copytree(pristine, tmp_path / 'session' / slot)
    return tmp_path / 'session'


def content(folder):
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob('*'))
            if p.is_file() and p.suffix not in ('.h5', '.npz')}


def test_derive_and_check_with_two_jobs(pair, capsys):
    assert main(['episode', 'derive', str(pair)]) == 0
    alone, printed = content(pair), capsys.readouterr().out
    assert main(['episode', 'derive', '--jobs', '2', str(pair)]) == 0
    assert content(pair) == alone
    assert capsys.readouterr().out == printed
    reports = []
    for jobs in ('1', '2'):
        main(['episode', 'check', '--json', '--jobs', jobs, str(pair)])
        reports.append(json.loads(capsys.readouterr().out))
    assert reports[0] == reports[1]
    assert [r['folder'] for r in reports[0]] == [str(pair / slot) for slot in 'AB']


@pytest.mark.parametrize('layout', [
    'roboarena', pytest.param('droid', marks=LONG), pytest.param('lerobot', marks=LONG)])
def test_export_with_two_jobs(layout, pristine, tmp_path, capsys):
    places = []
    for n in range(2):
        for slot in 'AB':
            shutil.copytree(pristine, tmp_path / f's{n}' / slot)
        places.append(str(tmp_path / f's{n}'))
    for jobs in ('1', '2'):
        assert main(['episode', 'export', *places, '--format', layout, '--output',
                     str(tmp_path / jobs), '--jobs', jobs]) == 0
    first, second = content(tmp_path / '1'), content(tmp_path / '2')
    assert first.keys() == second.keys()
    assert {k: v for k, v in first.items() if not k.endswith('.mp4')} == {
        k: v for k, v in second.items() if not k.endswith('.mp4')}
    assert '4 episodes exported' in capsys.readouterr().out


@pytest.mark.parametrize('jobs', ['1', '2'])
def test_an_export_that_fails_leaves_no_half_written_session(jobs, pristine, tmp_path, capsys):
    places = []
    for name in ('whole', 'broken'):
        shutil.copytree(pristine, tmp_path / name / 'A')
        places.append(str(tmp_path / name))
    shutil.copytree(pristine, tmp_path / 'broken' / 'B')
    for file in (tmp_path / 'broken' / 'B').glob('*.mcap'):
        file.write_bytes(file.read_bytes()[:1000])
    for file in (*(tmp_path / 'broken' / 'B').glob('*.npz'),
                 *(tmp_path / 'broken' / 'B').glob('*.mp4')):
        file.unlink()
    output = tmp_path / 'dump'
    assert main(['episode', 'export', *places, '--format', 'roboarena', '--output', str(output),
                 '--jobs', jobs]) != 0
    sessions = output / 'evaluation_sessions'
    assert all((folder / 'metadata.yaml').exists() for folder in sessions.glob('*'))
    assert not (sessions / 'broken').exists()
    assert {folder.name for folder in output.iterdir()} <= {'evaluation_sessions',
                                                            'global_metadata.yaml'}
