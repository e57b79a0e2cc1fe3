"""Judges behind chat endpoints: servers written from the protocols, and malformed replies."""

import base64
import io
import json

import httpx
import numpy as np
import pytest
from http_server import HttpServer

from arena_robot.audit.base import Capabilities, Pair, identity_of, trace_of
from arena_robot.audit.judges import make_judge, settings_of
from arena_robot.audit.simple import GoalDistance
from arena_robot.audit.wire import gvl, hop
from arena_robot.audit.wire.gvl import GvlJudge
from arena_robot.audit.wire.hop import HopJudge, score
from arena_robot.audit.wire.robometer import FRAMES, RobometerJudge, RobometerServer
from arena_robot.cli.main import main
from arena_robot.core.errors import ConfigError, ModelBadReply
from arena_robot.core.jpeg import from_jpeg, to_jpeg
from arena_robot.models.chat import ChatClient, ChatSettings
from arena_robot.models.http import HttpSettings
from arena_robot.records.clip import SUFFIX, Clip, ClipSource, LabelledClip, write_clip
from arena_robot.reports.episode_audit import AuditJob

TRUTH = [0.0, 0.2, 0.5, 0.35, 0.6, 1.0]


def frame(value):
    """Return a picture whose brightness is a progress."""
    return np.full((16, 16, 3), round(40 + 160 * value), np.uint8)


def value_of(picture):
    return (float(picture.mean()) - 40) / 160


def clip(values=TRUTH, goal=True):
    frames = [frame(v) for v in values]
    return Clip('lift the cube', np.arange(len(values)) * 0.5, {'left': frames, 'wrist': frames},
                goal={'left': frame(1.0), 'wrist': frame(1.0)} if goal else {}, name='s/A')


class Brightness:
    """A judge that reads the brightness."""

    name, capabilities = 'brightness', Capabilities()

    def progress(self, clip):
        return trace_of(clip, np.array([value_of(f) for f in next(iter(clip.frames.values()))]),
                        self.name)

    def compare(self, pair):
        return None


def said(text):
    return json.dumps({'choices': [{'message': {'content': text}, 'finish_reason': 'stop'}],
                       'usage': {'prompt_tokens': 10, 'completion_tokens': 5}}).encode()


def pictures_in(body):
    """Return the brightness values of the pictures in a request, in order."""
    content = json.loads(body)['messages'][-1]['content']
    return [value_of(from_jpeg(base64.b64decode(p['image_url']['url'].split(',')[1])))
            for p in content if p['type'] == 'image_url']


def chat(server):
    return ChatClient(ChatSettings(base_url=server.url, model='m', http=HttpSettings(
        timeout_s=5.0, attempts=1, backoff_s=0.0)))


def gvl_reply(values):
    return json.dumps([{'frame_number': k, 'frame_description': 'x',
                        'task_completion_percentage': 100 * min(max(v, 0), 1)}
                       for k, v in enumerate(values, 1)])


def test_gvl_unshuffles():
    def answer(path, body):
        return 200, said('```json\n' + gvl_reply(pictures_in(body)[1:]) + '\n```')
    with HttpServer(answer) as server:
        for seed in (0, 1):
            trace = GvlJudge(client=chat(server), seed=seed).progress(clip())
            assert trace.valid, trace.detail
            assert trace.phi == pytest.approx(TRUTH, abs=0.02)
            assert f'seed {seed}' in trace.mode


def test_what_the_answers_depend_on_is_in_the_identity(monkeypatch, tmp_path):
    path = tmp_path / f'e{SUFFIX}'
    identities = []
    for url, model, version, value in (
            ('http://a', 'm', 1, 0.0), ('http://a', 'm', 1, 0.0), ('http://b', 'm', 1, 0.0),
            ('http://a', 'n', 1, 0.0), ('http://a', 'm', 2, 0.0), ('http://a', 'm', 1, 0.5)):
        monkeypatch.setenv('ARENA_MODEL_URL', url)
        monkeypatch.setenv('ARENA_MODEL', model)
        monkeypatch.setattr(gvl, 'PROMPT_VERSION', version)
        monkeypatch.setattr(hop, 'PROMPT_VERSION', version)
        write_clip(path, LabelledClip(ClipSource('e', 't', 't', 0), np.arange(2.0),
                                      np.array([0.0, value]),
                                      {'left': [to_jpeg(frame(0)), to_jpeg(frame(1))]}))
        identities.append([AuditJob('gvl', (('examples', (str(path),)),)).identity,
                           AuditJob('hop').identity])
    gvls, hops = zip(*identities, strict=True)
    assert gvls[0] == gvls[1]
    assert len(set(gvls)) == 5
    assert hops[0] == hops[1] == hops[5]
    assert len(set(hops)) == 4


