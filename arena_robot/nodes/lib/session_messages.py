"""Conversion between a session's types and ROS messages; functions without state."""

import math
from array import array
from collections.abc import Mapping, Sequence
from typing import Any

from sensor_msgs.msg import CompressedImage
from std_msgs.msg import Header

from arena_msgs import msg as arena
from arena_msgs.srv import SubmitFeedback
from arena_robot.core.action import Chunk
from arena_robot.core.episode import Episode, Slot, Step
from arena_robot.core.observation import Observation
from arena_robot.core.verdict import (
    FIELDS,
    Kind,
    Plain,
    Verdict,
    from_plain,
    need_fields,
    to_plain,
)
from arena_robot.nodes.lib.convert import clamp_message, doubles, header, stamp_of, time_of
from arena_robot.session.base import Check
from arena_robot.session.evaluator.desk import DeskState, SlotView
from arena_robot.session.loop.rollout import RolloutRequest
from arena_robot.session.protocol.states import State

STATES = tuple(State)
SHARE_DIGITS = 4    # float32 holds no more
NUMBERS = (Kind.SHARE, Kind.NUMBER)    # NaN while nobody said

need_fields('arena_msgs/msg/Feedback.msg', arena.Feedback.get_fields_and_field_types(),
            ('header', 'session_id'))


def state_message(shown: DeskState) -> arena.SessionState:
    """Return the message of a state."""
    out = arena.SessionState(header=header(shown.entered_ns, ''))
    out.state = STATES.index(shown.state)
    for name in ('session_id', 'station', 'evaluator', 'control', 'instruction', 'commitment',
                 'message', 'doing', 'notice', 'reset_confirmed', 'draft_instruction', 'waiting',
                 'third_person', 'photo_code', 'policy_a', 'policy_b', 'verified'):
        setattr(out, name, getattr(shown, name))
    out.created = time_of(shown.created_ns)
    out.checks = [arena.StationCheck(name=c.name, ok=c.ok, detail=c.detail, warning=c.warning)
                  for c in shown.checks]
    out.slots = [arena.SlotResult(slot=s.slot.value, end_reason=s.end, detail=s.detail,
                                  steps=s.steps, reruns=s.reruns, again=s.again)
                 for s in shown.slots]
    out.match_views = list(shown.matches)
    out.moved_cameras = list(shown.moved_cameras)
    out.outside_cameras, out.repairs = list(shown.outside_cameras), list(shown.repairs)
    out.match_scores = array('f', shown.matches.values())
    out.scene_match = _or_nan(shown.match)
    stamp = header(shown.entered_ns, '')
    out.feedback = feedback_message(shown.verdict, shown.session_id, stamp)
    out.draft = feedback_message(shown.draft, shown.session_id, stamp)
    out.missing = list(shown.missing)
    return out


def desk_state(message: arena.SessionState) -> DeskState:
    """Return the state in a SessionState message."""
    slots = tuple(SlotView(Slot(s.slot), s.end_reason, s.detail, s.steps, s.reruns, s.again)
                  for s in message.slots)
    names = ('session_id', 'station', 'evaluator', 'control', 'instruction', 'commitment',
             'message', 'doing', 'notice', 'reset_confirmed', 'draft_instruction', 'waiting',
             'third_person', 'photo_code', 'policy_a', 'policy_b', 'verified')
    return DeskState(
        state=STATES[message.state], created_ns=stamp_of(message.created),
        entered_ns=stamp_of(message.header.stamp),
        checks=tuple(Check(c.name, c.ok, c.detail, c.warning) for c in message.checks),
        slots=slots,
        matches=dict(zip(message.match_views, message.match_scores, strict=True)),
        match=_or_none(message.scene_match),
        moved_cameras=tuple(message.moved_cameras),
        outside_cameras=tuple(message.outside_cameras), repairs=tuple(message.repairs),
        verdict=verdict_of(message.feedback), draft=verdict_of(message.draft),
        missing=tuple(message.missing),
        **{name: getattr(message, name) for name in names})


