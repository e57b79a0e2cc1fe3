"""The calls of ``arena.v1``: parse the message, call the object that does the work, answer."""

import asyncio
import functools
import json
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import asdict, dataclass
from typing import Any

import arena_robot
from arena_robot.core.clock import Clock
from arena_robot.core.errors import ArenaError, DataError, Unauthorised
from arena_robot.core.verdict import from_plain
from arena_robot.server import wire
from arena_robot.server.access.call_guard import CallGuard, refuse
from arena_robot.server.access.listening import TOKEN_FRESH_S
from arena_robot.server.base import Account, Caller, LocalSession, PolicyRecord, Role, Station
from arena_robot.server.files import FileId
from arena_robot.server.joining import JoinedPolicies
from arena_robot.server.pool.policy_pool import PolicyReviews, Pool
from arena_robot.server.proto import arena_server_pb2 as pb
from arena_robot.server.proto import arena_server_pb2_grpc as pb_grpc
from arena_robot.server.sessions.acceptance import Acceptance
from arena_robot.server.sessions.credits import CreditDesk, CreditStatement
from arena_robot.server.sessions.lifecycle import SessionLifecycle
from arena_robot.server.sessions.matching import Matching, Request
from arena_robot.server.store.accounts import LIFETIME_S, Accounts, normalised
from arena_robot.server.store.policies import NewPolicy
from arena_robot.server.store.sessions import Sessions
from arena_robot.server.store.uploads import Uploads
from arena_robot.server.store.webhooks import Webhooks
from arena_robot.server.transparency.log import TransparencyLog
from arena_robot.server.upkeep.maintenance import Maintenance

SEEN_S = 1.0    # between two notes in the database that an upload goes on
STATION = frozenset({Role.STATION})
OWNER = frozenset({Role.OWNER, Role.MAINTAINER})
MAINTAINER = frozenset({Role.MAINTAINER})
PEOPLE = frozenset({Role.EVALUATOR, Role.MAINTAINER})
HOLDERS = frozenset({Role.EVALUATOR, Role.OWNER})


@dataclass(frozen=True)
class ServiceParts:
    """The objects that do the work."""

    clock: Clock
    accounts: Accounts
    sessions: Sessions
    matching: Matching
    verdicts: SessionLifecycle
    acceptance: Acceptance
    log: TransparencyLog
    uploads: Uploads
    pool: Pool
    reviews: PolicyReviews
    credits: CreditDesk
    standings: Callable[[str, bool], str]
    store_local: Callable[[LocalSession], bool]
    joined: JoinedPolicies
    maintenance: Maintenance
    webhooks: Webhooks
    sign_in: bool = True


