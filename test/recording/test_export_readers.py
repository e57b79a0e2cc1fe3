"""Exports have the recorded rate and robot, and are read by the code of who made the formats."""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import av
import h5py
import numpy as np
import pyarrow.parquet as pq
import pytest
from sample_episodes import (
    MountedMaker,
    SampleEpisode,
    SampleMaker,
    picture,
    random_arm,
    rerun_rows,
)

from arena_robot.cli.main import main
from arena_robot.core.episode import Preference
from arena_robot.core.errors import DataError
from arena_robot.core.verdict import Verdict
from arena_robot.recording.bag.base import share_folders
from arena_robot.recording.bag.codec import Codec
from arena_robot.recording.bag.reader import BagReader
from arena_robot.recording.episode.clip import read_clip
from arena_robot.recording.formats.droid import export_droid
from arena_robot.recording.formats.exporting import EpisodeExport, sources
from arena_robot.recording.formats.lerobot import export_lerobot
from arena_robot.recording.formats.lerobot_episodes import import_lerobot, read_lerobot
from arena_robot.records.audit_file import EpisodeAudit, write_audit
from arena_robot.records.session_file import SessionFile, read_session, write_session

ID = SampleEpisode().session_id
POSES = {'left': ('fr3_link0', (0.4, 0.6, 0.5, -2.0, 0.1, 0.3)),
         'right': ('fr3_link0', (0.4, -0.6, 0.5, -2.0, 0.1, 0.3)),
         'wrist': ('fr3_link8', (0.07, 0.02, 0.05, 0.1, -0.2, 1.5))}
SERIALS = {'left': '20000001', 'right': '20000002', 'wrist': '10000003'}


@pytest.fixture(scope='module')
def slow(message_folders, tmp_path_factory):
    """Return a session of an FR3 at 10 Hz with numbered, calibrated cameras, one episode long."""
    folder = tmp_path_factory.mktemp('slow') / ID
    sample = SampleEpisode(steps=12, robot='fr3', rate_hz=10.0, width=64, height=36,
                           cameras=('cam_l', 'cam_r', 'cam_w'))
    MountedMaker(sample, share_folders(), POSES, SERIALS).write(folder / 'A')
    write_session(folder, SessionFile(ID, station='lab', evaluator='e1', created='2026',
                                      verdict=Verdict(0.25, 1.0, preference=Preference.B,
                                                      explanation='B was surer')))
    return folder


def test_exports_tell_the_rate_and_the_robot_that_were_recorded(slow, session, tmp_path):
    videos = []
    for layout in ('droid', 'roboarena', 'lerobot'):
        assert main(['episode', 'export', str(slow), '--format', layout, '--output',
                     str(tmp_path / layout)]) == 0
        videos += (tmp_path / layout).rglob('*.mp4')
    assert len(videos) == 9
    for path in videos:
        with av.open(str(path)) as video:
            assert video.streams.video[0].average_rate == 10
            assert [frame.time for frame in video.decode(video=0)] == pytest.approx(
                [k / 10 for k in range(12)], abs=1e-4)
    info = json.loads((tmp_path / 'lerobot/meta/info.json').read_text())
    assert (info['fps'], info['robot_type'], info['features']['action']['fps']) == (10, 'fr3', 10)
    with h5py.File(tmp_path / 'droid' / f'{ID}_A' / 'trajectory.h5') as file:
        assert (file.attrs['control_rate_hz'], file.attrs['robot_serial_number']) == (10, 'fr3')
    both = export_lerobot([*sources(slow), *sources(session)], tmp_path / 'both')
    assert [folder.name for folder in both] == ['fr3_10hz', 'panda_15hz']


def test_pictures_of_another_size_are_refused_in_one_dataset(slow, message_folders, tmp_path):
    sample = SampleEpisode(steps=12, robot='fr3', rate_hz=10.0, width=96, height=36)
    SampleMaker(sample, message_folders).write(tmp_path / 'other' / 'A')
    with pytest.raises(DataError, match=r'other/A has .* of another size'):
        export_lerobot([*sources(slow), *sources(tmp_path / 'other')], tmp_path / 'out')


