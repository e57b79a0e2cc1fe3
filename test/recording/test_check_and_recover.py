"""Sound episodes pass; every kind of damage is named; what can be saved is saved."""

import dataclasses
import json
import shutil

import pytest
import sample_episodes as sample

from arena_robot.cli.main import main
from arena_robot.core.errors import DataError, RecordingError
from arena_robot.recording.bag import metadata
from arena_robot.recording.bag.reader import BagReader
from arena_robot.recording.bag.recover import cut_off, is_complete, recover, underived
from arena_robot.recording.bag.writer import BagWriter
from arena_robot.recording.episode.check import CheckLimits, FindingLevel, check
from arena_robot.recording.episode.derive import derive
from arena_robot.records.episode_file import episodes


def rewrite(pristine, folder, change=lambda m: m, custom=None):
    """Write the sample again with each message changed, or left out where ``change`` is None."""
    with BagReader(pristine) as bag, BagWriter(folder, custom or {'slot': 'A'}) as out:
        for topic in bag.topics.values():
            out.add_topic(topic)
        for message in bag.messages():
            changed = change(message)
            if changed is not None:
                out.write(changed)
    return folder


def failures(report):
    return {f.what: f.text for f in report.findings if f.level is FindingLevel.FAILURE}


def warnings(report):
    return {f.what: f.text for f in report.findings if f.level is FindingLevel.WARNING}


def journal(folder, *moves):
    lines = [json.dumps({'n': n, 't': n, 'move': move, 'data': data})
             for n, (move, data) in enumerate(moves)]
    (folder.parent / 'journal.jsonl').write_text('\n'.join([*lines, '{"n": 9, torn']))


def test_a_sound_episode_passes_with_all_its_files(episode):
    derive(episode)
    journal(episode, ('started_a', {}), ('ended', {'steps': 30, 'end': 'stopped'}))
    report = check(episode)
    assert report.passed
    assert not warnings(report)
    assert {f.what for f in report.findings} >= {
        'bag', 'topics', 'steps', 'episode info', 'chunks', 'losses', 'arm rate', 'decoding',
        'stamps', 'journal', 'episode.json', 'steps.npz', 'wrist.mp4', 'pictures wrist_left'}


def test_an_eye_that_is_not_used_is_no_warning_and_one_that_is_used_is(pristine, message_folders,
                                                                       tmp_path, monkeypatch):
    monkeypatch.setattr(sample, 'VIEWS', ('left_left', 'wrist_left'))
    maker = sample.SampleMaker(sample.SampleEpisode(), message_folders)
    folder = tmp_path / 'A'
    with BagWriter(folder, {'slot': 'A'}) as out:
        topics = maker.topics()
        spare = topics[maker.jpeg_topic('left_left')]
        for topic in (*topics.values(),
                      dataclasses.replace(spare, name=maker.jpeg_topic('left_right'))):
            out.add_topic(topic)
        for message in maker.messages():
            out.write(message)
    assert {f.what for f in check(folder).findings if f.what.startswith('rate')} == {
        'rate left_left', 'rate wrist_left'}
    silent = rewrite(pristine, tmp_path / 'B', lambda m: None if (
        m.topic == maker.jpeg_topic('wrist_left')) else m)
    assert 'rate wrist_left' in warnings(check(silent))


def test_lost_messages_are_seen_in_the_senders_count(pristine, tmp_path):
    folder = rewrite(pristine, tmp_path / 'A', lambda m: None if (
        m.topic == '/arm_node/arm_state' and 100 < m.sequence <= 103) else m)
    assert '3 of 400 messages were lost' in failures(check(folder))['losses']


def test_what_the_recorder_lost_is_not_forgotten(pristine, tmp_path):
    counted = {'/joint_states': {'received': 403, 'written': 400, 'lost': 3}}
    folder = rewrite(pristine, tmp_path / 'A', custom={'statistics': json.dumps(counted)})
    assert '/joint_states: 3 of 403' in failures(check(folder))['losses']


def test_a_picture_that_was_used_and_is_missing(pristine, tmp_path):
    seen = []

    def drop(message):
        if '/wrist/zed_node/left' in message.topic:
            seen.append(message)
            if len(seen) == 20:
                return None
        return message

    findings = failures(check(rewrite(pristine, tmp_path / 'A', drop)))
    assert '1 pictures used by steps' in findings['pictures wrist_left']