def test_examples_can_be_given_to_the_command():
    assert hash(settings_of(['examples=[a, b]'])) == hash((('examples', ('a', 'b')),))


def test_gvl_shuffles_by_its_seed():
    orders = []

    def answer(path, body):
        orders.append([round(v, 1) for v in pictures_in(body)])
        return 200, said(gvl_reply(pictures_in(body)[1:]))
    with HttpServer(answer) as server:
        for seed in (0, 0, 1):
            GvlJudge(client=chat(server), seed=seed).progress(clip())
    assert orders[0] == orders[1] != orders[2]
    assert orders[0][0] == 0.0


GOOD = gvl_reply([0.1, 0.2, 0.3, 0.4, 0.5])
ENTRY = '{"frame_number": 5, "task_completion_percentage": 50}'


def gvl_with(entry):
    return json.dumps([*json.loads(GOOD)[:4], entry])


GVL_BAD = [
    '', 'I cannot judge this.', '[]', '{}', 'null', '50', GOOD[:-20], GOOD[1:], GOOD + GOOD,
    gvl_reply([0.1] * 4), gvl_reply([0.1] * 6), json.dumps({'frames': json.loads(GOOD)}),
    gvl_with({'frame_number': 4, 'task_completion_percentage': 50}),
    gvl_with({'frame_number': 0, 'task_completion_percentage': 50}),
    gvl_with({'frame_number': 6, 'task_completion_percentage': 50}),
    gvl_with({'frame_number': '5', 'task_completion_percentage': 50}),
    gvl_with({'frame_number': 5.0, 'task_completion_percentage': 50}),
    gvl_with({'frame_number': 5}), gvl_with({'task_completion_percentage': 50}),
    gvl_with({'frame_number': 5, 'task_completion_percentage': '50'}),
    gvl_with({'frame_number': 5, 'task_completion_percentage': '50%'}),
    gvl_with({'frame_number': 5, 'task_completion_percentage': None}),
    gvl_with({'frame_number': 5, 'task_completion_percentage': True}),
    gvl_with({'frame_number': 5, 'task_completion_percentage': 101}),
    gvl_with({'frame_number': 5, 'task_completion_percentage': -1}),
    gvl_with(float('nan')), gvl_with([5, 50]), gvl_with(50),
    GOOD.replace('50.0', 'NaN'), GOOD.replace('50.0', '1e999'), f'Here you are: {GOOD}',
    f'```json\n{GOOD}\n```\n```json\n{GOOD}\n```', GOOD.replace('"', "'"),
    '\n'.join(f'Frame {k}: Task Completion Percentages: {k}%' for k in range(1, 5))]


@pytest.mark.parametrize('text', GVL_BAD, ids=range(len(GVL_BAD)))
def test_malformed_gvl_replies_are_invalid(text):
    with HttpServer(lambda path, body: (200, said(text))) as server:
        trace = GvlJudge(client=chat(server), attempts=2).progress(clip())
    assert not trace.valid
    assert trace.phi.size == 0
    assert '2 answers' in trace.detail


def test_gvl_asks_again_for_a_missing_frame():
    answers = [gvl_reply([0.1] * 4)]

    def answer(path, body):
        return 200, said(answers.pop() if answers else gvl_reply(pictures_in(body)[1:]))
    with HttpServer(answer) as server:
        judge = GvlJudge(client=chat(server))
        trace = judge.progress(clip())
    assert trace.valid
    assert trace.phi == pytest.approx(TRUTH, abs=0.02)
    assert len(trace.raw) == 2
    assert judge.client.usage.calls == 2


def hop_of(before, after):
    room = 1 - before if after >= before else before
    return (after - before) / max(room, 0.01)


def dopamine(noise=0.0, seed=0):
    rng = np.random.default_rng(seed)

    def answer(path, body):
        seen = pictures_in(body)
        assert len(seen) == 8
        hop = hop_of(seen[2], seen[5]) + rng.normal(0, noise)
        return 200, said(f'The arm moved. <score>{np.clip(100 * hop, -100, 100):+.0f}%</score>')
    return answer