def test_a_droid_export_has_what_droids_readers_look_up(slow, tmp_path):
    """The keys are those that its code asks for; `foreign_readers.py` runs that code."""
    folder = export_droid(sources(slow)[0], tmp_path)
    with h5py.File(folder / 'trajectory.h5') as file:
        observation = file['observation']
        kinds = {serial: kind[0] for serial, kind in observation['camera_type'].items()}
        assert kinds == {'20000001': 1, '20000002': 1, '10000003': 0}
        videos = folder / 'recordings' / 'MP4'
        assert {path.stem for path in videos.glob('*.mp4')} == set(kinds)
        for serial in kinds:
            stamps = json.loads((videos / f'{serial}_timestamps.json').read_text())
            assert stamps == observation['timestamp/cameras'][f'{serial}_frame_received'][
                :].tolist()
            for eye in ('left', 'right'):
                assert observation['camera_extrinsics'][f'{serial}_{eye}'].shape == (12, 6)
                assert observation['camera_intrinsics'][f'{serial}_{eye}'][3].tolist() == [
                    [200, 0, 160], [0, 200, 90], [0, 0, 1]]
        assert (file.attrs['user'], file.attrs['success']) == ('e1', False)
        assert file['action/joint_position'].shape == (12, 7)
    about = json.loads((folder / f'metadata_{ID}.json').read_text())
    assert (about['wrist_cam_serial'], about['ext1_cam_serial'], about['left_mp4_path']) == (
        '10000003', '20000001', 'recordings/MP4/20000001.mp4')
    assert about['ext2_cam_extrinsics'] == pytest.approx(POSES['right'][1])


def test_a_lerobot_dataset_comes_back_as_the_episodes_that_were_exported(session, tmp_path,
                                                                          capsys):
    export_lerobot(sources(session), tmp_path / 'set')
    words = ['episode', 'import', str(tmp_path / 'set'), '--output', str(tmp_path / 'back')]
    assert main([*words, '--json']) == 0
    back = tmp_path / 'back' / ID
    assert json.loads(capsys.readouterr().out)['written'] == [str(back / 'A'), str(back / 'B')]
    made, kept = read_session(back), read_session(session)
    assert made.verdict == replace(kept.verdict, progress_a=0.25, progress_b=1.0)
    assert (made.reveal.policy_a, made.comparison().preference) == ('first policy', Preference.B)
    for slot in 'AB':
        with EpisodeExport(sources(session / slot)[0]) as a, \
                EpisodeExport(sources(back / slot)[0]) as b:
            assert (b.prompt, b.rate_hz, b.robot) == (a.prompt, 15.0, 'panda')
            assert b.tracks.steps.requested == pytest.approx(a.tracks.steps.requested, abs=1e-6)
            for name in ('joint_position', 'gripper_position'):
                assert b.observed()[name] == pytest.approx(a.observed()[name], abs=1e-6)
            assert b.views() == a.views()
        before, after = read_clip(session / slot), read_clip(back / slot)
        assert len(after) == pytest.approx(len(before), abs=3)
        assert after.frames['wrist'][0].mean() == pytest.approx(
            before.frames['wrist'][0].mean(), abs=2.0)
    assert main(words) == 2
    assert 'holds a session already' in capsys.readouterr().err


