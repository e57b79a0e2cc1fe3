"""`arena audit` of recorded episodes: from bags to tables, cached, resumed, refused."""

import dataclasses
import importlib.util
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from roboarena_tables import SAMPLE
from sample_episodes import SampleEpisode, SampleMaker

from arena_robot.audit.aggregate import marks_of
from arena_robot.audit.base import Capabilities, identity_of, invalid, trace_of
from arena_robot.audit.local.judge import LocalJudge, shipped
from arena_robot.audit.local.model import read_model, write_model
from arena_robot.audit.run import AuditSettings, TraceCache, audit_clip
from arena_robot.audit.simple import ElapsedTime, GoalDistance, OracleJudge, RecordedJudge
from arena_robot.cli.main import main
from arena_robot.core.episode import Preference
from arena_robot.core.errors import DataError
from arena_robot.core.figures import save_figure
from arena_robot.core.pair import Reveal
from arena_robot.core.verdict import Verdict
from arena_robot.recording.episode.clip import read_clip
from arena_robot.records import audit_file
from arena_robot.records.audit_file import (
    EpisodeAudit,
    audits_of,
    read_audit,
    read_audit_scores,
    write_audit,
)
from arena_robot.records.clip import Clip
from arena_robot.records.session_file import SessionFile, read_session, write_session
from arena_robot.reports import episode_audit
from arena_robot.reports.audit_agreement import (
    agreement_rate,
    agreements,
    by_evaluator,
    not_calibrated,
    untrusted,
)
from arena_robot.reports.episode_audit import AuditJob, FoundEpisode
from arena_robot.trials.labelled import LabelledEpisode, record


@pytest.fixture(scope='module')
def sessions(tmp_path_factory, message_folders):
    """Two sessions with A and B each, of 2 and 4 seconds."""
    home = tmp_path_factory.mktemp('sessions')
    for name, prompt in (('one', 'put the red square into the bowl'), ('two', 'open the drawer')):
        for slot, steps in (('A', 30), ('B', 60)):
            SampleMaker(SampleEpisode(steps, width=64, height=36, slot=slot, session_id=name,
                                      prompt=prompt, potential=True), message_folders).write(
                home / name / slot)
        write_session(home / name, SessionFile(
            name, reveal=Reveal('00', 'fast', 'slow'), evaluator='eva', station='lab',
            verdict=Verdict(progress_a=1.0, progress_b=0.5)))
    return home


def test_a_clip_from_a_bag(sessions):
    clip = read_clip(sessions / 'one' / 'A')
    assert clip.name == 'one/A'
    assert clip.instruction == 'put the red square into the bowl'
    assert list(clip.frames) == ['left', 'right', 'wrist']
    assert len(clip) == 10
    assert np.diff(clip.times_s) == pytest.approx(0.2)
    assert clip.frames['left'][0].shape == (36, 64, 3)
    assert clip.potential[0] == pytest.approx(0.0, abs=0.05)
    assert clip.potential[-1] > 0.9
    assert np.diff(clip.potential).min() < -0.1
    assert len(read_clip(sessions / 'one' / 'A', max_frames=4)) == 4
    with pytest.raises(DataError, match='nothing to look at'):
        read_clip(sessions / 'one' / 'A', views=['top'])


def audit(*words):
    return main(['audit', *map(str, words)])


def test_sessions_by_the_oracle(sessions, tmp_path, capsys):
    assert audit(sessions, '--judge', 'oracle', '--cache', tmp_path, '--json', '--save') == 0
    report = json.loads(capsys.readouterr().out)
    assert [e['name'] for e in report['episodes']] == ['one/A', 'one/B', 'two/A', 'two/B']
    declared = {'name': 'oracle', 'kind': 'absolute', 'deterministic': True, 'max_views': 0}
    assert declared.items() <= report['judge'].items()
    first = report['episodes'][0]
    assert first['policy'] == 'fast'
    assert first['success'] is True
    assert 0.5 < first['metrics']['ppl'] < 0.8
    assert first['metrics']['cra'] > 0.0
    assert first['refused'] == {}
    assert {p['policy']: p['episodes'] for p in report['policies']} == {'fast': 2, 'slow': 2}
    assert report['policies'][0]['successes']['ppl']['count'] == 2
    assert report['policies'][1]['failures']['ppl']['count'] == 2
    (file,) = audits_of(sessions / 'one' / 'A')
    stored = read_audit(file)
    assert stored.phi == tuple(first['phi'])
    assert file.name == 'oracle.json'
    file.write_text('{"version": 1}')
    with pytest.raises(DataError):
        read_audit(file)
    file.unlink()


