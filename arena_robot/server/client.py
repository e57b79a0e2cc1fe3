"""The server as a station's arena: the remote implementation of the session's interface."""

import contextlib
import dataclasses
import functools
import json
import logging
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import grpc

import arena_robot
from arena_robot.core.clock import Clock
from arena_robot.core.episode import Episode, Slot
from arena_robot.core.errors import (
    ArenaError,
    Conflict,
    DataError,
    NotRevealed,
    ServerError,
    ServerUnavailable,
    Unauthorised,
)
from arena_robot.core.files import write_json
from arena_robot.core.pair import Assignment, Reveal, StationInfo, said, verdict_sha256
from arena_robot.core.verdict import Verdict, present
from arena_robot.policy.base import OpenPolicy, Policy
from arena_robot.policy.grpc.channel import headers, open_channel
from arena_robot.policy.grpc.client import GrpcPolicy
from arena_robot.policy.options import MIB, CallOptions
from arena_robot.policy.resizing import Resizing
from arena_robot.records.episode_file import episode_files
from arena_robot.server import wire
from arena_robot.server.base import Role, TooManyCalls, UnknownSession
from arena_robot.server.files import ManifestEntry, digest_of
from arena_robot.server.proto import arena_server_pb2 as pb
from arena_robot.server.proto import arena_server_pb2_grpc as pb_grpc
from arena_robot.server.transparency.keys import DRAW, VERDICT, read_promise, read_receipt
from arena_robot.server.wire import error_of

log = logging.getLogger(__name__)

PART_BYTES = MIB
# Both policies of a session are prepared before the spec of one is answered.
PREPARED_S = 60.0
# Between calls that were too many: a bucket of ServerLimits is full again after four seconds.
PAUSES_S = (0.2, 0.5, 1.0, 2.0)


@dataclass(frozen=True)
class ServerAddress:
    """
    Where the server is and who calls: ``host:port``, the station's token.

    ``ca`` is a PEM file to trust; with it, or with ``tls``, the line is encrypted.
    """

    target: str
    token: str
    tls: bool = False
    ca: Path | None = None
    timeout_s: float = 15.0

    def __repr__(self) -> str:
        """Mask the token."""
        return f'ServerAddress({self.target!r}, token=***, tls={self.tls or self.ca is not None})'


class Calls:
    """The raw calls of ``arena.v1`` with deadlines, the token, and errors of the suite."""

    def __init__(self, address: ServerAddress) -> None:
        self.address = address
        self._options = CallOptions(token=address.token, tls_ca=address.ca)
        self._channel = open_channel(
            address.target, address.tls or address.ca is not None, self._options)
        self._stub = pb_grpc.ArenaServiceStub(self._channel)

    def __call__(self, name: str, message: Any, timeout_s: float | None = None) -> Any:
        """
        Call ``name`` with a message, or with what a function returns: an iterator of messages.

        Errors are ServerErrors. When the server reports too many calls, it is called again after
        a pause, up to four times.
        """
        for pause_s in (*PAUSES_S, None):
            try:
                return self.once(name, message() if callable(message) else message, timeout_s)
            except TooManyCalls:
                if pause_s is None:
                    raise
                time.sleep(pause_s)
        raise AssertionError('the last turn returns or raises')

    def once(self, name: str, message: Any, timeout_s: float | None = None) -> Any:
        """Call ``name`` once; TooManyCalls when the server reports too many."""
        try:
            return getattr(self._stub, name)(
                message, timeout=timeout_s or self.address.timeout_s,
                metadata=headers(self._options))
        except grpc.RpcError as error:
            raise error_of(error, name, self.address.target) from error

    def close(self) -> None:
        """Close the connection."""
        self._channel.close()


class SlotTokens(Protocol):
    """Tokens by session and slot."""

    def keep(self, session_id: str, tokens: dict[str, str]) -> None:
        """Store the tokens of a session, by slot."""

    def find(self, session_id: str) -> dict[str, str] | None:
        """Return the tokens of a session, by slot; None when there are none."""

    def forget(self, session_id: str) -> None:
        """Delete the tokens of a session, which is revealed or aborted."""