def test_a_dataset_of_another_robot_can_be_looked_at(slow, tmp_path):
    root = export_lerobot([*sources(slow), *sources(slow)], tmp_path / 'so101')[0]
    info = json.loads((root / 'meta/info.json').read_text())
    del info['action_space']
    info['features']['observation.images.hand_eye'] = info['features'].pop(
        'observation.images.wrist')
    (root / 'videos/observation.images.wrist').rename(root / 'videos/observation.images.hand_eye')
    rows = root / 'meta/episodes/chunk-000/file-000.parquet'
    table = pq.read_table(rows).drop_columns(['session_id', 'slot', 'policy', 'end_reason'])
    pq.write_table(table.rename_columns([name.replace('.wrist', '.hand_eye')
                                         for name in table.column_names]), rows)
    (root / 'meta/info.json').write_text(json.dumps({**info, 'robot_type': 'so101_follower'}))
    written = import_lerobot(read_lerobot(root), tmp_path / 'back')
    assert [folder.parent.name for folder in written] == ['so101_000000', 'so101_000001']
    for folder in written:
        clip = read_clip(folder)
        assert clip.instruction == SampleEpisode().prompt
        assert clip.frames['wrist'][-1].mean() == pytest.approx(
            picture(11, 'wrist_left', 64, 36).mean(), abs=4.0)
        with EpisodeExport(sources(folder)[0]) as episode:
            assert len(episode.tracks.arm.stamps) == 0
            assert np.isnan(episode.tracks.steps.q_sent).all()
    if importlib.util.find_spec('rerun'):
        assert main(['view', str(folder), '--out', str(tmp_path / 'a.rrd'), '--no-open']) == 0
        rows = rerun_rows(tmp_path / 'a.rrd')
        assert len(rows['/A/asked/number_8', 'Scalars:scalars']) == 12
        assert ('/A/gripper/asked', 'Scalars:scalars') not in rows
    (root / 'meta/info.json').write_text(json.dumps({**info, 'codebase_version': 'v2.1'}))
    with pytest.raises(DataError, match=r'LeRobotDataset v2\.1; v3 is read'):
        read_lerobot(root)


def test_an_episode_of_an_arm_without_a_file_is_derived_checked_and_exported(
        tmp_path, message_folders, capsys):
    robot, folder = random_arm(6, 1), tmp_path / ID
    SampleMaker(SampleEpisode(steps=12, robot=robot, width=64, height=36, layout='made/percent'),
                message_folders).write(folder / 'A')
    write_session(folder, SessionFile(ID, station='lab', created='2026'))
    assert main(['episode', 'derive', str(folder / 'A')]) == 0
    with np.load(folder / 'A' / 'steps.npz') as arrays:
        assert arrays['joint_names'].tolist() == robot.joint_names()
        assert arrays['joint_position'].shape == arrays['q_sent'].shape == (12, 6)
    assert main(['episode', 'check', str(folder / 'A')]) == 0
    for layout in ('droid', 'roboarena', 'lerobot'):
        assert main(['episode', 'export', str(folder), '--format', layout, '--output',
                     str(tmp_path / layout)]) == 0
    with h5py.File(tmp_path / 'droid' / f'{ID}_A' / 'trajectory.h5') as file:
        assert file['action/joint_position'].shape == (12, 6)
    info = json.loads((tmp_path / 'lerobot/meta/info.json').read_text())
    assert (info['robot_type'], info['features']['action']['names']) == (
        'made', [*(f'joint_{i}' for i in range(1, 7)), 'gripper'])
    back, = import_lerobot(read_lerobot(tmp_path / 'lerobot'), tmp_path / 'back')
    with EpisodeExport(sources(folder / 'A')[0]) as a, EpisodeExport(sources(back)[0]) as b:
        assert (a.robot, a.chain, b.robot) == ('made', None, 'made')
        assert b.observed()['joint_position'] == pytest.approx(a.observed()['joint_position'],
                                                               abs=1e-6)
    capsys.readouterr()
    assert main(['view', str(folder), '--foxglove', '--out', str(tmp_path / 'view')]) == 0
    layout_file = (tmp_path / 'view' / 'layout.json').read_text()
    assert 'q_sent[5]' in layout_file
    assert 'q_sent[6]' not in layout_file
    if importlib.util.find_spec('rerun'):
        assert main(['view', str(folder), '--out', str(tmp_path / 'a.rrd'), '--no-open']) == 0
        rows = rerun_rows(tmp_path / 'a.rrd')
        assert len(rows['/A/joints/joint_6/accepted', 'Scalars:scalars']) == 12
        assert not [entity for entity, _ in rows if '/chunks/' in entity], 'they are in a layout'