def test_steps_that_do_not_follow_from_the_chunks(pristine, tmp_path):
    folder = rewrite(pristine, tmp_path / 'A', lambda m: None if (
        m.topic == '/session_node/action_chunk' and m.sequence == 2) else m)
    assert '8 steps do not follow' in failures(check(folder))['chunks']


def test_a_missing_step_breaks_the_numbering(pristine, tmp_path):
    folder = rewrite(pristine, tmp_path / 'A', lambda m: None if (
        m.topic == '/session_node/step' and m.sequence == 11) else m)
    findings = failures(check(folder))
    assert 'numbered 0 to 29, 29 of them' in findings['step numbers']
    assert '30 steps, 29 were recorded' in findings['episode info']


def test_stamps_that_run_backwards_and_broken_bytes(pristine, tmp_path):
    earlier = []

    def swap(message):
        if message.topic == '/joint_states' and message.sequence == 50:
            earlier.append(message)
        if message.topic == '/joint_states' and message.sequence == 60:
            return message._replace(data=earlier[0].data)
        if message.topic == '/gripper_node/gripper_state' and message.sequence == 4:
            return message._replace(data=message.data[:20])
        return message

    with BagReader(rewrite(pristine, tmp_path / 'A', swap)) as bag:
        folder = bag.folder
    findings = failures(check(folder))
    assert 'gripper_state' in findings.get('decoding', findings.get('bag', ''))
    shared = rewrite(pristine, tmp_path / 'C', lambda m: swap(m)._replace(
        sequence=1 + m.sequence % 7) if 'joint' in m.topic else m)
    assert 'stamps' not in failures(check(shared))
    only_swap = rewrite(pristine, tmp_path / 'B', lambda m: swap(m) if 'joint' in m.topic else m)
    assert '/joint_states runs backwards 1 times' in failures(check(only_swap))['stamps']


def test_limits_are_limits(episode):
    report = check(episode, CheckLimits(min_arm_hz=500.0, max_skew_p99_s=0.001))
    assert 'wanted 500 Hz' in warnings(report)['arm rate']
    assert 'arm rate' in failures(check(episode, CheckLimits(fail_arm_hz=300.0)))
    assert 'arm rate' in failures(check(episode, CheckLimits(fail_arm_gap_s=0.001)))
    assert 'wanted 1 ms' in warnings(report)['camera to arm skew']
    assert 'arena episode derive' in warnings(report)['derived']


def test_a_camera_that_is_late_for_a_part_of_the_rollout_is_named(pristine, tmp_path):
    def late_from(tick):
        return lambda m: m._replace(log_ns=m.log_ns + 300_000_000) if (
            '/left/zed_node/left/' in m.topic
            and m.log_ns >= sample.SampleEpisode().start_ns + tick * sample.TICK_NS) else m
    findings = warnings(check(rewrite(pristine, tmp_path / 'A', late_from(25))))
    assert findings['lag left_left'] == ('4 of 30 pictures were 302 ms old when they came '
                                         '(wanted 200 ms)')
    assert not [name for name in findings if name.startswith('lag') and name != 'lag left_left']
    few = warnings(check(rewrite(pristine, tmp_path / 'B', late_from(27))))
    assert 'lag left_left' not in few


@pytest.mark.parametrize(('moves', 'text'), [
    ([('started_a', {}), ('ended', {'steps': 29, 'end': 'stopped'})], '29 steps in the journal'),
    ([('started_a', {}), ('ended', {'steps': 30, 'end': 'timeout'})], "ended 'timeout'"),
    ([('started_b', {}), ('ended', {'steps': 30, 'end': 'stopped'})], 'does not say how slot A'),
    ([('started_a', {}), ('ended', {})], 'is damaged'),
])
def test_a_journal_that_tells_another_story(episode, moves, text):
    journal(episode, *moves)
    assert text in failures(check(episode))['journal']


def test_derived_files_of_another_bag_are_noticed(episode):
    derive(episode, videos=False)
    summary = json.loads((episode / 'episode.json').read_text())
    summary['bag']['messages'] += 1
    (episode / 'episode.json').write_text(json.dumps(summary))
    (episode / 'steps.npz').write_bytes(b'PK')
    (episode / 'wrist.mp4').write_bytes(b'no video')
    assert failures(check(episode)).keys() == {'episode.json', 'steps.npz', 'wrist.mp4'}


