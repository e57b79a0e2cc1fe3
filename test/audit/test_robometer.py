"""RoboMeter's protocol: client against servers, and malformed replies."""

import io
import json

import httpx
import numpy as np
import pytest
from http_server import HttpServer
from wire_rig import TRUTH, Brightness, clip, frame

from arena_robot.audit.base import Capabilities, Pair, identity_of
from arena_robot.audit.simple import GoalDistance
from arena_robot.audit.wire.robometer import FRAMES, RobometerJudge, RobometerServer
from arena_robot.cli.main import main
from arena_robot.core.errors import ConfigError


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
        first, again = identity_of(judge), identity_of(judge)
        names.pop(0)
        second = identity_of(judge)
        assert judge.model.startswith('b at ')
        names.pop(0)
        assert identity_of(judge) == ''
    assert first == again != second
    assert first
    servers = [RobometerServer(Brightness(), identity=word) for word in ('x', 'x', 'y', '', '')]
    told = [server.model_info()['identity'] for server in servers]
    assert told[0] == told[1]
    assert len(set(told)) == 4


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
    assert 'needs the views right, wrist' in capsys.readouterr().err
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