def test_rerun_reads_every_entity_of_a_session(session, tmp_path, capsys):
    folder, path = tmp_path / ID, tmp_path / 'view.rrd'
    shutil.copytree(session, folder)
    write_audit(folder / 'A', EpisodeAudit('x', 'judge', 'm', 'ok', 'c', 0.1, 0.1,
                                           times_s=(0.0, 1.5), phi=(0.25, 1.0)))
    pytest.importorskip('rerun', reason="pip install 'droid-arena[rerun]'")
    assert main(['view', str(folder), '--out', str(path), '--no-open', '--json']) == 0
    assert json.loads(capsys.readouterr().out)['rollouts'] == ['A', 'B']
    rows = rerun_rows(path)
    joints = [f'joint_{k}' for k in range(1, 8)]
    every = {f'cameras/{role}_left' for role in SERIALS} | {'arm', 'motion', 'log'} | {
        f'joints/{joint}/{kind}' for joint in joints for kind in ('measured', 'asked', 'accepted')
    } | {f'gripper/{kind}' for kind in ('measured', 'asked', 'accepted')} | {
        f'chunks/{name}' for name in (*joints, 'gripper')} | {
        f'latency/{name}' for name in ('loop', 'inference', 'late', 'observation_age', 'skew')}
    assert {entity for entity, _ in rows} == {'/verdict', '/__properties', '/A/progress/judge'} | {
        f'/{slot}/{name}' for slot in 'AB' for name in every}
    with EpisodeExport(sources(folder / 'A')[0]) as episode:
        steps = episode.tracks.steps
        for kind, values in (('asked', steps.requested), ('accepted', steps.q_sent)):
            seconds, written = zip(*rows[f'/A/joints/joint_3/{kind}', 'Scalars:scalars'],
                                   strict=True)
            assert written == pytest.approx(values[:, 2])
            assert seconds == pytest.approx((steps.stamps - steps.stamps[0]) * 1e-9, abs=1e-6)
        kept = next(value for _, value in episode.bag.decoded(
            episode.codec, [episode.tracks.views['wrist_left'].topic.name]))
    assert bytes(rows['/A/cameras/wrist_left', 'EncodedImage:blob'][0][1]) == bytes(kept.data)
    for slot, count in (('A', 30), ('B', 20)):
        accepted = rows[f'/{slot}/joints/joint_1/accepted', 'Scalars:scalars']
        assert (accepted[0][0], len(accepted)) == (0.0, count)
        clamped = [text for _, text in rows[f'/{slot}/log', 'TextLog:text']]
        assert clamped[:2] == ['step 0: step_limit', 'step 10: step_limit']
        assert clamped[-1] == 'ended: stopped.'
    assert rows['/A/progress/judge', 'Scalars:scalars'] == [(0.0, 0.25), (1.5, 1.0)]
    assert ('Explanation: B was surer' in
            [text for _, text in rows['/verdict', 'TextLog:text']])


def test_chunks_are_shown_whole_and_cameras_where_they_are(slow, tmp_path):
    pytest.importorskip('rerun', reason="pip install 'droid-arena[rerun]'")
    assert main(['view', str(slow / 'A'), '--out', str(tmp_path / 'a.rrd'), '--no-open']) == 0
    rows = rerun_rows(tmp_path / 'a.rrd')
    asked = rows['/A/chunks/gripper', 'Scalars:scalars']
    assert [seconds for seconds, _ in asked] == pytest.approx([k / 10 for k in range(16)])
    place = '/A/cameras/left_left'
    assert rows[place, 'Transform3D:translation'][0][1] == pytest.approx(POSES['left'][1][:3])
    assert rows[place, 'Pinhole:image_from_camera'][0][1][:1] == [200]
    assert len(rows['/A/cameras/wrist_left', 'Transform3D:translation']) == 12


