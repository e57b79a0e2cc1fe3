"""Converts protobuf messages and core types, and errors and gRPC statuses, both ways."""

import json
import re
from collections.abc import Iterable
from dataclasses import asdict
from enum import Enum
from typing import Any, TypeVar

import grpc
from google.protobuf.message import Message

from arena_robot.core.clock import from_iso, to_iso
from arena_robot.core.config import nearest
from arena_robot.core.episode import CONTROL_RATE_HZ, MAX_RERUNS, EndReason, Episode, Slot
from arena_robot.core.errors import (
    ArenaError,
    ConfigError,
    Conflict,
    DataError,
    NotComputed,
    NotRevealed,
    RankingError,
    ServerError,
    ServerUnavailable,
    Unauthorised,
)
from arena_robot.core.verdict import (
    FIELDS,
    LARGEST,
    Verdict,
    check_times,
    from_plain,
    need_fields,
    present,
)
from arena_robot.policy.grpc.errors import CODE_KEY, code_of, in_words
from arena_robot.policy.grpc.errors import status_of as policy_status_of
from arena_robot.records.roboarena import RoboArenaRollout, build_session, with_rollouts
from arena_robot.records.session_file import LOCAL_STUDY
from arena_robot.server.base import (
    Caller,
    LocalSession,
    NoPair,
    PolicyRecord,
    PolicyReview,
    TooManyCalls,
    UnknownSession,
    UnsafeReport,
)
from arena_robot.server.files import FileId, FileRecord, ManifestEntry
from arena_robot.server.proto import arena_server_pb2 as pb

E = TypeVar('E', bound=Enum)
MOST_NAME = 100    # characters of the name of a study or a policy; a column has 200
MOST_PROMPT = 500  # characters of an instruction

need_fields('FeedbackRequest in arena_server.proto',
            pb.FeedbackRequest.DESCRIPTOR.fields_by_name, ('session_id',))
STATUS = {
    TooManyCalls: grpc.StatusCode.RESOURCE_EXHAUSTED,
    Unauthorised: grpc.StatusCode.PERMISSION_DENIED, Conflict: grpc.StatusCode.ABORTED,
    DataError: grpc.StatusCode.INVALID_ARGUMENT, ServerUnavailable: grpc.StatusCode.UNAVAILABLE,
    UnknownSession: grpc.StatusCode.NOT_FOUND, NoPair: grpc.StatusCode.FAILED_PRECONDITION,
    RankingError: grpc.StatusCode.FAILED_PRECONDITION,
    NotComputed: grpc.StatusCode.FAILED_PRECONDITION,
    ConfigError: grpc.StatusCode.INVALID_ARGUMENT}
BY_CODE: dict[str, type[ArenaError]] = {
    kind.code: kind for kind in (Conflict, NotRevealed, DataError, Unauthorised, NoPair,
                                 UnknownSession, TooManyCalls, ServerUnavailable, NotComputed,
                                 ServerError)}
SILENT = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED,
          grpc.StatusCode.CANCELLED)


def word(kind: type[E], text: str, what: str) -> E:
    """Return the member of an enumeration; DataError naming the nearest when there is none."""
    known = {str(member.value): member for member in kind}
    if text not in known:
        raise DataError(f'{what} cannot be {text!r:.60}.{nearest(text[:60], known)}')
    return known[text]


def episode_to_wire(episode: Episode,
                    files: Iterable[ManifestEntry] = ()) -> pb.EpisodeRequest:
    """Return the message of an episode's end and its files."""
    return pb.EpisodeRequest(
        session_id=episode.session_id, slot=episode.slot.value, prompt=episode.prompt,
        steps=episode.steps, end_reason=episode.end.value, detail=episode.detail[:2000],
        started_ns=episode.started_ns, ended_ns=episode.ended_ns, reruns=episode.reruns,
        files=[pb.ManifestFile(**entry.__dict__) for entry in files])


def episode_from_wire(message: pb.EpisodeRequest) -> Episode:
    """Return the episode in a message."""
    if message.ended_ns < message.started_ns:
        raise DataError("an episode cannot end before it starts; check the station's clock")
    if message.reruns > MAX_RERUNS:
        raise DataError(f'a slot is run again at most {MAX_RERUNS} times, not {message.reruns}')
    return Episode(message.session_id, word(Slot, message.slot, 'a slot'),
                   message.prompt[:MOST_PROMPT],
                   message.steps, word(EndReason, message.end_reason, 'an end reason'),
                   message.started_ns, message.ended_ns, message.detail[:2000],
                   message.reruns)


def manifest_from_wire(message: pb.EpisodeRequest) -> list[ManifestEntry]:
    """Return the files that the station says the episode has."""
    return [ManifestEntry(file.path, file.size, file.sha256.lower()) for file in message.files]


def set_fields(message: Message) -> dict[str, Any]:
    """Return the values of a message by field, without the optional fields that are not set."""
    return {field.name: getattr(message, field.name) for field in message.DESCRIPTOR.fields
            if not field.has_presence or message.HasField(field.name)}


def file_from_wire(message: pb.FileRequest) -> FileId:
    """Return the file that a message names."""
    return FileId(message.session_id, message.slot, message.path)


def file_to_wire(record: FileRecord) -> pb.FileReply:
    """Return the message that says what is here of a file."""
    return pb.FileReply(received=record.received, complete=record.complete)