@pytest.mark.parametrize('mode', hop.MODES)
def test_robo_dopamine_modes(mode):
    with HttpServer(dopamine()) as server:
        trace = HopJudge(client=chat(server), mode=mode).progress(clip())
    assert trace.valid, trace.detail
    assert trace.mode.startswith(f'robo_dopamine {mode}')
    if mode == 'conservative':      # it approaches the value by halves
        assert trace.phi[0] == 0.0
        assert trace.phi[-1] > 0.4
    else:
        assert trace.phi == pytest.approx(TRUTH, abs=0.04)


def test_noise_of_the_model_degrades_the_trace_as_declared():
    values = list(np.clip(np.linspace(0, 1, 30), 0.02, 0.98))
    errors = []
    for noise in (0.0, 0.05, 0.2):
        with HttpServer(dopamine(noise, 3)) as server:
            trace = HopJudge(client=chat(server)).progress(clip(values))
        errors.append(float(np.abs(trace.phi - values).mean()))
    assert errors[0] < 0.04
    assert errors[0] < errors[1] < errors[2]


def test_vlac_and_goals():
    def answer(path, body):
        before, after = pictures_in(body)
        return 200, said(f'{100 * (after - before) / (1 - before):.1f}')
    with HttpServer(answer) as server:
        trace = HopJudge(client=chat(server), family='vlac').progress(clip())
        assert trace.phi == pytest.approx(TRUTH, abs=0.03)
        for mode in ('backward', 'fused', 'conservative'):
            assert 'goal' in HopJudge(client=chat(server), mode=mode).progress(
                clip(goal=False)).detail
    with pytest.raises(ConfigError, match='vlac is incremental'):
        make_judge('hop', {'family': 'vlac', 'mode': 'fused', 'base_url': 'http://a',
                           'model': 'm'})


HOP_BAD = [
    '', ' ', 'nothing changed', '50%', '+50%', 'score: +50%', '<score></score>',
    '<score>%</score>', '<score>+50</score>', '<score>50 percent</score>', '<score>+50%',
    '+50%</score>', '<score>+150%</score>', '<score>-101%</score>', '<score>NaN%</score>',
    '<score>inf%</score>', '<score>1e1%</score>', '<score>+-5%</score>', '<score>5O%</score>',
    '<score>+10%</score> or <score>-10%</score>', '<score>+10% to +20%</score>',
    '<SCORE>+10%</SCORE>', '<score>+1 0%</score>', '<score>+10,5%</score>',
    '<score>ten%</score>', '{"score": 10}', '[score]+10%[/score]', '<score>+1000%</score>',
    '<score>+10%%</score>', '<score><score>+10%</score></score>', '<score>+50%</scor']


@pytest.mark.parametrize('text', HOP_BAD, ids=range(len(HOP_BAD)))
def test_malformed_hop_replies_are_invalid(text):
    with HttpServer(lambda path, body: (200, said(text))) as server:
        judge = HopJudge(client=chat(server), attempts=2)
        trace = judge.progress(clip())
        assert judge.compare(Pair('x', clip().frames and {'left': frame(0)},
                                  {'left': frame(1)})) is None
    assert not trace.valid
    assert trace.phi.size == 0


VLAC_BAD = ['', ' ', 'about 5', '5 or 6', '--5', '5%5', '101', '-101%', 'NaN', 'inf',
            '<score>5</score>', '+ 5', '5e1', 'five', '+', '%', '5.', '.5', '5,5', '0x5', '5 %%',
            '-inf', '+1000', '1/2', '[5]', '{"score": 5}', '5 percent', '+5\n-5', '\u0665\u066a',
            'I cannot tell.', 'null']


@pytest.mark.parametrize('text', VLAC_BAD, ids=range(len(VLAC_BAD)))
def test_malformed_vlac_replies(text):
    with pytest.raises(ModelBadReply):
        score(text, 'vlac')


def test_scores():
    assert score('<score>-7.5%</score>', 'robo_dopamine') == -0.075
    assert score(' +12% ', 'vlac') == 0.12
    assert [score(f'The cup stands. ANSWER: {n}', 'roboreward') for n in (1, 2, 5)] == [0, .25, 1]
    assert [score(f'ANSWER: {n}.', 'pairwise') for n in (0, 1, 2)] == [0, -1, 1]
    for text in ('ANSWER: 0', 'ANSWER: 6', 'ANSWER: 3 or 4', '4', 'ANSWER: 4/5', 'ANSWER: 45',
                 'ANSWER: 2 ANSWER: 3', 'ANSWER: four', 'answer: 4', ''):
        with pytest.raises(ModelBadReply):
            score(text, 'roboreward')
    with pytest.raises(ModelBadReply):
        score('ANSWER: 3', 'pairwise')