def test_tables_jobs_and_plots(sessions, tmp_path, capsys, monkeypatch):
    drawn = {}
    monkeypatch.setattr(episode_audit, 'save_figure', lambda figure, path: drawn.setdefault(
        Path(path).name, figure) and save_figure(figure, path))
    assert audit(sessions, '--judge', 'oracle', '--no-cache', '--convention', 'v1', '--jobs', 2,
                 '--plots', tmp_path / 'plots') == 0
    out = capsys.readouterr().out
    assert 'convention v1' in out
    reached = out.split('\nreached ')[1].split('\n\n')[0].splitlines()
    assert reached[0].split() == ['n', 'MC@25', 'MC@50', 'MC@75', 'MC@100']
    assert reached[1].split()[:3] == ['fast', '2', '100.0']
    assert audit(sessions, '--judge', 'oracle', '--no-cache', '--milestones', 3, '--json') == 0
    report = json.loads(capsys.readouterr().out)
    assert list(report['policies'][0]['reached']) == ['33.3', '66.7', '100']
    assert {3 * e['metrics']['mc'] % 1 for e in report['episodes']} == {0.0}
    assert audit(sessions, '--milestones', 0) == 2
    assert 'successes alone' in out
    assert (tmp_path / 'plots' / 'curves.png').stat().st_size > 5000
    assert 'stagnation below 0.005, delta 1e-08, MC in steps of 1/4, curve raw; percent' in out
    reached, quality = drawn['policies.png'].axes
    assert [line.get_label() for line in reached.containers] == ['fast', 'slow']
    assert [word.get_text() for word in reached.get_xticklabels()] == [
        'MC@25', 'MC@50', 'MC@75', 'MC@100']
    assert list(reached.lines[0].get_ydata()) == [1.0, 1.0, 1.0, 0.0]
    assert [word.get_text() for word in quality.get_xticklabels()] == ['PPL', 'CRA', 'STR']
    heights = [bar.get_height() for bar in quality.patches]
    assert 0.5 < heights[0] < 0.8
    assert np.isnan(heights[3:]).all(), 'the other policy has no success'


def test_a_curve_can_be_smoothed_and_says_so(sessions, tmp_path, capsys):
    path = tmp_path / 't.json'
    phi = [0.0, 0.0, 0.0, 1.0, 0.0, 0.2, 0.2, 0.2]    # an outlier of one frame
    path.write_text(json.dumps({'episodes': [{'name': 'one/A', 'phi': phi}]}))
    words = ('--judge', 'recorded', '--param', f'file={path}', '--no-cache')
    found = {}
    for curve in ('raw', 'v1.5'):
        assert audit(sessions / 'one' / 'A', *words, '--curve', curve, '--json') == 0
        report = json.loads(capsys.readouterr().out)
        found[curve] = report['episodes'][0]
        assert report['settings']['curve'] == curve
        assert audit('--trace', path, '--curve', curve, '--json') == 0
        found[curve, 'mp'] = json.loads(capsys.readouterr().out)['episodes'][0]['mp']
    assert (found['raw']['metrics']['mp'], found['raw', 'mp']) == (1.0, 1.0)
    assert max(found['v1.5']['phi']) < 0.25
    assert 0.1 < found['v1.5', 'mp'] < 0.25
    assert (found['raw']['mode'], found['v1.5']['mode']) == ('absolute', 'absolute, curve v1.5')
    assert audit('--trace', path, '--curve', 'v1.5') == 0
    assert 'curve v1.5' in capsys.readouterr().out