def policy_to_wire(record: PolicyRecord, owner: str, review: PolicyReview,
                   to_maintainer: bool) -> pb.Policy:
    """
    Return the message of a policy, for its owner and the maintainers alone.

    Only maintainers are told who reported it, and where.
    """
    return pb.Policy(
        name=record.name, address=record.address, description=record.description,
        open_source=record.open_source, robot=record.robot, action_space=record.action_space,
        external_cameras=record.external_cameras, wrist_camera=record.wrist_camera,
        stereo=record.stereo, owner=owner, state=record.state.value, reason=record.reason,
        healthy=record.healthy, requested=record.requested, has_token=record.has_token,
        has_tls_ca=record.has_tls_ca, spec=record.spec, appeal=record.appeal,
        waits_for_approval=review.waits_for_approval,
        provenance=json.loads(record.provenance or '{}'), last_ns=review.activity.last_ns,
        latency_s=review.activity.latency_s, paid=review.activity.paid,
        failures=[pb.PolicyFailure(**asdict(row)) for row in review.activity.failures],
        unsafe_reports=[_report_to_wire(report, to_maintainer) for report in review.reports])


def _report_to_wire(report: UnsafeReport, to_maintainer: bool) -> pb.UnsafeReport:
    return pb.UnsafeReport(
        session_id=report.session_id, slot=report.slot, reason=report.reason,
        created_ns=report.created_ns,
        cleared_by=report.cleared_by, cleared_why=report.cleared_why,
        **({'station': report.station, 'evaluator': report.evaluator} if to_maintainer else {}))


def local_to_wire(local: LocalSession) -> pb.LocalSession:
    """Return the message of a session of a local study."""
    session, slots = local.session, local.session.slots()
    return pb.LocalSession(
        verdict=pb.FeedbackRequest(session_id=session.session_id, **present(local.verdict)),
        study=local.study, study_sha256=local.study_sha256, policy_a=session.policy_a,
        policy_b=session.policy_b, prompt=session.prompt,
        started_ns=from_iso(session.created) if session.created else 0,
        ended_ns=from_iso(session.completed) if session.completed else 0,
        seconds_a=slots['A'].seconds or 0.0, seconds_b=slots['B'].seconds or 0.0)


def local_from_wire(message: pb.LocalSession, caller: Caller) -> LocalSession:
    """Return the session of a local study that ``caller`` sends. Raises DataError."""
    verdict = from_plain(set_fields(message.verdict))
    checked(verdict)
    if not re.fullmatch('[0-9a-f]{64}', message.study_sha256) or not message.study.strip():
        raise DataError('a session of a local study needs the name and the SHA-256 of the study')
    if not re.fullmatch('[0-9A-Za-z-]{16,36}', message.verdict.session_id):
        raise DataError('a session has an identifier of 16 to 36 letters, digits and hyphens')
    if not 0 <= message.started_ns <= message.ended_ns:
        raise DataError("a session cannot end before it starts; check the computer's clock")
    named = (message.policy_a, message.policy_b, message.study)
    if not all(name.isprintable() and len(name) <= MOST_NAME for name in named) \
            or len(message.prompt) > MOST_PROMPT:
        raise DataError(f'the names of a study and its policies have at most {MOST_NAME} '
                        f'printable characters, its instruction at most {MOST_PROMPT}')
    rollouts = tuple(RoboArenaRollout(
        policy, slot, verdict.of_slot('progress', slot), round(seconds * CONTROL_RATE_HZ),
        message.prompt) for policy, slot, seconds in (
            (message.policy_a, 'A', message.seconds_a), (message.policy_b, 'B', message.seconds_b))
        if 0.0 <= seconds <= LARGEST)
    row = build_session({
        'session_uuid': message.verdict.session_id, 'valid': 1, 'policy_a': message.policy_a,
        'policy_b': message.policy_b, 'institution': caller.institution,
        'preference': message.verdict.preference, 'feedback_text': verdict.explanation,
        'evaluator': caller.name, 'created': to_iso(message.started_ns),
        'completed': to_iso(message.ended_ns), 'origin': LOCAL_STUDY, 'chosen': 0})
    return LocalSession(with_rollouts(row, rollouts), verdict, message.study.strip(),
                        message.study_sha256)


def checked(verdict: Verdict) -> None:
    """Raise DataError for a value out of range, and for a session that was not valid."""
    for field in FIELDS:
        field.check(getattr(verdict, field.name))
    check_times(verdict)
    if not verdict.valid:
        raise DataError('of a local study only sessions that count in it are sent')


def status_of(error: ArenaError) -> grpc.StatusCode:
    """Return the gRPC status of an error; its code is sent beside it, see :func:`headers_of`."""
    return next((status for kind, status in STATUS.items() if isinstance(error, kind)),
                policy_status_of(error))


def headers_of(error: ArenaError) -> tuple[tuple[str, str], ...]:
    """Return the trailing headers of a call that ends with an error."""
    return ((CODE_KEY, error.code),)


def error_of(rpc: grpc.RpcError, name: str, target: str) -> ArenaError:
    """Return the error of a failed call ``name`` of the server at ``target``."""
    code = code_of(rpc)
    if code in BY_CODE:
        return BY_CODE[code](rpc.details() or name)
    if rpc.code() in SILENT:
        return ServerUnavailable(f'{name}: the arena server at {target} does not answer '
                                 f'({in_words(rpc.details())}); check the address and the network')
    return ServerError(f'{name} at {target}: {rpc.code().name.lower()}: {rpc.details()}')