def test_rerun_gets_what_is_new_at_a_station(tmp_path):
    pytest.importorskip('rerun', reason="pip install 'droid-arena[rerun]'")
    from arena_robot.recording.formats.rerun_file import LiveRerun
    seen = {'words': 'idle', 'left': b'one', 'right': None}
    live = LiveRerun(lambda: {view: seen[view] for view in ('left', 'right')},
                     lambda: np.arange(7.0), lambda: seen['words'], str(tmp_path / 'live.rrd'))
    live.open()
    for change in ({}, {'left': b'two'}, {'words': 'done'}):
        seen |= change
        live.send()
    live.close()
    rows = rerun_rows(tmp_path / 'live.rrd')
    assert [bytes(jpeg) for _, jpeg in rows['/cameras/left', 'EncodedImage:blob']] == [
        b'one', b'two']
    assert [text for _, text in rows['/session', 'TextLog:text']] == ['idle', 'done']
    assert {entity for entity, _ in rows} == {
        '/cameras/left', '/session', *(f'/joints/joint_{k}' for k in range(1, 8))}
    assert {value for _, value in rows['/joints/joint_3', 'Scalars:scalars']} == {2.0}


def test_foxglove_shows_both_rollouts_beside_each_other(session, tmp_path, capsys):
    out = tmp_path / 'view'
    assert main(['view', str(session), '--foxglove', '--out', str(out), '--json']) == 0
    said = json.loads(capsys.readouterr().out)
    panels = json.loads(Path(said['layout']).read_text())['configById']
    paths = [path['value'].split('.') for panel in panels.values()
             for path in panel.get('paths', ())]
    with BagReader(out) as bag:
        for slot in 'AB':
            asked = {panel['imageMode']['imageTopic'] for name, panel in panels.items()
                     if name.startswith(f'Image!{slot}')}
            assert len(asked) == len(SERIALS)
            assert asked <= set(bag.topics)
        codec, begins = Codec(), {}
        for message in bag.messages():
            begins.setdefault(message.topic, message)
        for topic, field in paths:
            value = codec.decode(bag.topics[topic], begins[topic].data)
            assert hasattr(value, field.partition('[')[0]), (topic, field)
    steps = [topic for topic in begins if topic.endswith('/step')]
    assert {topic[:3] for topic in steps} == {'/A/', '/B/'}
    assert len({begins[topic].log_ns for topic in steps}) == 1, 'both begin at once'
    assert {f'/{slot}/{part}' for slot in 'AB' for part in ('arm', 'gripper')} <= {
        topic.replace('_node', '').rpartition('/')[0] for topic, _ in paths}
    assert main(['view', str(session), '--foxglove', '--out', str(out)]) == 2, 'it exists'


def test_a_blind_session_is_not_viewed_with_names(slow, session, tmp_path, capsys):
    pytest.importorskip('rerun', reason="pip install 'droid-arena[rerun]'")
    path = tmp_path / 'view.rrd'
    words = ['--out', str(path), '--no-open']
    assert main(['view', str(slow), *words, '--names']) == 2
    assert f'session {ID} is blind' in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
    assert main(['view', str(session), *words]) == 0
    assert b'first policy' not in path.read_bytes()
    assert main(['view', str(session), *words, '--names']) == 0
    assert b'first policy' in path.read_bytes()


def foreign(python, verb, place, checkout='', modules=''):
    """Return what `foreign_readers.py` prints; skip where it has not what it needs."""
    peers = os.environ.get('ARENA_PEERS', '')
    if checkout and not Path(peers, checkout).is_dir():
        pytest.skip(f'ARENA_PEERS names no folder with a checkout of {checkout}')
    if not python or subprocess.run([python, '-c', f'import {modules}'], check=False,
                                    capture_output=True, timeout=60).returncode:
        pytest.skip(f'ARENA_LEROBOT names no Python that has {modules}')
    done = subprocess.run(
        [python, Path(__file__).with_name('foreign_readers.py'), verb, place, peers],
        check=False, timeout=240, capture_output=True, text=True, env={
            **os.environ, 'HF_HUB_OFFLINE': '1'})
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.timeout(300)
def test_droids_own_readers_read_an_export(slow, tmp_path):
    export_droid(sources(slow)[0], tmp_path)
    found = foreign(sys.executable, 'droid', tmp_path, 'droid', 'cv2')
    read = found[f'{ID}_A']
    assert (read['length'], read['parsed'], read['with_pictures']) == (12, True, 72)
    assert read['record']['ext1_cam_serial'] == '20000001'
    assert read['cameras'] == {'hand_camera': 2, 'varied_camera': 4}
    assert read['state'] == [6 + 1 + 7 + 7 + 8 * 6 + 6 * 9]
    for serial, role in zip(SERIALS.values(), SERIALS, strict=True):
        for eye in ('left', 'right'):
            *shape, light = read['pictures'][f'{serial}_{eye}']
            assert shape == [36, 64, 3]
            assert light == pytest.approx(picture(11, f'{role}_{eye}', 64, 36).mean(), abs=4.0)