def step_message(step: Step, seen: Observation, slot: Slot, space: str,
                 frame_id: str) -> arena.StepRecord:
    """Return the record of one control step."""
    out = arena.StepRecord(header=header(step.stamp_ns, frame_id), slot=slot.value,
                           index=step.index, action_space=space)
    out.image_views = list(step.image_stamps_ns)
    out.image_stamps = [time_of(stamp) for stamp in step.image_stamps_ns.values()]
    out.arm_stamp, out.gripper_stamp = time_of(step.arm_stamp_ns), time_of(step.gripper_stamp_ns)
    out.observation_age_s, out.skew_s = seen.age_ns() * 1e-9, seen.skew_ns() * 1e-9
    out.requested = doubles(step.requested)
    out.chunk_index, out.chunk_step = step.chunk_index, step.chunk_step
    out.joint_names, out.q_sent = list(seen.arm.joint_names), doubles(step.q_sent)
    out.gripper_sent = float(step.gripper_sent)
    out.clamps = [clamp_message(clamp) for clamp in step.clamps]
    out.loop_s, out.late_s = step.loop_s, step.late_s
    out.inference_s = step.inference_s
    return out


def chunk_message(index: int, step: int, chunk: Chunk, slot: Slot, stamp_ns: int,
                  frame_id: str) -> arena.ActionChunk:
    """Return the actions of one inference."""
    out = arena.ActionChunk(header=header(stamp_ns, frame_id), slot=slot.value,
                            chunk_index=index, step=step,
                            action_space=chunk.layout or chunk.space.value,
                            width=chunk.actions.shape[1],
                            observation_sha256=chunk.observation_sha256)
    out.actions = array('f', chunk.actions.astype('float32').tobytes())
    return out


def episode_message(job: RolloutRequest, episode: Episode | None, stamp_ns: int, frame_id: str,
                    fixed: Mapping[str, Any], views: Sequence[arena.CameraView] = ()
                    ) -> arena.EpisodeInfo:
    """Return the message for the start (``episode`` None) or the end of an episode."""
    out = arena.EpisodeInfo(header=header(stamp_ns, frame_id), session_id=job.session_id,
                            slot=job.slot.value, prompt=job.prompt, views=list(views),
                            third_person=job.third_person, **fixed)
    out.started = time_of(episode.started_ns if episode else stamp_ns)
    if episode is not None:
        out.ended = time_of(episode.ended_ns)
        out.steps, out.end_reason, out.detail = episode.steps, episode.end.value, episode.detail
    return out


def photo_message(data: bytes, stamp_ns: int, frame_id: str) -> CompressedImage:
    """Return a start photograph; ``frame_id`` is its camera's optical frame."""
    return CompressedImage(header=header(stamp_ns, frame_id), format='rgb8; jpeg compressed bgr8',
                           data=array('B', data))


def feedback_message(verdict: Verdict, session_id: str = '',
                     stamp: Header | None = None) -> arena.Feedback:
    """Return the message of a verdict, finished or not."""
    out = arena.Feedback(header=stamp or Header(), session_id=session_id)
    words = to_plain(verdict)
    for field in FIELDS:
        value = words[field.name]
        setattr(out, field.name, _or_nan(getattr(verdict, field.name)) if field.kind in NUMBERS
                else '' if value is None else value)
    return out


def verdict_of(message: arena.Feedback) -> Verdict:
    """Return what a Feedback message says. Raises DataError for a word that its field lacks."""
    words = {field.name: getattr(message, field.name) for field in FIELDS}
    numbers = {field.name: _or_none(round(words[field.name], SHARE_DIGITS)) for field in FIELDS
               if field.kind in NUMBERS}
    return from_plain({**words, **numbers})


def draft_request(words: Mapping[str, Plain]) -> SubmitFeedback.Request:
    """Return the request that stores what was typed, by the names of its fields."""
    texts = {name: str(words[name] or '') for name in ('evaluator', 'instruction')
             if name in words}
    return SubmitFeedback.Request(feedback=feedback_message(from_plain(words)), draft=True,
                                  fields=list(words), **texts)


def drafted_words(request: SubmitFeedback.Request) -> dict[str, Plain]:
    """Return what was typed, by the names of its fields, as a request says it."""
    words = {**to_plain(verdict_of(request.feedback)), 'evaluator': request.evaluator,
             'instruction': request.instruction}
    return {name: words.get(name) for name in request.fields}


def _or_nan(value: float | None) -> float:
    return float('nan') if value is None else float(value)


def _or_none(value: float) -> float | None:
    return None if math.isnan(value) else value