def test_refused_metrics_are_not_computed(sessions, tmp_path, capsys):
    assert audit(sessions / 'one', '--judge', 'elapsed', '--no-cache', '--json') == 0
    (episode, _) = json.loads(capsys.readouterr().out)['episodes']
    assert {m for m, v in episode['metrics'].items() if v is None} == {'mp', 'mc', 'ppl'}
    assert 'a clock sees no pictures' in episode['refused']['mp']
    assert episode['metrics']['cra'] == 0.0


def test_an_episode_that_cannot_be_judged(sessions, tmp_path, capsys):
    traces = tmp_path / 'traces.json'
    traces.write_text(json.dumps({'episodes': [{'name': 'one/A', 'phi': [0, 50, 100]}]}))
    words = ('--judge', 'recorded', '--param', f'file={traces}', '--param', 'scale=percent')
    assert audit(sessions / 'one' / 'A', *words, '--no-cache', '--json') == 0
    assert json.loads(capsys.readouterr().out)['episodes'][0]['metrics']['mp'] == 1.0
    assert audit(sessions / 'one', *words, '--no-cache') == 1
    assert 'one/B was not judged' in capsys.readouterr().err
    assert audit(sessions, '--judge', 'recorded', '--param', 'files=x') == 2
    assert audit(tmp_path) == 2
    assert audit(sessions, '--trace', traces) == 2
    assert audit(sessions, '--judge', 'orakel') == 2
    assert "Did you mean 'oracle'" in capsys.readouterr().err


class Counting:
    """A judge that counts how often it is asked, and fails at first."""

    name, capabilities = 'counting', Capabilities()

    def __init__(self):
        self.asked, self.broken = 0, True

    def progress(self, clip):
        self.asked += 1
        if self.broken:
            return invalid(clip, self.name, 'the line was cut')
        return trace_of(clip, np.linspace(0, 1, len(clip)), self.name, raw=('x',))

    def compare(self, pair):
        return None


def small_clip(value=0):
    return Clip('x', np.arange(4.0), {'left': [np.full((4, 4, 3), value + k, np.uint8)
                                               for k in range(4)]}, name='s/A')


def test_the_cache_asks_once_and_goes_on_after_a_failure(tmp_path):
    judge, cache = Counting(), TraceCache(tmp_path / 'c', 'counting 1')
    assert not audit_clip(judge, small_clip(), cache=cache).valid
    judge.broken = False
    first = audit_clip(judge, small_clip(), cache=cache)
    second = audit_clip(judge, small_clip(), AuditSettings('v1'), cache=cache)
    assert first.valid
    assert first.phi == second.phi
    assert first.raw == ('x',)
    assert judge.asked == 2
    for changed in (small_clip(9), dataclasses.replace(small_clip(), instruction='y'),
                    dataclasses.replace(small_clip(), times_s=np.arange(4.0) * 2)):
        audit_clip(judge, changed, cache=cache)
    audit_clip(judge, small_clip(), cache=TraceCache(tmp_path / 'c', 'counting 2'))
    assert judge.asked == 6
    for path in (tmp_path / 'c').iterdir():
        path.write_text('{')
    assert audit_clip(judge, small_clip(), cache=cache).valid
    assert judge.asked == 7


def test_the_cache_forgets_a_judge_without_identity(tmp_path):
    judge = Counting()
    judge.broken = False
    assert identity_of(judge) == ''
    for _ in range(2):
        audit_clip(judge, small_clip(), cache=TraceCache(tmp_path / 'c', identity_of(judge)))
    assert judge.asked == 2
    assert not (tmp_path / 'c').exists()
    assert AuditJob('test_audit_episodes:Counting').identity == ''
    assert AuditJob('elapsed').identity == AuditJob('elapsed').identity != ''


