"""How chunks are executed where the spec says more than their length; exact numbers."""

import dataclasses
import math
import threading

import numpy as np
import pytest
from policy_samples import Noted, observation

from arena_robot.core.action import ActionSpace, Chunk
from arena_robot.core.errors import BadReply, PolicyRefused
from arena_robot.policy.base import PolicySpec, check_spec
from arena_robot.policy.chunks import ChunkExecutor
from arena_robot.policy.ensembling import Ensembling, mixed
from arena_robot.policy.grpc import wire
from arena_robot.policy.grpc.channel import query_request


def executed(inner, steps, **options):
    """Return the first number of each executed action; answers come before the next step."""
    executor = ChunkExecutor(inner, now_s=lambda: 0.0, **options)
    seen = []
    for number in range(steps):
        seen.append(executor.step(dataclasses.replace(observation(), step=number)))
        executor.reset('another')    # waits for a query that is under way
    executor.close()
    return [float(step.requested[0]) for step in seen]


def test_as_many_actions_are_executed_as_the_spec_says():
    inner = Noted(PolicySpec(chunk_length=6, open_loop_horizon=4), 6)
    assert executed(inner, 9) == [100, 101, 102, 103, 200, 201, 202, 203, 300]
    assert [seen.step for seen, _ in inner.asked] == [0, 4, 8]


def test_a_pipelined_horizon_changes_when_it_is_due_without_what_is_over():
    inner = Noted(PolicySpec(chunk_length=10, open_loop_horizon=4, pipelined=True), 10)
    assert executed(inner, 12) == [
        100, 101, 102, 103, 202, 203, 204, 205, 302, 303, 304, 305]
    assert [seen.step for seen, _ in inner.asked] == [0, 2, 6, 10]


def test_what_is_behind_the_horizon_is_executed_while_the_next_chunk_is_late():
    let = threading.Event()

    class Late(Noted):
        def infer(self, observation, episode=''):
            assert not self.asked or let.wait(10.0)
            return super().infer(observation, episode)

    inner = Late(PolicySpec(chunk_length=6, open_loop_horizon=2, pipelined=True), 6)
    executor = ChunkExecutor(inner, now_s=lambda: 0.0, timeout_s=10.0)
    taken = []
    for number in range(8):
        if number == 5:
            let.set()
            executor.reset('another')    # the late answer is there now
        taken.append(executor.step(dataclasses.replace(observation(), step=number)))
    executor.close()
    assert [step.requested[0] for step in taken[:6]] == [100, 101, 102, 103, 104, 204]
    assert taken[5].chunk_step == 4, 'what was executed since the query is dropped, no more'


def test_two_chunks_are_mixed_over_so_many_steps():
    spec = PolicySpec(chunk_length=6, open_loop_horizon=3, blend_steps=2)
    gripper = executed(Noted(spec, 6), 7)
    # 103 and 104 are still there when 200 and 201 come: a third and two thirds of the new chunk.
    assert gripper[:3] == [100, 101, 102]
    assert gripper[3:5] == pytest.approx([103 * 2 / 3 + 200 / 3, 104 / 3 + 201 * 2 / 3])
    assert gripper[5] == 202
    assert gripper[6] == pytest.approx(203 * 2 / 3 + 300 / 3)


def test_a_policy_that_continues_its_chunk_is_told_what_is_left_and_how_much_will_pass():
    inner = Noted(PolicySpec(chunk_length=8, pipelined=True, real_time_chunking=True,
                             open_loop_horizon=5), 8)
    executed(inner, 9)
    left = [seen.left_over for seen, _ in inner.asked]
    assert left[0] is None
    assert [seen.step for seen, _ in inner.asked] == [0, 3, 8]
    assert left[1].actions[:, 0].tolist() == [103, 104, 105, 106, 107]
    assert left[1].inference_delay == 2, 'two more are executed before the next chunk'
    assert left[2].actions[:, 0].tolist() == [205, 206, 207]