class RemoteArena:
    """
    An arena on another machine; ``tokens`` keeps the slot tokens (None: in memory).

    The file ``keys`` keeps the key with which a server signed its first promise to this station;
    without it nothing is compared with before.
    """

    def __init__(self, address: ServerAddress, clock: Clock, max_skew_s: float = 300.0,
                 tokens: SlotTokens | None = None, keys: Path | None = None) -> None:
        self._address = address
        self._clock = clock
        self._max_skew_s = max_skew_s
        self._calls = Calls(address)
        self._tokens = TokensInMemory() if tokens is None else tokens
        self._policies: dict[tuple[str, Slot], OpenPolicy] = {}
        self._people: dict[str, str] = {}
        self._keys = keys

    def close(self) -> None:
        """Close every connection."""
        for policy in self._policies.values():
            policy.close()
        self._policies.clear()
        self._calls.close()

    def check(self) -> float:
        """
        Return the server's clock minus the station's in seconds.

        Raises ServerUnavailable when nobody answers, ServerError when the clocks are too far
        apart for records of both to be compared.
        """
        reply = self._calls('Hello', pb.HelloRequest(version=arena_robot.__version__), 5.0)
        offset_s = (reply.now_ns - self._clock.now_ns()) * 1e-9
        if abs(offset_s) > self._max_skew_s:
            raise ServerError(f"this station's clock is {-offset_s:+.0f} s off the server's; "
                              'synchronise both with NTP')
        return float(offset_s)

    def sign_in(self, token: str) -> str:
        """
        Return the name of the evaluator whom a personal token belongs to; kept in memory only.

        Raises Unauthorised when it is no evaluator's token.
        """
        address = dataclasses.replace(self._address, token=token.strip())
        with contextlib.closing(Calls(address)) as calls:
            who = calls('WhoAmI', pb.Empty(), 5.0)
        if Role.EVALUATOR.value not in who.roles:
            raise Unauthorised(f"the token of '{who.name}' is not one of an evaluator")
        self._people[who.name] = address.token
        return str(who.name)

    def assign(self, station: StationInfo, evaluator: str, prompt: str,
               third_person: str = 'left') -> Assignment:
        """
        Return a new blind pair; asked again under the same name when the line was cut.

        The server takes the evaluator's identity from the token of :meth:`sign_in`.
        """
        self.check()
        request = pb.AssignRequest(request=uuid.uuid4().hex, evaluator=evaluator, prompt=prompt,
                                   evaluator_token=self._people.get(evaluator, ''),
                                   equal_latency=station.equal_latency,
                                   third_person=third_person)
        try:
            reply = self._calls('Assign', request)
        except ServerUnavailable:
            reply = self._calls('Assign', request)
        promise = read_promise(reply.promise, DRAW, reply.session_id)
        if promise.get('commitment') != reply.commitment:
            raise ServerError('the server promised another commitment than it gave')
        self._pin(promise['key'])
        self._tokens.keep(reply.session_id, {Slot.A.value: reply.token_a,
                                             Slot.B.value: reply.token_b})
        return Assignment(reply.session_id, reply.commitment, reply.promise, reply.photo_code)

    def _pin(self, key: str) -> None:
        """Keep the server's key of the log; ServerError when it is not the one from before."""
        if self._keys is None:
            return
        kept = json.loads(self._keys.read_text(encoding='utf-8')) if self._keys.exists() else {}
        if kept.setdefault(self._address.target, key) != key:
            raise ServerError(
                f'the server {self._address.target} signs its log with the key {key}, and signed '
                f'it with {kept[self._address.target]} before; ask its maintainer, and delete '
                f'{self._keys} if the change is meant')
        self._keys.parent.mkdir(parents=True, exist_ok=True)
        write_json(self._keys, kept)

    def policy(self, session_id: str, slot: Slot) -> Policy:
        """Return the policy behind a slot, through the relay; it takes whole camera frames."""
        key = (session_id, slot)
        tokens = self._tokens.find(session_id)
        if tokens is None:
            raise UnknownSession(f'session {session_id:.40} was not assigned to this station, '
                                 'or is over')
        if key not in self._policies:
            secure = self._address.tls or self._address.ca is not None
            self._policies[key] = GrpcPolicy(self._address.target, secure, CallOptions(
                token=tokens[slot.value], tls_ca=self._address.ca, joints=0,    # as the arm has
                connect_timeout_s=PREPARED_S)).open()
        return Resizing(self._policies[key], whole=False)

    def heartbeat(self, session_id: str, state: str) -> None:
        """Report that the session is running; Conflict when the server has cancelled it."""
        self._calls('Heartbeat', pb.HeartbeatRequest(session_id=session_id, state=state))

    def upload(self, session_id: str, episode: Episode, folder: Path) -> None:
        """Send how the rollout ended, what its files are, and those that are not there yet."""
        files = manifest_of(folder)
        self._calls('StoreEpisode', wire.episode_to_wire(episode, files))
        refused: list[ArenaError] = []
        for file in files:
            try:
                self.send(session_id, episode.slot.value, folder / file.path, file)
            except (Conflict, DataError) as error:
                refused.append(error)
        if refused:    # after all the others: one bad file does not hold them back
            raise type(refused[0])('; '.join(map(str, refused)))

    def send(self, session_id: str, slot: str, source: Path, file: ManifestEntry) -> None:
        """Send one file from where the server has it up to; DataError when it changed."""
        request = pb.FileRequest(session_id=session_id, slot=slot, path=file.path,
                                 size=file.size, sha256=file.sha256)
        begun = self._calls('BeginUpload', request)
        if begun.complete:
            return
        if begun.received < request.size:
            parts = functools.partial(_parts, request, source, begun.received)
            self._calls('Upload', parts, self._address.timeout_s + request.size / MIB)
        self._calls('FinishUpload', request, self._address.timeout_s + request.size / (50 * MIB))

    def feedback(self, session_id: str, verdict: Verdict) -> str:
        """Store the verdict; return the server's promise, '' when it is none of this verdict."""
        reply = self._calls('StoreFeedback', pb.FeedbackRequest(session_id=session_id,
                                                                **present(verdict)))
        try:
            promise = read_promise(reply.promise, VERDICT, session_id)
            self._pin(promise['key'])
            if promise.get('sha256') != verdict_sha256(said(verdict)):
                raise DataError('it is of another verdict than this station sent')
        except (DataError, ServerError) as error:
            log.error('the server took the verdict of session %s, and its promise is worth '
                      'nothing: %s', session_id, error)
            return ''
        return str(reply.promise)

    def abort(self, session_id: str, reason: str) -> None:
        """Close a session without a verdict."""
        self._calls('Abort', pb.AbortRequest(session_id=session_id, reason=reason))
        self._forget(session_id)

    def standing(self, session_id: str) -> tuple[bool, str]:
        """Return whether a judged session counts, and what is missing until it does."""
        reply = self._calls('Acceptance', pb.SessionRequest(session_id=session_id))
        return bool(reply.counts), str(reply.why_not)

    def reveal(self, session_id: str) -> Reveal:
        """Return the names behind the slots, once the session is complete."""
        try:
            reply = self._calls('Reveal', pb.SessionRequest(session_id=session_id))
        except NotRevealed:
            self._forget(session_id)
            raise
        self._forget(session_id)
        return Reveal(reply.nonce, reply.policy_a, reply.policy_b, reply.receipt,
                      reply.probation, self._objection(reply.receipt),
                      reply.chosen if reply.HasField('chosen') else None)

    def _objection(self, receipt: str) -> str:
        """Return what is wrong with the proofs of a receipt, '' when nothing is."""
        try:
            if receipt:
                self._pin(read_receipt(json.loads(receipt)).head.key)
        except (DataError, ServerError, ValueError) as error:
            return str(error)
        return ''

    def _forget(self, session_id: str) -> None:
        """Close the connections of a session that is over, and forget its tokens."""
        self._tokens.forget(session_id)
        for key in [(session_id, slot) for slot in Slot]:
            if (policy := self._policies.pop(key, None)) is not None:
                policy.close()


def manifest_of(folder: Path) -> list[ManifestEntry]:
    """Return the files of an episode with their hashes."""
    return [ManifestEntry(path.name, path.stat().st_size, digest_of(path))
            for path in episode_files(folder)]


def _parts(request: pb.FileRequest, source: Path, offset: int) -> Iterator[pb.UploadPart]:
    with source.open('rb') as stream:
        stream.seek(offset)
        first: pb.FileRequest | None = request
        while block := stream.read(PART_BYTES):
            yield pb.UploadPart(file=first, offset=offset, data=block)
            first = None
            offset += len(block)


class TokensInMemory:
    """Tokens in memory only; lost when the process ends."""

    def __init__(self) -> None:
        self._tokens: dict[str, dict[str, str]] = {}

    def keep(self, session_id: str, tokens: dict[str, str]) -> None:
        """Store the tokens of a session, by slot."""
        self._tokens[session_id] = tokens

    def find(self, session_id: str) -> dict[str, str] | None:
        """Return the tokens of a session, by slot; None when there are none."""
        return self._tokens.get(session_id)

    def forget(self, session_id: str) -> None:
        """Delete the tokens of a session."""
        self._tokens.pop(session_id, None)