@pytest.mark.timeout(300)
def test_lerobot_loads_a_dataset_and_draws_a_batch(session, tmp_path):
    folder, root = tmp_path / ID, tmp_path / 'out'
    shutil.copytree(session, folder)
    write_audit(folder / 'A', EpisodeAudit('x', 'judge', 'm', 'ok', 'c', 0.1, 0.1,
                                           times_s=(0.0, 2.0), phi=(0.0, 1.0)))
    export_lerobot(sources(folder), root)
    read = foreign(os.environ.get('ARENA_LEROBOT'), 'lerobot', root, modules='lerobot')
    assert (read['fps'], read['robot'], read['frames'], read['episodes']) == (15, 'panda', 50, 2)
    assert read['shapes']['action'] == [4, 4, 8]
    assert read['shapes']['observation.images.wrist'] == [4, 3, 180, 320]
    assert read['tasks'] == [SampleEpisode().prompt] * 50
    assert 'q99' in read['stats']['observation.images.wrist']
    assert read['progress']['num_frames'] == 30
    for k, light in enumerate(read['light']):
        made = picture(k % 30, 'left_left', 320, 180).mean() / 255.0
        assert light['observation.images.left'] == pytest.approx(made, abs=0.01)


@pytest.mark.timeout(300)
def test_lerobots_act_learns_from_a_dataset(session, tmp_path):
    export_lerobot(sources(session), tmp_path)
    losses = foreign(os.environ.get('ARENA_LEROBOT'), 'lerobot_training', tmp_path,
                     modules='lerobot')
    assert len(losses) == 10
    assert np.mean(losses[-3:]) < np.mean(losses[:3])


@pytest.mark.timeout(300)
def test_lerobots_own_tool_draws_a_dataset(session, tmp_path):
    export_lerobot(sources(session), tmp_path)
    drawn = foreign(os.environ.get('ARENA_LEROBOT'), 'lerobot_viz', tmp_path, modules='lerobot')
    for name in ('action', 'state'):
        assert {f'/{name}/{number}' for number in range(8)} <= set(drawn)
    assert {f'/observation.images.{role}' for role in ('left', 'right', 'wrist')} <= set(drawn)


@pytest.mark.timeout(300)
def test_roboarenas_server_takes_a_dump_and_lists_it(session, tmp_path):
    assert main(['episode', 'export', str(session), '--format', 'roboarena', '--output',
                 str(tmp_path)]) == 0
    read = foreign(os.environ.get('ARENA_LEROBOT'), 'roboarena', tmp_path, 'roboarena_backend',
                   'flask_cors, sqlalchemy, pandas')
    assert [answer.get('status') for answer in read['answers']] == [
        'success', 'success', 'terminated']
    listed, = read['listed']
    assert (listed['session_id'], listed['preference'], listed['longform_feedback']) == (
        ID, 'B', 'B was surer')
    assert listed['language_instruction'] == SampleEpisode().prompt
    for slot, name, score in (('A', 'first_policy', 0.25), ('B', 'second', 1.0)):
        policy = listed[f'policy{slot}']
        assert (policy['name'], policy['partial_success']) == (name, score)
        assert policy['wrist_video_url'].endswith('_video_wrist.mp4')