class ArenaService(pb_grpc.ArenaServiceServicer):
    """Serves ``arena.v1``; see the proto file for what each call means."""

    def __init__(self, guard: CallGuard, parts: ServiceParts) -> None:
        self._guard = guard
        self._parts = parts

    async def Hello(self, request: pb.HelloRequest, context: Any) -> pb.HelloReply:
        """Return version and time, to anybody."""
        return pb.HelloReply(version=arena_robot.__version__, now_ns=self._parts.clock.now_ns())

    async def Assign(self, request: pb.AssignRequest, context: Any) -> pb.AssignReply:
        """Assign a blind pair."""
        def work(caller: Caller) -> pb.AssignReply:
            if not 16 <= len(request.request) <= 64:
                raise DataError('an assignment needs a request name of 16 to 64 characters')
            session = self._parts.matching.assign(
                caller, Request(request.request, self._evaluator(request), request.prompt,
                                request.equal_latency, request.third_person))
            token_a, token_b = self._parts.matching.tokens(session)
            return pb.AssignReply(session_id=session.id, commitment=session.commitment,
                                  token_a=token_a, token_b=token_b,
                                  promise=self._parts.log.promise_draw(session),
                                  photo_code=session.photo_code)
        return await self._guard.call(context, 'assign', request.request, work, STATION)

    async def Heartbeat(self, request: pb.HeartbeatRequest, context: Any) -> pb.Empty:
        """Keep a session alive."""
        def work(caller: Caller) -> pb.Empty:
            self._parts.verdicts.session_of(caller, request.session_id)
            self._parts.sessions.touch(request.session_id)
            return pb.Empty()
        return await self._guard.call(context, 'heartbeat', request.session_id, work, STATION,
                                     audited=False)

    async def StoreEpisode(self, request: pb.EpisodeRequest, context: Any) -> pb.Empty:
        """Keep how a rollout ended."""
        def work(caller: Caller) -> pb.Empty:
            self._parts.verdicts.episode(caller, wire.episode_from_wire(request),
                                         wire.manifest_from_wire(request))
            return pb.Empty()
        return await self._guard.call(context, 'store_episode', request.session_id, work, STATION)

    async def BeginUpload(self, request: pb.FileRequest, context: Any) -> pb.FileReply:
        """Announce a file."""
        def work(caller: Caller) -> pb.FileReply:
            file = self._file(caller, request)
            if not self._parts.uploads.is_whole(file, request.size, request.sha256):
                self._parts.verdicts.open_session(caller, request.session_id)
            return wire.file_to_wire(self._parts.uploads.begin(file, request.size,
                                                               request.sha256))
        return await self._guard.call(context, 'begin_upload', request.session_id, work, STATION)

    async def Upload(self, parts: AsyncIterator[pb.UploadPart], context: Any) -> pb.FileReply:
        """Append the parts of a file as they come."""
        file: FileId | None = None
        received, seen_s = 0, time.monotonic()
        async for part in parts:
            if file is not None and time.monotonic() - seen_s > SEEN_S:
                seen_s = time.monotonic()
                await self._guard.work(context, functools.partial(
                    self._parts.sessions.seen, file.session_id))
            if file is None:
                def find(caller: Caller, request: pb.FileRequest = part.file) -> FileId:
                    return self._file(caller, request)
                file = await self._guard.call(context, 'upload', part.file.session_id, find,
                                             STATION, audited=False)
            received = await self._guard.work(
                context, functools.partial(self._parts.uploads.append, file, part.offset,
                                           part.data))
        return pb.FileReply(received=received)

    async def FinishUpload(self, request: pb.FileRequest, context: Any) -> pb.FileReply:
        """Check a file and keep it."""
        def work(caller: Caller) -> pb.FileReply:
            record = self._parts.uploads.finish(self._file(caller, request))
            self._parts.acceptance.consider(request.session_id)
            return wire.file_to_wire(record)
        return await self._guard.call(context, 'finish_upload', request.session_id, work, STATION)

    async def StoreFeedback(self, request: pb.FeedbackRequest, context: Any) -> pb.FeedbackReply:
        """Keep a verdict."""
        def work(caller: Caller) -> pb.FeedbackReply:
            self._parts.verdicts.feedback(caller, request.session_id,
                                          from_plain(wire.set_fields(request)))
            session = self._parts.sessions.get(request.session_id)
            return pb.FeedbackReply(promise=self._parts.log.promise_verdict(session))
        return await self._guard.call(context, 'feedback', request.session_id, work, STATION)

    async def StoreLocal(self, request: pb.LocalSession, context: Any) -> pb.LocalReply:
        """Keep a session of a local study."""
        def work(caller: Caller) -> pb.LocalReply:
            return pb.LocalReply(known=self._parts.store_local(
                wire.local_from_wire(request, caller)))
        return await self._guard.call(context, 'store_local', request.verdict.session_id, work,
                                      PEOPLE)

    async def Abort(self, request: pb.AbortRequest, context: Any) -> pb.Empty:
        """Close a session without a verdict."""
        def work(caller: Caller) -> pb.Empty:
            self._parts.verdicts.abort(caller, request.session_id, request.reason)
            return pb.Empty()
        return await self._guard.call(context, 'abort', request.session_id, work, STATION)

    async def Reveal(self, request: pb.SessionRequest, context: Any) -> pb.RevealReply:
        """Name the policies of a judged session."""
        def work(caller: Caller) -> pb.RevealReply:
            reveal = self._parts.verdicts.reveal(caller, request.session_id)
            receipt = self._parts.log.receipt(request.session_id)
            return pb.RevealReply(nonce=reveal.nonce, policy_a=reveal.policy_a,
                                  policy_b=reveal.policy_b,
                                  receipt=json.dumps(receipt) if receipt else '',
                                  probation=reveal.probation, chosen=reveal.chosen)
        return await self._guard.call(context, 'reveal', request.session_id, work, STATION)

    async def Acceptance(self, request: pb.SessionRequest, context: Any) -> pb.AcceptanceReply:
        """Tell whether a judged session counts."""
        def work(caller: Caller) -> pb.AcceptanceReply:
            self._parts.verdicts.session_of(caller, request.session_id)
            counts, why_not = self._parts.acceptance.told(request.session_id)
            return pb.AcceptanceReply(counts=counts, why_not=why_not)
        return await self._guard.call(context, 'acceptance', request.session_id, work, STATION,
                                     audited=False)

    async def WhoAmI(self, request: pb.Empty, context: Any) -> pb.WhoReply:
        """Return who the token belongs to."""
        def work(caller: Caller) -> pb.WhoReply:
            return pb.WhoReply(name=caller.name, institution=caller.institution,
                               roles=sorted(role.value for role in caller.roles))
        return await self._guard.call(context, 'who_am_i', '', work, audited=False)

    async def Correct(self, request: pb.CorrectionRequest, context: Any) -> pb.Empty:
        """Append a correction to a session that counts, or withdraw it."""
        def work(caller: Caller) -> pb.Empty:
            self._parts.acceptance.correct(caller, request.session_id, request.text,
                                           request.withdraw)
            return pb.Empty()
        return await self._guard.call(context, 'correct', request.session_id, work, PEOPLE)

    async def RegisterPolicy(self, request: pb.Policy, context: Any) -> pb.Policy:
        """Submit a policy."""
        return await self._owner(context, 'register_policy', request.name, lambda caller:
                                 self._parts.pool.submit(caller, _new(request), request.token,
                                                         request.tls_ca))

    async def UpdatePolicy(self, request: pb.Policy, context: Any) -> pb.Policy:
        """Change a policy."""
        return await self._owner(context, 'update_policy', request.name, lambda caller:
                                 self._parts.pool.update(caller, _new(request),
                                                         _given(request, 'token'),
                                                         _given(request, 'tls_ca')))

    async def ResubmitPolicy(self, request: pb.NameRequest, context: Any) -> pb.Policy:
        """Have a suspended policy checked again."""
        return await self._owner(context, 'resubmit_policy', request.name, lambda caller:
                                 self._parts.pool.resubmit(caller, normalised(request.name)))

    async def RetirePolicy(self, request: pb.NameRequest, context: Any) -> pb.Policy:
        """Retire a policy."""
        return await self._owner(context, 'retire_policy', request.name, lambda caller:
                                 self._parts.pool.retire(caller, normalised(request.name)))

    async def ListPolicies(self, request: pb.Empty, context: Any) -> pb.Policies:
        """Return the caller's policies."""
        def work(caller: Caller) -> pb.Policies:
            return pb.Policies(policies=[self._shown(caller, r)
                                         for r in self._parts.pool.visible(caller)])
        return await self._guard.call(context, 'list_policies', '', work, OWNER, audited=False)

    async def AppealPolicy(self, request: pb.AppealRequest, context: Any) -> pb.Policy:
        """Keep what an owner says to the reports on a policy."""
        return await self._owner(context, 'appeal_policy', request.name, lambda caller:
                                 self._parts.reviews.appeal(caller, normalised(request.name),
                                                            request.text))

    async def DecidePolicy(self, request: pb.DecideRequest, context: Any) -> pb.Policy:
        """Approve a policy, clear the reports on it, or suspend it."""
        name = normalised(request.name)

        def decided(caller: Caller) -> PolicyRecord:
            if request.suspend_why:
                return self._parts.reviews.suspend(caller, name, request.suspend_why)
            return self._parts.reviews.decide(caller, name, request.approve, request.clear_why)
        return await self._owner(context, 'decide_policy', request.name, decided)

    async def Overview(self, request: pb.Empty, context: Any) -> pb.OverviewReply:
        """Return the state of the server as JSON, for maintainers."""
        return await self._guard.call(
            context, 'overview', '', lambda _: pb.OverviewReply(json=json.dumps(
                asdict(self._parts.maintenance.overview()))), MAINTAINER, audited=False)

    async def Join(self, frames: AsyncIterator[pb.JoinFrame],
                   context: Any) -> AsyncIterator[pb.JoinFrame]:
        """Carry the connections to a policy whose machine dials out."""
        first = await anext(frames)
        owner = await self._guard.call(context, 'join', first.name, lambda caller: caller.id,
                                       OWNER)

        async def until_revoked() -> None:
            while True:
                await asyncio.sleep(TOKEN_FRESH_S)
                await self._guard.call(context, 'join', first.name, lambda _: None, OWNER,
                                       audited=False)

        try:
            async for frame in self._parts.joined.hold(owner, first.name, frames,
                                                       until_revoked()):
                yield frame
        except ArenaError as error:
            await refuse(context, error)

    async def SetWebhook(self, request: pb.WebhookRequest, context: Any) -> pb.WebhookReply:
        """Keep where the caller is told of events, send a test, or say what is kept."""
        hooks = self._parts.webhooks

        def work(caller: Caller) -> pb.WebhookReply:
            if request.HasField('url'):
                return pb.WebhookReply(**asdict(hooks.set(caller.id, request.url.strip())))
            return pb.WebhookReply(**asdict((hooks.test if request.test else hooks.of)(caller.id)))
        return await self._guard.call(context, 'set_webhook', '', work, HOLDERS,
                                     audited=request.HasField('url'))

    async def Credits(self, request: pb.Empty, context: Any) -> pb.CreditsReply:
        """Return the caller's credits."""
        return await self._guard.call(context, 'credits', '', lambda caller: _statement(
            self._parts.credits.of(caller)), HOLDERS, audited=False)

    async def GiveCredits(self, request: pb.GiveRequest, context: Any) -> pb.CreditsReply:
        """Give credits to an owner of the same institution."""
        return await self._guard.call(context, 'give_credits', request.to, lambda caller:
                                      _statement(self._parts.credits.give(
                                          caller, request.to, request.amount, request.request)),
                                      HOLDERS)

    async def RequestComparisons(self, request: pb.ComparisonsRequest,
                                 context: Any) -> pb.CreditsReply:
        """Pay for comparisons of a policy."""
        return await self._guard.call(context, 'request_comparisons', request.policy,
                                      lambda caller: _statement(self._parts.credits.request(
                                          caller, normalised(request.policy), request.amount,
                                          request.request)), HOLDERS)

    async def AddAccount(self, request: pb.Account, context: Any) -> pb.TokenReply:
        """Create an account and its first token."""
        def work(caller: Caller) -> pb.TokenReply:
            roles = [wire.word(Role, text, 'a role') for text in request.roles]
            account = self._parts.accounts.add_account(request.name, request.institution, roles,
                                                       request.person)
            return pb.TokenReply(token=self._parts.accounts.issue(account))
        return await self._guard.call(context, 'add_account', request.name, work, MAINTAINER)

    async def AddStation(self, request: pb.Station, context: Any) -> pb.TokenReply:
        """Create a station and its first token."""
        def work(caller: Caller) -> pb.TokenReply:
            station = self._parts.accounts.add_station(Station(
                0, request.name, request.institution, request.robot, request.external_cameras,
                request.wrist_camera, request.stereo, request.test_driver, request.depth))
            return pb.TokenReply(token=self._parts.accounts.issue(station))
        return await self._guard.call(context, 'add_station', request.name, work, MAINTAINER)

    async def RotateToken(self, request: pb.HolderRequest, context: Any) -> pb.TokenReply:
        """Revoke a holder's tokens and return a new one."""
        def work(caller: Caller) -> pb.TokenReply:
            return pb.TokenReply(token=self._parts.accounts.rotate(
                self._holder(request), request.lifetime_s or LIFETIME_S))
        return await self._guard.call(context, 'rotate_token', request.name, work, MAINTAINER)

    async def RevokeTokens(self, request: pb.HolderRequest, context: Any) -> pb.Empty:
        """Revoke a holder's tokens."""
        def work(caller: Caller) -> pb.Empty:
            self._parts.accounts.revoke_all(self._holder(request))
            return pb.Empty()
        return await self._guard.call(context, 'revoke_tokens', request.name, work, MAINTAINER)

    async def Standings(self, request: pb.StandingsRequest, context: Any) -> pb.StandingsReply:
        """Return a ranking as JSON."""
        def work(caller: Caller) -> pb.StandingsReply:
            return pb.StandingsReply(json=self._parts.standings(request.method,
                                                                request.open_source))
        return await self._guard.call(context, 'standings', request.method, work, audited=False)

    async def _owner(self, context: Any, name: str, target: str,
                     change: Callable[[Caller], PolicyRecord]) -> pb.Policy:
        return await self._guard.call(context, name, target,
                                     lambda caller: self._shown(caller, change(caller)), OWNER)

    def _shown(self, caller: Caller, record: PolicyRecord) -> pb.Policy:
        return wire.policy_to_wire(record,
                                   self._parts.accounts.account_by_id(record.owner_id).name,
                                   self._parts.reviews.of(record),
                                   Role.MAINTAINER in caller.roles)

    def _holder(self, request: pb.HolderRequest) -> Account | Station:
        find = self._parts.accounts.station if request.station else self._parts.accounts.account
        return find(request.name)

    def _evaluator(self, request: pb.AssignRequest) -> str:
        """Return the evaluator's account: the holder of the personal token."""
        if not request.evaluator_token:
            if self._parts.sign_in:
                raise Unauthorised('this server gives pairs to evaluators who have signed in: '
                                   "enter the evaluator's personal token at the station")
            return str(request.evaluator)
        person = self._parts.accounts.caller(request.evaluator_token)
        if Role.EVALUATOR not in person.roles:
            raise Unauthorised(f"the token of '{person.name}' is not one of an evaluator")
        return person.name

    def _file(self, caller: Caller, request: pb.FileRequest) -> FileId:
        self._parts.verdicts.session_of(caller, request.session_id)
        self._parts.sessions.seen(request.session_id)    # a station that sends files is alive
        return wire.file_from_wire(request)


def _statement(statement: CreditStatement) -> pb.CreditsReply:
    return pb.CreditsReply(balance=statement.balance, paid=statement.paid,
                           lines=[pb.CreditLine(**line.__dict__) for line in statement.lines])


def _given(message: pb.Policy, name: str) -> Any:
    return getattr(message, name) if message.HasField(name) else None


def _new(message: pb.Policy) -> NewPolicy:
    return NewPolicy(
        normalised(message.name), message.address, message.description, message.open_source,
        message.robot or 'any', message.action_space or None,
        **{name: _given(message, name) for name in ('external_cameras', 'wrist_camera', 'stereo')},
        provenance=json.dumps({key: said.strip() for key, said in message.provenance.items()})
        if message.provenance else None)
