"""Builds the server from its configuration, runs it and closes it."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import chain, count
from typing import Any, TypeVar

import grpc
import numpy as np
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_health.v1._async import HealthServicer

from arena_robot.core.clock import Clock
from arena_robot.core.errors import ServerError
from arena_robot.policy.base import PolicySpec
from arena_robot.policy.grpc.server import add_policy
from arena_robot.server.access import listening
from arena_robot.server.access.call_guard import (
    BoundedAudit,
    CallGuard,
    MalformedRequests,
    SiteCalls,
)
from arena_robot.server.access.rates import SharedRates, rates_of
from arena_robot.server.base import CONFLICT_RULES, LocalSession, PolicyTarget, Role
from arena_robot.server.config import ServerConfig
from arena_robot.server.counters import Counters
from arena_robot.server.joining import JoinedPolicies
from arena_robot.server.pool.addresses import allowed_ip
from arena_robot.server.pool.policy_pool import PolicyChecks, PolicyReviews, Pool
from arena_robot.server.proto import arena_server_pb2_grpc
from arena_robot.server.relay.record import RelayRecord
from arena_robot.server.relay.service import Relay
from arena_robot.server.results.standings import Results
from arena_robot.server.sealing import seal_of
from arena_robot.server.service import ArenaService, ServiceParts
from arena_robot.server.sessions.acceptance import Acceptance, CountingRules, enter_imported
from arena_robot.server.sessions.assignment import Aim
from arena_robot.server.sessions.credits import CreditDesk, grant_weekly
from arena_robot.server.sessions.lifecycle import SessionLifecycle
from arena_robot.server.sessions.matching import DrawRules, Matching
from arena_robot.server.sessions.recordings import Read, Recordings
from arena_robot.server.store import redraws
from arena_robot.server.store.accounts import Accounts
from arena_robot.server.store.audit import PERIOD_S, Audit, RateCounts
from arena_robot.server.store.blobs import Blobs
from arena_robot.server.store.browse import Browse
from arena_robot.server.store.database import Database, Turn
from arena_robot.server.store.evaluations import insert_local
from arena_robot.server.store.ledger import Ledger
from arena_robot.server.store.policies import Policies
from arena_robot.server.store.schema import policies, sessions
from arena_robot.server.store.sessions import Sessions, Slots
from arena_robot.server.store.uploads import Uploads
from arena_robot.server.store.webhooks import Webhooks
from arena_robot.server.threads import Housekeeping
from arena_robot.server.transparency.keys import LogKey
from arena_robot.server.transparency.log import TransparencyLog
from arena_robot.server.upkeep.background_work import (
    AUDIT_STEP_S,
    NO_FUNCTIONS,
    AuditWorker,
    BackgroundFunctions,
    background_work,
)
from arena_robot.server.upkeep.erasing import FileEraser
from arena_robot.server.upkeep.maintenance import Maintenance

# A submitted policy is not kept waiting for the next probe of all policies.
REVIEW_S = 10.0

T = TypeVar('T')
Check = Callable[[PolicyTarget], str]

# Threads: those of policies only wait, one for each policy behind openpi's protocol.
POOLS = {'people': 6, 'stations': 12, 'policies': 64, 'strangers': 4}
GRACE_S = 2.0       # for running calls when the server closes
# Periods of the chores, each as long as its result can well be waited for.
RECORD_S = 5.0      # until another server knows what this one relayed
ACCEPT_S = 60.0     # until a session that waits is looked at again
ERASE_S = 3600.0    # files are kept for days
CREDITS_S = 600.0   # credits are given once a week
WORK_S = 60.0       # BackgroundWork counts its steps in these


class ArenaServer:
    """
    The central service, in one process.

    ``conformance`` and ``probe`` say what is wrong with the policy at an address ('' nothing),
    ``spec`` what it needs; see :class:`arena_robot.server.pool.policy_pool.PolicyChecks`.
    ``functions`` are called in processes of their own. ``read_recordings`` reads those of a
    session in the thread of a call, for tests; None: in processes of their own.
    ``open`` migrates the database and listens; ``port`` is the one really taken.
    """

    def __init__(self, config: ServerConfig, clock: Clock, conformance: Check,
                 probe: Check, spec: Callable[[PolicyTarget], PolicySpec] | None = None,
                 functions: BackgroundFunctions = NO_FUNCTIONS,
                 read_recordings: Read | None = None) -> None:
        self.config = config
        self._read_recordings = read_recordings
        self.port, self.metrics_port = config.port, -1
        self._clock = clock
        # People, stations and waits for policies have separate threads.
        self._pools = {name: ThreadPoolExecutor(count, thread_name_prefix=name)
                       for name, count in POOLS.items()}
        self._loop = asyncio.new_event_loop()
        self._runner = threading.Thread(target=self._loop.run_forever, name='grpc', daemon=True)
        self._server: grpc.aio.Server | None = None
        self.counters = Counters()
        self._seal = seal_of(config.key_path())
        self.database = Database(config.database_url(), self._seal)
        self.blobs = Blobs(config.blobs_url())
        self._own = [(config.host, config.port), (config.host, config.site_port)]
        self._make_parts(config, clock)
        self.joined = JoinedPolicies()
        self.pool = Pool(self.policies, PolicyChecks(conformance, probe, spec),
                         config.allowed_networks, self._own,
                         probation=config.probation_sessions > 0,
                         approval=config.approve_policies,
                         failures=config.failures_to_suspend,
                         failed=lambda chore: self.counters.add('chore_failures', chore),
                         joined=self.joined)
        self._make_guards(config)
        self.reviews = PolicyReviews(self.database, clock, self.policies,
                                     self.acceptance.promote, config.approve_policies)
        self.maintenance = Maintenance(
            self.database, clock, self.pool, self.reviews, self.audit, config)
        self._audits = AuditWorker(functions.audit, config.audit, Browse(self.database),
                                   self.uploads, self.blobs) \
            if config.audit and functions.audit else None
        self._works = background_work(config, functions, self.results, self.database, clock)
        self._housekeeping = Housekeeping(
            self._chores(), lambda chore: self.counters.add('chore_failures', chore))
        self._metrics: Callable[[], None] | None = None

    def _make_guards(self, config: ServerConfig) -> None:
        """Make what calls pass, those by token and those of the site."""
        self._guard = CallGuard(self.accounts, self._bounded_audit, self._pools['people'],
                                self._pools['stations'])
        self.site_calls = SiteCalls(self._guard, self.accounts, self._rates, self.pool.submit,
                                    self.pool.visible, config.sign_in,
                                    lambda: next(self._seal.derived('site sessions')))

    def _make_parts(self, config: ServerConfig, clock: Clock) -> None:
        """Make what works on the database and the files."""
        self.accounts = Accounts(self.database, clock)
        self.policies = Policies(self.database, clock)
        self.sessions = Sessions(self.database, clock)
        self.slots = Slots(self.database)
        self.audit = Audit(self.database, clock)
        self._rates = rates_of(config.limits, clock)
        self._shared_rates = SharedRates(self._rates, RateCounts(self.database))
        self._turn = Turn(self.database, 'housekeeper')
        self._bounded_audit = BoundedAudit(self.audit, self._rates.audit_lines, self.counters)
        self.ledger = Ledger(self.database, clock)
        self.webhooks = Webhooks(self.database, clock, partial(
            allowed_ip, allowed_networks=config.allowed_networks, own=self._own))
        self.uploads = Uploads(self.database, self.blobs, config.data / 'spool', clock,
                               config.limits)
        self.results = Results(self.database)
        self.record = RelayRecord(self.database, clock,
                                  config.data / f'relayed-{config.port}.jsonl')
        self.log = TransparencyLog(self.database, LogKey(config.data / 'log.key'), clock)
        self.eraser = FileEraser(
            self.database, self.blobs, self.uploads, self.log, clock,
            {'': config.keep_files_days, **config.keep_files_days_of})
        self.recordings = Recordings(self.database, self.blobs, clock, config.max_pace,
                                     self._read_recordings)
        self.acceptance = Acceptance(
            self.database, clock, self.blobs, self.record, self.log,
            CountingRules(config.conflicts, config.max_pace, config.probation_sessions,
                          config.approve_policies), self.recordings, self.results.forget)
        self.verdicts = SessionLifecycle(self.database, clock, self.acceptance, self.record,
                                         config.failures_to_suspend)
        self.matching = Matching(
            self.database, clock, config.weights, np.random.default_rng(config.seed),
            self.results.posterior if config.informative else lambda _: None,
            DrawRules(config.conflicts, config.redraws_per_day,
                      config.evaluator_sessions_per_day, config.station_sessions_per_day,
                      Aim(config.goal, config.top_k), config.photo_code_share), self._seal)

    def open(self) -> None:
        """Migrate the database, listen, start the chores; ConfigError when that fails."""
        listening.require_encryption(self.config)
        self.config.data.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.config.data.chmod(0o700)
        self._seal.load()
        self.database.open()
        self.blobs.open()
        self.record.open()
        self._runner.start()
        try:
            enter_imported(self.database, self.log)
            self.port = self._on_loop(self._listen)
            if self.config.metrics_port >= 0:
                self._open_metrics()
        except BaseException:
            self.close()
            raise
        self._housekeeping.open()
        self._shared_rates.open()

    def close(self) -> None:
        """Finish running calls, stop listening, close the database; can be called twice."""
        self._housekeeping.close()
        self._shared_rates.close()
        self.pool.close()
        self.webhooks.close()
        self.recordings.close()
        if self._audits is not None:
            self._audits.close()
        for work in self._works.values():
            work.close()
        if self._metrics is not None:
            self._metrics()
        self._turn.release()
        if self._server is not None:
            self._on_loop(self._unlisten)
        if self._runner.is_alive():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._runner.join(GRACE_S)
        if not self._loop.is_running() and not self._loop.is_closed():
            self._loop.close()
        for pool in self._pools.values():
            pool.shutdown(wait=True, cancel_futures=True)
        self.record.close()
        self.database.close()

    def __enter__(self) -> 'ArenaServer':
        self.open()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def first_token(self) -> str | None:
        """
        Return a maintainer's token on a server without a maintainer, None on any other.

        Imported evaluations bring accounts of evaluators, one perhaps called ``maintainer``.
        """
        with self.database.alone('first token'):
            if self.accounts.names_with(Role.MAINTAINER):
                return None
            taken, names = self.accounts.names(), (f'maintainer-{k}' for k in count(2))
            free = next(name for name in chain(['maintainer'], names) if name not in taken)
            return self.accounts.issue(self.accounts.add_account(free, 'local', list(_PEOPLE)))

    def rules(self) -> dict[str, Any]:
        """Return the rules by which sessions count, and what became of the sessions so far."""
        config = self.config
        with self.database.read() as connection:
            conduct = redraws.conduct(connection)
        return {'conflicts': {rule: CONFLICT_RULES[rule] for rule in config.conflicts},
                'max_pace': config.max_pace, 'redraws_per_day': config.redraws_per_day,
                'columns': redraws.OUTCOMES, 'conduct': conduct}

    def _chores(self) -> dict[str, tuple[float, Callable[[], object]]]:
        config, alone = self.config, self._by_one
        audits = {'audit': (AUDIT_STEP_S, alone(self._audits.step))} if self._audits else {}
        return {
            **audits,
            **{name: (WORK_S, alone(work.step)) for name, work in self._works.items()},
            'review': (min(REVIEW_S, config.probe_period_s), alone(self.pool.begin_reviews)),
            'probe': (config.probe_period_s, alone(self.pool.begin_probes)),
            'cancel': (min(10.0, config.session_timeout_s / 4.0),
                       alone(lambda: self.verdicts.cancel_overdue(config.session_timeout_s))),
            'record': (RECORD_S, self.record.flush),
            'webhooks': (RECORD_S, alone(self.webhooks.step)),
            'rates': (PERIOD_S, alone(self._shared_rates.clean)),
            'erase': (ERASE_S, alone(self.eraser.step)),
            'accept': (ACCEPT_S, alone(self.acceptance.consider_all)),
            'credits': (CREDITS_S, alone(lambda: grant_weekly(self.database, self._clock,
                                                              config.credits))),
        }

    def _open_metrics(self) -> None:
        from arena_robot.server.upkeep.metrics import Gauges, MetricsPage
        page = MetricsPage(self.counters, Gauges(
            lambda: self.database.count_by(sessions.c.state),
            lambda: self.database.count_by(policies.c.state), self._turn.held, self.config.data))
        self.metrics_port, self._metrics = page.open(self.config.metrics_port), page.close

    def _by_one(self, chore: Callable[[], object]) -> Callable[[], object]:
        """Return a chore that is done by one of the servers of the database."""
        return lambda: self._turn.held() and chore()

    def _services(self) -> tuple[ArenaService, Relay]:
        parts = ServiceParts(self._clock, self.accounts, self.sessions, self.matching,
                             self.verdicts, self.acceptance, self.log,
                             self.uploads, self.pool, self.reviews,
                             CreditDesk(self.database, self._clock), self.results.standings_json,
                             self._store_local, self.joined, self.maintenance, self.webhooks,
                             self.config.evaluator_sign_in)
        relay = Relay(self.slots, self.policies, self.record,
                      self._rates.relay_calls, self._pools['stations'], self._pools['policies'],
                      self.pool.reachable)
        return ArenaService(self._guard, parts), relay

    def _store_local(self, given: LocalSession) -> bool:
        known = insert_local(self.database, self._clock, given)
        enter_imported(self.database, self.log)
        return known

    async def _listen(self) -> int:
        limits = self.config.limits
        let_in = listening.admission(limits, self._rates,
                                     (self.accounts, self.slots, self._bounded_audit),
                                     self._pools['strangers'], self.counters)
        server = grpc.aio.server(interceptors=(let_in, MalformedRequests()),
                                 options=listening.options(limits))
        service, self._relay = self._services()
        generic = listening.Unregistered(server)
        arena_server_pb2_grpc.add_ArenaServiceServicer_to_server(service, generic)
        add_policy(server, self._relay)
        healthy = HealthServicer()
        await healthy.set('', health_pb2.HealthCheckResponse.SERVING)
        health_pb2_grpc.add_HealthServicer_to_server(healthy, generic)
        port = listening.bind(server, f'{self.config.host}:{self.config.port}', self.config.tls)
        await server.start()
        self._server = server
        return port

    async def _unlisten(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            await server.stop(GRACE_S)
            await self._relay.close()

    def _on_loop(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        try:
            return asyncio.run_coroutine_threadsafe(work(), self._loop).result(30.0)
        except TimeoutError as error:
            raise ServerError('the server did not start or stop within 30 s') from error


_PEOPLE = (Role.MAINTAINER, Role.OWNER, Role.EVALUATOR)