def test_a_cut_bag_is_recovered_up_to_the_cut(episode):
    file = next(episode.glob('*.mcap'))
    whole = file.read_bytes()
    file.write_bytes(whole[:len(whole) * 9 // 10])
    (episode / 'metadata.yaml').unlink()
    assert 'arena episode recover' in failures(check(episode))['bag']
    assert not is_complete(episode)
    damaged = file.read_bytes()
    saved = recover(episode)
    assert saved.folder == episode
    assert (saved.damaged / 'A_0.mcap').read_bytes() == damaged
    assert saved.damaged.name == 'A_damaged'
    with BagReader(episode) as bag:
        messages = list(bag.messages())
        assert bag.metadata.custom['session_id']
        assert bag.metadata.custom['recovered_from'] == 'A_0.mcap'
    assert len(messages) == saved.messages > 0
    assert 'recovered' in warnings(check(episode))


def test_recovery_elsewhere_leaves_the_folder_alone(episode, tmp_path):
    (episode / 'metadata.yaml').unlink()
    saved = recover(episode, tmp_path / 'mended')
    assert saved.folder == tmp_path / 'mended'
    assert (saved.folder / 'A_0.mcap').exists()
    assert not (episode / 'metadata.yaml').exists()
    with pytest.raises(RecordingError, match='never overwritten'):
        recover(episode, tmp_path / 'mended')


def test_what_nobody_finished_is_found_and_what_is_being_written_is_left_alone(episode, tmp_path):
    sessions = tmp_path / 'sessions'
    for name in ('s-1', 's-2', 's-3'):
        shutil.copytree(episode, sessions / name / 'A')
    (sessions / 's-1' / 'A' / 'metadata.yaml').unlink()
    (sessions / 's-2' / 'A' / 'episode.json').unlink(missing_ok=True)
    (sessions / 's-3' / 'A' / 'episode.json').write_text('{}')
    growing = BagWriter(sessions / 's-4' / 'A', {})
    growing.open()
    assert cut_off(sessions) == [sessions / 's-1' / 'A']
    assert underived(sessions, 3600.0) == [sessions / 's-2' / 'A']
    assert underived(sessions, -3600.0) == []
    with pytest.raises(RecordingError, match='being recorded or recovered'):
        recover(sessions / 's-4' / 'A')
    growing.close()
    assert cut_off(sessions / 'none') == []


def test_nothing_to_recover_is_said(tmp_path):
    (tmp_path / 'A').mkdir()
    with pytest.raises(RecordingError, match=r'no \.mcap file'):
        recover(tmp_path / 'A')
    (tmp_path / 'A' / 'A_0.mcap').write_bytes(b'\x89MCAP0\r\n')
    with pytest.raises(RecordingError, match='nothing can be read'):
        recover(tmp_path / 'A')
    assert [p.name for p in tmp_path.iterdir()] == ['A']


def test_a_bag_of_two_files_is_recovered_in_order(episode, pristine, tmp_path):
    with BagReader(pristine) as bag, BagWriter(tmp_path / 'A') as out:
        for topic in bag.topics.values():
            out.add_topic(topic)
        for k, message in enumerate(bag.messages()):
            if k == 500:
                out.split(message.log_ns)
            out.write(message)
    (tmp_path / 'A' / 'metadata.yaml').unlink()
    assert recover(tmp_path / 'A').messages == metadata.read(pristine).message_count + 1


def test_the_command_checks_recovers_and_derives(episode, capsys):
    session = str(episode.parent)
    assert main(['episode', 'derive', session, '--no-videos']) == 0
    assert '30 steps, 6 views, ended: stopped' in capsys.readouterr().out
    assert main(['episode', 'check', session]) == 0
    assert 'sound' in capsys.readouterr().out
    assert main(['episode', 'recover', session]) == 0
    assert 'nothing to do' in capsys.readouterr().out
    (episode / 'metadata.yaml').unlink()
    assert main(['episode', 'check', str(episode), '--json']) == 1
    report, = json.loads(capsys.readouterr().out)
    assert not report['passed']
    assert main(['episode', 'recover', str(episode)]) == 0
    assert 'messages of 12 topics saved' in capsys.readouterr().out
    assert main(['episode', 'check', str(episode)]) == 0
    assert main(['episode', 'check', str(episode), '--strict']) == 1


def test_a_place_without_episodes_is_refused(tmp_path, episode, capsys):
    with pytest.raises(DataError, match='neither an episode'):
        episodes(tmp_path)
    shutil.copytree(episode, episode.parent / 'B')
    assert [f.name for f in episodes(episode.parent)] == ['A', 'B']
    assert main(['episode', 'check', str(tmp_path)]) == 2
