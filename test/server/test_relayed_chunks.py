"""How a policy wants its chunks executed passes the relay, and a station's spec does not tell."""

import contextlib
import dataclasses

import pytest
from test_server_blindness import PROMPT, STATION, Chatty, Place, rolled

from arena_robot.core.episode import Slot
from arena_robot.policy.base import PolicySpec
from arena_robot.policy.chunks import ChunkExecutor
from arena_robot.policy.proto import arena_policy_pb2 as pb
from arena_robot.server.relay.routes import canonical
from arena_robot.server.relay.upstreams import executable

TOLD = canonical(PolicySpec().action_space, [PolicySpec()])


@pytest.fixture
def continuing(tmp_path, monkeypatch):
    """Return a place whose policies say more of how their chunks are executed."""
    monkeypatch.setattr(Chatty, 'spec', PolicySpec(
        chunk_length=4, pipelined=True, real_time_chunking=True, open_loop_horizon=2))
    with contextlib.ExitStack() as stack:
        yield Place(tmp_path / 'server', stack)


def test_a_station_executes_chunks_as_the_policy_wants_and_its_spec_does_not_tell(continuing):
    place, policy = continuing, continuing.policies[0]
    pair = place.arena.assign(STATION, 'ada', PROMPT)
    for slot in Slot:
        executor = ChunkExecutor(place.arena.policy(pair.session_id, slot))
        assert executor.spec == dataclasses.replace(TOLD, chunk_length=1)
        rolled(executor, 10)
        executor.reset('e')
        executor.close()
    left = [rows for rows in policy.left if rows is not None]
    assert left
    assert policy.left[0] is None, 'nothing is left over at the first query'
    for rows in left:
        # What is left of a chunk of 0, 1, 2, 3, from any action on, and some of it will pass.
        assert rows.actions[:, 0].tolist() == [0.0, 1.0, 2.0, 3.0][-len(rows.actions):]
        assert 1 <= rows.inference_delay <= len(rows.actions)
    assert place.policies[1].left == [None] * len(place.policies[1].left)


def test_what_is_behind_the_horizon_is_never_executed_without_pipelining():
    reply = pb.InferReply(actions=[float(k) for k in range(8)], rows=4, columns=2)
    assert executable(reply, PolicySpec(open_loop_horizon=3))[0] == 3
    assert executable(reply, PolicySpec(open_loop_horizon=3, pipelined=True))[0] == 4


def test_the_spec_that_was_admitted_is_used_and_not_what_the_server_says_now(
        tmp_path, monkeypatch):
    now = PolicySpec(chunk_length=4, image_size=(2048, 2048), stereo=True, warm_up=100)
    admitted = PolicySpec(chunk_length=4, pipelined=True)
    monkeypatch.setattr(Chatty, 'spec', now)
    with contextlib.ExitStack() as stack:
        place = Place(tmp_path / 'server', stack)
        for record in place.server.policies.list():
            place.server.policies.admit(record.id, admitted)
        pair = place.arena.assign(STATION, 'ada', PROMPT)
        for slot in Slot:
            assert place.arena.policy(pair.session_id, slot).spec == TOLD
        assert not any(policy.heard for policy in place.policies), 'no warm-up'