def test_recorded_numbers_that_were_edited_are_read_anew(sessions, tmp_path, capsys):
    traces, peaks = tmp_path / 'traces.json', []
    for top in (0.4, 0.8, 0.8):
        traces.write_text(json.dumps({'episodes': [{'name': 'one/A', 'phi': [0, top]}]}))
        assert audit(sessions / 'one' / 'A', '--judge', 'recorded', '--param', f'file={traces}',
                     '--cache', tmp_path / 'c', '--json') == 0
        peaks.append(json.loads(capsys.readouterr().out)['episodes'][0]['metrics']['mp'])
    assert peaks == [0.4, 0.8, 0.8]
    assert len(list((tmp_path / 'c').iterdir())) == 2


def test_simple_judges(tmp_path):
    clip = small_clip()
    assert 'no recorded potential' in OracleJudge().progress(clip).detail
    assert ElapsedTime().progress(clip).phi.tolist() == [0, 1 / 3, 2 / 3, 1]
    assert 'goal' in GoalDistance().progress(clip).detail
    path = tmp_path / 't.json'
    path.write_text(json.dumps({'episodes': [{'name': 's/A', 'phi': [0.2, 0.3, -0.1, 0.8]}]}))
    trace = RecordedJudge(str(path), kind='delta').progress(clip)
    assert trace.phi == pytest.approx([0.2, 0.5, 0.4, 1.0])
    assert trace.clipped == 1


def scored(dataset, name, column, every, about):
    """Write what LeRobot's scoring of a dataset of A and B writes: progress rises to 0.8."""
    lengths = [row['length'] for row in pq.read_table(
        dataset / 'meta/episodes/chunk-000/file-000.parquet').to_pylist()]
    rows = [(sum(lengths[:k]) + t, k, t, 0.8 * t / (n - 1) if k else 0.0)
            for k, n in enumerate(lengths) for t in range(0, n, every)]
    index, episode, frame, progress = (np.array(column) for column in zip(*rows, strict=True))
    table = pa.table({'index': index, 'episode_index': episode, 'frame_index': frame,
                      column: progress.astype(np.float32)})
    pq.write_table(table.replace_schema_metadata(about), dataset / name)
    return dataset / name


def test_a_reward_model_of_lerobot(sessions, tmp_path, capsys):
    dataset = tmp_path / 'dataset'
    assert main(['episode', 'export', str(sessions / 'one'), '--format', 'lerobot', '--output',
                 str(dataset)]) == 0
    model = json.dumps({'model': {'id': 'lerobot/Robometer-4B', 'type': 'robometer'}})
    files = [scored(dataset, 'sarm_progress.parquet', 'progress_sparse', 1,
                    {'reward_model_path': 'lab/sarm'}),
             scored(dataset, 'topreward_progress.parquet', 'progress_sparse', 1,
                    {'vlm_name': 'Qwen/Qwen3-VL-8B-Instruct'}),
             scored(dataset, 'signals.parquet', 'reward.robometer.progress', 5,
                    {'lerobot.reward_scoring.format': 'lerobot.frame_signals',
                     'lerobot.reward_scoring.provenance': model})]
    capsys.readouterr()
    for file, name in zip(files, ('lab/sarm', 'Qwen/Qwen3-VL-8B-Instruct', 'lerobot/Robometer-4B'),
                          strict=True):
        assert audit(sessions / 'one', '--judge', 'lerobot', '--param', f'file={file}',
                     '--no-cache', '--json') == 0
        a, b = json.loads(capsys.readouterr().out)['episodes']
        assert b['model'].startswith(f'{name}: ')
        assert set(a['phi']) == {0.0}
        assert b['phi'] == pytest.approx(np.linspace(0.0, 0.8, len(b['phi'])), abs=0.07)
        assert not b['calibrated']
        assert b['metrics']['mp'] is b['metrics']['mc'] is b['metrics']['ppl'] is None
    words = ('--judge', 'lerobot', '--param', f'file={files[0]}', '--no-cache')
    assert audit(sessions / 'two', *words) == 1
    assert "no episode 'two/A'" in capsys.readouterr().err
    assert audit(sessions / 'one', *words, '--param', 'column=reward') == 2
    assert "'reward'; it has index, episode_index" in capsys.readouterr().err
    assert audit(sessions / 'one', *words, '--param', 'dataset=/nowhere') == 2
    assert audit(sessions / 'one', *words[:3], f'file={sessions / "one" / "session.json"}') == 2