def test_roboreward_grades_the_episode_so_far():
    shown = []

    def answer(path, body):
        shown.append(pictures_in(body))
        return 200, said(f'ANSWER: {1 + round(4 * shown[-1][-1])}')
    with HttpServer(answer) as server:
        judge = HopJudge(client=chat(server), family='roboreward')
        trace = judge.progress(clip())
        long = judge.progress(clip(list(np.linspace(0, 1, 40))))
        pair = Pair('x', {'left': frame(0.2)}, {'left': frame(0.7)})
        assert judge.compare(pair) == 0.5
    assert trace.phi == pytest.approx(np.round(4 * np.array(TRUTH)) / 4)
    assert [len(pictures) for pictures in shown[:5]] == [2, 3, 4, 5, 6]
    assert shown[4] == pytest.approx(TRUTH, abs=0.02)
    assert len(shown[43]) == hop.FILM
    assert shown[43][-1] == pytest.approx(1.0, abs=0.02)
    assert long.phi[-1] == 1.0


def test_a_vision_model_is_asked_for_the_better_picture_in_both_orders():
    favour = {}

    def answer(path, body):
        start, one, two = pictures_in(body)
        assert start == pytest.approx(0.0, abs=0.02)
        return 200, said(f"They differ. ANSWER: {favour.get('always', 1 + (two > one))}")
    start = {'left': frame(0.0)}
    with HttpServer(answer) as server:
        judge = HopJudge(client=chat(server), family='pairwise')
        up, down = (Pair('x', {'left': frame(a)}, {'left': frame(b)}, start)
                    for a, b in ((0.3, 0.6), (0.6, 0.3)))
        assert [judge.compare(up), judge.compare(down)] == [1.0, -1.0]
        favour['always'] = 2
        assert judge.compare(up) == 0.0, 'the order of the pictures decided'
        favour['always'] = 'both'
        assert judge.compare(up) is None
        assert 'bench' in judge.progress(clip()).detail
    with pytest.raises(ConfigError, match='pairwise is incremental'):
        HopJudge('http://a', 'm', family='pairwise', mode='forward')


def test_reconstruction_by_hand():
    hops = np.array([0.5, 0.5, -0.5])
    assert hop.incremental(hops).tolist() == [0, 0.5, 0.75, 0.375]
    assert hop.incremental(np.array([-0.5])).tolist() == [0, 0]
    assert hop.backward(np.array([-0.25])).tolist() == [0, 0.75]
    assert hop.vlac(np.array([0.5, -0.5])).tolist() == [0, 0.5, 0.25]
    fused = hop.fused(hops, np.array([.4, .8, .3]), np.array([-.6, -.1, -.7]))
    first = (0.5 + 0.4 + 0.4) / 3
    assert fused[1] == pytest.approx(first)
    assert fused[2] == pytest.approx((first + (1 - first) * 0.5 + 0.8 + 0.9) / 3)
    moved = hop.conservative(np.array([0.5]), np.array([0.4]), np.array([-0.6]))
    assert moved[1] == pytest.approx(0.5 * (0.4 + 0.5))


def test_robometer_client_and_server_of_ours():
    with RobometerServer(Brightness()) as server:
        judge = RobometerJudge(server.url)
        trace = judge.progress(clip())
        assert trace.valid
        assert trace.phi == pytest.approx(TRUTH, abs=0.01)
        assert trace.model.startswith('arena_robot/brightness at http://127.0.0.1')
        pair = Pair('x', {'left': frame(0.2)}, {'left': frame(0.6)})
        assert judge.compare(pair) == pytest.approx(0.4, abs=0.01)
        assert httpx.get(server.url + '/health').json() == {'status': 'healthy'}
        assert httpx.post(server.url + '/evaluate_batch_npy', content=b'x').status_code == 422
        bad = {'sample_1': (None, '{}')}
        assert httpx.post(server.url + '/evaluate_batch_npy', files=bad).status_code == 422


def test_the_form_is_that_of_the_protocol():
    seen = {}

    def answer(path, body):
        seen[path] = body
        return 200, good([0.5] * 6)
    with HttpServer(answer) as server:
        assert RobometerJudge(server.url).progress(clip()).valid
    body = seen['/evaluate_batch_npy']
    for word in (b'name="sample_0"', b'"__numpy_file__": "sample_0_trajectory_frames"',
                 b'filename="sample_0_trajectory_frames.npy"', b'name="use_frame_steps"',
                 b'"frames_shape": [6, 16, 16, 3]', b'"video_embeddings": null',
                 b'"subsequence_length": 6', b'"sample_type": "progress"'):
        assert word in body, word
    start = body.index(b'\x93NUMPY')
    assert np.load(io.BytesIO(body[start:])).shape == (6, 16, 16, 3)
    assert FRAMES in body.decode('latin-1')