def test_what_is_left_over_travels_and_nonsense_is_refused():
    spec = PolicySpec(pipelined=True, real_time_chunking=True, image_size=None)
    inner = Noted(dataclasses.replace(spec, chunk_length=8), 8)
    executed(inner, 8)
    asked = inner.asked[1][0]
    request = query_request(asked, 'e', spec)
    received = wire.observation_of_request(request).left_over
    assert np.array_equal(received.actions, asked.left_over.actions)
    assert received.inference_delay == asked.left_over.inference_delay
    request.left_over.inference_delay = 9
    with pytest.raises(PolicyRefused, match='left_over says 2x8'):
        wire.observation_of_request(request)


@pytest.mark.parametrize(('values', 'words'), [
    ({'chunk_length': 8, 'open_loop_horizon': 9}, 'a chunk has only 8 actions'),
    ({'open_loop_horizon': -1}, 'open_loop_horizon must be'),
    ({'blend_steps': 2}, 'set open_loop_horizon'),
    ({'chunk_length': 8, 'open_loop_horizon': 7, 'blend_steps': 2}, 'only 1 more actions'),
    ({'real_time_chunking': True}, 'needs pipelined=True'),
    ({'real_time_chunking': True, 'pipelined': True, 'chunk_length': 8, 'open_loop_horizon': 4,
      'blend_steps': 1}, 'set blend_steps to 0'),
    ({'layout': 'degrees'}, "layout must be ROBOT/NAME, such as so101/degrees, found 'degrees'"),
    ({'layout': 'so101/degrees', 'open_loop_horizon': 4, 'blend_steps': 2}, 'are not mixed'),
    ({'warm_up': 101}, 'warm_up must be 0 to 100')])
def test_contradictions_are_refused_in_words(values, words):
    with pytest.raises(BadReply, match=words):
        check_spec(PolicySpec(**values), 'mine')


def test_the_fields_travel():
    spec = PolicySpec(chunk_length=10, open_loop_horizon=6, blend_steps=3, warm_up=4)
    assert wire.spec_from_wire(wire.spec_to_wire(spec), 'x') == spec
    other = PolicySpec(pipelined=True, real_time_chunking=True)
    assert wire.spec_from_wire(wire.spec_to_wire(other), 'x') == other


def test_angles_of_a_pose_are_mixed_the_short_way():
    rows = np.zeros((2, 7))
    rows[:, 5] = math.radians(179), math.radians(-179)
    pose = mixed(rows, np.array([1.0, 1.0]), ActionSpace.CARTESIAN_POSITION)
    assert math.cos(pose[5]) == pytest.approx(-1.0)
    assert mixed(rows, np.array([1.0, 3.0]), ActionSpace.JOINT_POSITION)[5] == pytest.approx(
        math.radians(-89.5))


class Scripted(Noted):
    """Returns one number for all actions of a chunk: that of the query."""

    def infer(self, observation, episode=''):
        self.asked.append((observation, episode))
        return Chunk(np.full((3, 8), len(self.asked), np.float32), ActionSpace.JOINT_POSITION)


def test_temporal_ensembling_weighs_as_act_does():
    policy = Ensembling(Scripted(PolicySpec(chunk_length=3), 3), decay=math.log(2.0))
    assert policy.spec.open_loop_horizon == 1
    actions = [policy.infer(dataclasses.replace(observation(), step=step), 'e').actions[:, 0]
               for step in range(3)]
    # Weights 1, 1/2, 1/4 from the oldest on.
    assert actions[0].tolist() == [1, 1, 1]
    assert actions[1].tolist() == pytest.approx([4 / 3, 4 / 3, 2])
    assert actions[2].tolist() == pytest.approx([(1 + 1 + 3 / 4) / 1.75, (2 + 3 / 2) / 1.5, 3])
    policy.reset('e')
    assert policy.infer(observation(), 'e').actions[0, 0] == 4


def test_ensembling_without_steps_counts_its_queries():
    policy = Ensembling(Scripted(PolicySpec(chunk_length=3), 3), 0.0, open_loop_horizon=2)
    seen = dataclasses.replace(observation(), step=0)
    actions = [policy.infer(seen, 'e').actions[:, 0].tolist() for _ in range(2)]
    assert actions[1] == [1.5, 2, 2]


def test_an_executor_of_an_ensemble_asks_every_step():
    inner = Scripted(PolicySpec(chunk_length=3), 3)
    actions = executed(Ensembling(inner, 0.0), 4)
    assert actions == pytest.approx([1, 1.5, 2, 3])
    assert len(inner.asked) == 4