def test_preference_against_audit():
    def audited(name, end):
        clip = dataclasses.replace(small_clip(), potential=np.linspace(0, end, 4), name=name)
        return audit_clip(OracleJudge(), clip)
    verdicts = [('A', .9, .2), ('B', .9, .2), ('TIE', .5, .5), ('A', .5, .5), ('B', .1, .9)]
    rows = [(SessionFile(f's{k}', evaluator='e', station='lab',
                         verdict=Verdict(preference=Preference(p), valid=True)),
             audited('a', a), audited('b', b)) for k, (p, a, b) in enumerate(verdicts)]
    compared = agreements(rows)
    assert [f.audit for f in compared] == ['A', 'A', 'TIE', 'TIE', 'B']
    assert agreement_rate(compared) == (2 / 3, 3)
    assert [f.station for f in compared] == ['lab'] * 5
    assert FoundEpisode(Path('x')).success is None
    assert not_calibrated(rows) == 0
    away = [(s, dataclasses.replace(a, calibrated=False), b) for s, a, b in rows]
    assert agreements(away) == []
    assert not_calibrated(away) == 5
    assert not_calibrated([(s, a, dataclasses.replace(b, calibrated=False))
                           for s, a, b in rows[:2]]) == 2


def planted(judge, success, failure):
    """Return 24 sessions of an honest and an inverted evaluator with a judge's last values."""
    rows = []
    for k in range(48):
        won = 'AB'[k % 3 == 0]
        said = won if k < 24 else {'A': 'B', 'B': 'A'}[won]
        slots = [EpisodeAudit(f's{k}/{slot}', judge, '', 'ok', 'paper', 0.005, 1e-8,
                              phi=(0.0, success if slot == won else failure),
                              times_s=(0.0, 1.0)) for slot in 'AB']
        rows.append((SessionFile(f's{k}', evaluator='honest' if k < 24 else 'inverted',
                                 verdict=Verdict(preference=Preference(said), valid=True)),
                     *slots))
    return rows


def test_an_honest_evaluator_of_policies_that_go_home_is_not_flagged(monkeypatch):
    by_truth = {e.evaluator: e.kind.value for e in by_evaluator(
        agreements(planted('oracle', 1.0, 0.03)))}
    assert by_truth == {'honest': 'honest', 'inverted': 'inverted'}
    # What `local` says of a success after which the arm went home, and of an arm at the goal.
    seen = planted('local', 0.30, 0.65)
    assert by_evaluator(agreements(seen)) == []
    assert 'arm' in untrusted([a for _, a, _ in seen])
    assert untrusted([a for _, a, _ in planted('oracle', 1.0, 0.0)]) == ''
    monkeypatch.setattr(audit_file, 'UNTRUSTED', {})
    assert {e.evaluator: e.kind.value for e in by_evaluator(agreements(seen))} == {
        'honest': 'inverted', 'inverted': 'honest'}, 'the refusal is needed'