def test_another_model_at_the_same_address_is_another_judge():
    names = ['a', 'b', '']

    def answer(path, body):
        return 200, json.dumps({'model_path': names[0]}).encode()
    with HttpServer(answer) as server:
        judge = RobometerJudge(server.url)
        first, repeated = identity_of(judge), identity_of(judge)
        names.pop(0)
        second = identity_of(judge)
        assert judge.model.startswith('b at ')
        names.pop(0)
        assert identity_of(judge) == ''
    assert first == repeated != second
    assert first
    servers = [RobometerServer(Brightness(), identity=word) for word in ('x', 'x', 'y', '', '')]
    infos = [server.model_info()['identity'] for server in servers]
    assert infos[0] == infos[1]
    assert len(set(infos)) == 4


class OneView(Brightness):
    capabilities = Capabilities(views=('wrist',))

    def progress(self, clip):
        assert list(clip.frames) == ['wrist']
        return super().progress(clip)


def test_a_judge_that_needs_more_than_a_request_has_is_refused(capsys):
    with RobometerServer(OneView()) as server:
        assert RobometerJudge(server.url).progress(clip()).valid
    with pytest.raises(ConfigError, match='goal picture'):
        RobometerServer(GoalDistance())
    assert main(['judge', 'serve', '--judge', 'oracle', '--port', '0']) == 2
    assert 'reads what was recorded' in capsys.readouterr().err
    assert main(['judge', 'serve', '--judge', 'local', '--port', '0']) == 2
    assert 'needs the views left, right' in capsys.readouterr().err
    with pytest.raises(SystemExit, match='2'):
        main(['judge', 'serve'])


def good(row):
    return json.dumps({'outputs_progress': {'progress_pred': [row]},
                       'outputs_success': {'success_probs': [row]}}).encode()


ROBOMETER_BAD = [
    b'', b'null', b'[]', b'{}', b'<html>', b'{"outputs_progress": null}',
    b'{"outputs_progress": {}}', b'{"outputs_progress": {"progress_pred": null}}',
    b'{"outputs_progress": {"progress_pred": []}}',
    b'{"outputs_progress": {"progress_pred": [null]}}',
    b'{"outputs_progress": {"progress_pred": [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]}}',
    good([]), good([0.5]), good([0.5] * 5), good([0.5] * 7), good([0.5] * 5 + [None]),
    good([0.5] * 5 + ['0.5']), good([0.5] * 5 + [True]), good([0.5] * 5 + [1.01]),
    good([0.5] * 5 + [-0.01]), good([50.0] * 6), good([0.5] * 5 + [[0.5]]),
    good([0.5] * 5 + [{}]), good([float('nan')] * 6), good([float('inf')] + [0.5] * 5),
    good([0.5] * 6)[:-9], b'\xff' + good([0.5] * 6),
    b'{"outputs_progress": {"progress_pred": [[0.1,0.1,0.1,0.1,0.1,1e999]]}}',
    b'{"outputs_progress": {"progress_pred": [[0.5,0.5,0.5],[0.5,0.5,0.5]]}}',
    good([10**400] + [0.5] * 5), b'[' * 100_000,
    b'{"outputs_progress": {"progress_pred": {"0": [0.5,0.5,0.5,0.5,0.5,0.5]}}}']


@pytest.mark.parametrize('body', ROBOMETER_BAD, ids=range(len(ROBOMETER_BAD)))
def test_malformed_robometer_replies_are_invalid(body):
    with HttpServer(lambda path, _: (200, body)) as server:
        trace = RobometerJudge(server.url).progress(clip())
    assert not trace.valid
    assert trace.phi.size == 0
    assert trace.detail


def test_robometer_failures_are_invalid_and_small_overflow_is_clipped():
    with HttpServer(lambda path, _: (500, b'numpy is not JSON')) as server:
        judge = RobometerJudge(server.url, attempts=1)
        assert 'HTTP 500' in judge.progress(clip()).detail
    with HttpServer(lambda path, _: (200, good([-5e-5, 0.1, 0.2, 0.3, 0.4, 1.00005]))) as server:
        trace = RobometerJudge(server.url).progress(clip())
    assert trace.valid
    assert trace.clipped == 2
    assert trace.phi[[0, -1]].tolist() == [0.0, 1.0]