def test_evaluators_beside_the_model_that_ships():
    """The policies of real episodes do the task and go home, or leave the arm at the goal."""
    pytest.importorskip('mujoco')
    judge, ends = LocalJudge(), {}
    for seed in (2005, 2006):
        for kind in ('home', 'open', 'high'):
            clip = record(LabelledEpisode('cup_on_plate', seed, kind))
            ends[seed, kind] = audit_clip(judge, clip.clip()), clip.source.success
    assert [ends[seed, 'home'][1] for seed in (2005, 2006)] == [True, True]
    rows = []
    for k in range(48):
        seed, bad, won = 2005 + k % 2, ('open', 'high')[k // 2 % 2], 'AB'[k % 3 == 0]
        said = won if k < 24 else {'A': 'B', 'B': 'A'}[won]
        slots = [ends[seed, 'home' if slot == won else bad][0] for slot in 'AB']
        rows.append((SessionFile(f's{k}', evaluator='honest' if k < 24 else 'inverted',
                                 verdict=Verdict(preference=Preference(said), valid=True)),
                     *slots))
    assert {e.evaluator: e.kind.value for e in by_evaluator(agreements(rows))} == {
        'honest': 'honest', 'inverted': 'inverted'}
    cubes = [(session, *(dataclasses.replace(ended, instruction='put the red cube in the bowl')
                         for ended in slots)) for session, *slots in rows]
    assert agreements(cubes) == []    # it would not see that another cube lies there
    assert not_calibrated(cubes) == len(cubes)


def test_a_local_model_without_proof_is_refused_mc_str_and_evaluators(
        sessions, tmp_path, capsys):
    unproven = read_model(shipped())
    write_model(tmp_path / 'm.npz', dataclasses.replace(
        unproven, card=dataclasses.replace(unproven.card, measured={})))
    local = ('--judge', 'local', '--param', f'model={tmp_path / "m.npz"}', '--no-cache')
    assert audit(sessions, *local, '--json') == 0
    report = json.loads(capsys.readouterr().out)
    assert 'arm' in report['judge']['untrusted']
    assert report['agreement']['sessions'] == report['agreement']['evaluators'] == []
    for episode in report['episodes']:
        assert episode['metrics']['mc'] is episode['metrics']['str'] is None
        assert 'arm' in episode['refused']['str']
    assert report['policies'][0]['reached']['100']['count'] == 0
    assert audit(sessions, *local) == 0
    out = capsys.readouterr().out
    assert 'no evaluator is judged by these audits' in out
    assert 'STR: the judge looks at the arm' in out


def test_an_old_file_of_the_local_judge_has_no_mc_and_str_either(tmp_path):
    made = EpisodeAudit('x', 'local', '', 'ok', 'paper', 0.005, 1e-8, phi=(0.0, *[1.0] * 5),
                        times_s=tuple(np.arange(6.0)), metrics={'mc': 1.0, 'str': 0.8,
                                                                'ppl': 1.0})
    old = read_audit(write_audit(tmp_path, made))
    assert old.metrics == {'mc': None, 'str': None, 'ppl': 1.0}
    assert set(old.refused) == {'mc', 'str'}
    marks = marks_of(old)
    assert [q for _, q in marks.milestones] == [0.25, 0.5, 0.75]
    assert marks.still == ()
    trusted = dataclasses.replace(made, judge='oracle')
    assert marks_of(trusted).milestones[-1][1] == 1.0
    assert marks_of(trusted).still == ((2.0, 5.0),)
    said = {'episodes': [{'name': 's/A', 'policy': 'p', 'calibrated': True, 'phi': [1.0],
                          'metrics': {'ppl': 1.0}}],
            'agreement': {'evaluators': [{'evaluator': 'eva', 'agree': 0, 'decisive': 30}]}}
    for judge, people in (('local', {}), ('oracle', {'eva': (0, 30)})):
        (tmp_path / 'a.json').write_text(json.dumps({**said, 'judge': {'name': judge}}))
        scores = read_audit_scores(tmp_path / 'a.json')
        assert scores.evaluators == people
        assert bool(scores.untrusted) == (judge == 'local')


def test_what_sessions_say_of_the_evaluator_and_of_the_judge(sessions, tmp_path, capsys):
    try:
        for name in ('one', 'two'):
            verdict = Verdict(preference=Preference.A, valid=True, progress_a=1.0, progress_b=0.5)
            write_session(sessions / name, dataclasses.replace(
                read_session(sessions / name), verdict=verdict))
        assert audit(sessions, '--judge', 'elapsed', '--no-cache', '--json') == 0
        agreement = json.loads(capsys.readouterr().out)['agreement']
        assert (agreement['not_calibrated'], agreement['sessions'], agreement['evaluators']) == (
            2, [], [])
        assert audit(sessions, '--judge', 'elapsed', '--no-cache') == 0
        assert 'calibrated there: 2' in capsys.readouterr().out
        scored = tmp_path / 't.json'
        scored.write_text(json.dumps({'episodes': [
            {'name': f'{name}/{slot}', 'phi': [0.0, end]} for name, slot, end in (
                ('one', 'A', 0.9), ('one', 'B', 0.2), ('two', 'A', 0.1), ('two', 'B', 0.8))]}))
        words = ('--judge', 'recorded', '--param', f'file={scored}', '--no-cache')
        assert audit(sessions, *words) == 0
        out = capsys.readouterr().out
        assert '  Open / Close: 0 of 1 [0.00, 0.79]' in out
        assert '  Pick and Place: 1 of 1 [0.21, 1.00]' in out
        assert audit(sessions, *words, '--json') == 0
        categories = json.loads(capsys.readouterr().out)['agreement']['categories']
        assert [(c['category'], c['agree'], c['decisive']) for c in categories] == [
            ('Open / Close', 0, 1), ('Pick and Place', 1, 1)]
    finally:
        for name in ('one', 'two'):
            write_session(sessions / name, dataclasses.replace(
                read_session(sessions / name), verdict=Verdict(progress_a=1.0, progress_b=0.5)))


def test_preferences_of_public_sessions_by_category(capsys):
    file = Path(__file__).parents[2] / 'bench' / 'bench_judge.py'
    loaded = importlib.util.spec_from_file_location('bench_judge', file)
    bench = importlib.util.module_from_spec(loaded)
    loaded.loader.exec_module(bench)
    bench.preferences(SAMPLE)
    rows = {line[:26].strip(): line[26:].split() for line in capsys.readouterr().out.splitlines()}
    assert rows['Pick and Place'][:5] == ['1.00', '[0.84,', '1.00]', 'of', '20']
    assert rows['all'][3:5] == ['of', '50']
    assert rows['all'][5:] == ['0.43', '[0.29,', '0.58]', 'of', '42']


class FourFrames(OracleJudge):
    """A judge that sees at most four frames of an episode, so long ones at longer times."""

    capabilities = Capabilities(max_frames=4)


def test_metrics_at_different_intervals_are_not_in_one_mean(sessions, capsys):
    words = ('--judge', 'test_audit_episodes:FourFrames', '--no-cache')
    assert audit(sessions, *words, '--json') == 0
    report = json.loads(capsys.readouterr().out)
    low, high = report['intervals_s']
    assert high > 1.5 * low
    assert {m: report['policies'][0]['overall'][m]['count'] for m in ('mp', 'ppl', 'str')} == {
        'mp': 2, 'ppl': 0, 'str': 0}
    assert report['policies'][0]['overall']['str']['mean'] is None
    assert report['episodes'][0]['metrics']['ppl'] is not None
    assert audit(sessions, *words) == 0
    assert 'PPL and STR are not in the tables' in capsys.readouterr().out
    interval = report['refused']['str'].split('--interval ')[1].split('`')[0]
    assert audit(sessions, *words, '--json', '--interval', interval) == 0
    repeated = json.loads(capsys.readouterr().out)
    assert repeated['refused'] == {}
    assert repeated['policies'][0]['overall']['str']['count'] == 2


def test_a_budget_is_for_one_process(sessions, capsys, monkeypatch):
    monkeypatch.setenv('ARENA_MODEL_URL', 'http://127.0.0.1:9')
    monkeypatch.setenv('ARENA_MODEL', 'm')
    words = ('--judge', 'gvl', '--param', 'budget=2', '--param', 'price_in=1')
    for more in (('--jobs', 4), ('--cluster', 'dask://127.0.0.1:9')):
        assert audit(sessions, *words, *more) == 2
        assert 'each process would spend' in capsys.readouterr().err
