"""
Webhooks: where an account is told of events, what waits to be sent, and the sender.

An event is kept in the transaction of what it tells of, so none is lost in a crash; one that was
sent just before a crash is sent again. It is a POST of JSON with the header ``X-Arena-Signature:
t=SECONDS,v1=HEX``, the HMAC-SHA256 of the text ``SECONDS.BODY`` with the webhook's secret.
"""

import contextlib
import hashlib
import hmac
import http.client
import json
import logging
import secrets
import socket
import ssl
import threading
import uuid
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import partial
from urllib.parse import urlsplit

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from arena_robot.core.clock import Clock
from arena_robot.core.errors import ArenaError, DataError
from arena_robot.server.store.database import Database
from arena_robot.server.store.schema import deliveries, webhooks
from arena_robot.server.threads import SideCalls

log = logging.getLogger(__name__)

EVENTS = {'policy_suspended': 'a policy of yours was suspended: `policy`, `reason`',
          'session_finished': 'a session with a policy of yours was accepted, and its pair is '
                              'public: `policy`, `session`',
          'study_arrived': 'a study that you sent has arrived, after its end: `study`, `sha256`',
          'test': '`--test` was typed'}
# Until another attempt; a receiver that is down for a day misses nothing.
PAUSES_S = (10.0, 60.0, 600.0, 3600.0, 21_600.0, 86_400.0)
SIGNATURE = 'X-Arena-Signature'
TIMEOUT_S = 5.0     # to connect, and to answer: a receiver only has to say that it heard
RECEIVERS = 8       # called beside each other; one that hangs keeps one thread for ten seconds
PORTS = {'https': 443, 'http': 80}
MOST_CHARS, MOST_WORDS = 500, 500    # of an address: the column of the database; of a failure


@dataclass(frozen=True)
class Delivery:
    """What is to be sent, the ``tries``-th time after the first; ``body`` is the exact JSON."""

    id: int
    account_id: int
    url: str
    secret: str
    event: str
    body: str
    tries: int


@dataclass(frozen=True)
class Webhook:
    """Where an account is told, '' nowhere; ``secret`` is known when it is set alone."""

    url: str = ''
    secret: str = ''
    waiting: int = 0
    failure: str = ''


def tell(connection: Connection, account_id: int, event: str, values: Mapping[str, str],
         now_ns: int) -> None:
    """Keep an event for an account that has a webhook, inside the caller's transaction."""
    wanted = connection.execute(sa.select(webhooks.c.account_id).where(
        webhooks.c.account_id == account_id)).first()
    if wanted is not None:
        connection.execute(sa.insert(deliveries).values(
            account_id=account_id, event=event, body=json.dumps({
                'id': uuid.uuid4().hex, 'event': event, 'created_ns': now_ns, **values}),
            tries=0, next_ns=now_ns, failure=''))


class Webhooks:
    """
    Keeps webhooks and sends what waits.

    ``allowed`` returns the IP address at which a host and port may be called, or raises DataError.
    """

    def __init__(self, database: Database, clock: Clock,
                 allowed: Callable[[str, int], str]) -> None:
        self._database, self._clock, self._allowed = database, clock, allowed
        self._calls = SideCalls('webhook', RECEIVERS)

    def set(self, account_id: int, url: str) -> Webhook:
        """
        Keep where an account is told, with a new secret; '' removes it and what waits for it.

        DataError for an address that may not be called.
        """
        if url:
            self._allowed(*_place(url)[1:3])
        secret = secrets.token_urlsafe(32)
        with self._database.write() as connection:
            for table in (deliveries, webhooks):
                connection.execute(sa.delete(table).where(table.c.account_id == account_id))
            if url:
                connection.execute(sa.insert(webhooks).values(
                    account_id=account_id, url=url, secret=secret,
                    created_ns=self._clock.now_ns()))
        return Webhook(url, secret) if url else Webhook()

    def of(self, account_id: int) -> Webhook:
        """Return where an account is told, how much waits, and why the newest of it failed."""
        with self._database.read() as connection:
            row = connection.execute(sa.select(webhooks.c.url).where(
                webhooks.c.account_id == account_id)).first()
            failures = connection.execute(sa.select(deliveries.c.failure).where(
                deliveries.c.account_id == account_id).order_by(
                deliveries.c.id.desc())).scalars().all()
        return Webhook(row.url, '', len(failures), (*failures, '')[0]) if row else Webhook()

    def test(self, account_id: int) -> Webhook:
        """Keep an event that says nothing; DataError without a webhook."""
        before = self.of(account_id)
        if not before.url:
            raise DataError('you have no webhook; add one with: arena policy webhook URL')
        with self._database.write() as connection:
            tell(connection, account_id, 'test', {}, self._clock.now_ns())
        return replace(before, waiting=before.waiting + 1, failure='')

    def step(self) -> 'list[Future[None]]':
        """Begin to send what is due, to the receivers beside each other."""
        with self._database.read() as connection:
            waiting = connection.execute(sa.select(deliveries.c.account_id).where(
                deliveries.c.next_ns <= self._clock.now_ns()).distinct()).scalars().all()
        return [begun for account_id in waiting if (begun := self._calls.begin(
            account_id, partial(self._send_to, account_id)))]

    def close(self) -> None:
        """Begin no further attempt."""
        self._calls.close()

    def _send_to(self, account_id: int) -> None:
        """Send what is due to a receiver, oldest first, until something fails."""
        while (delivery := self._next(account_id)) is not None:
            failure = self._failure(delivery)
            with self._database.write() as connection:
                if failure:
                    log.warning('a webhook failed: %s', failure)
                    _postpone(connection, delivery, failure, self._clock.now_ns())
                    return
                connection.execute(sa.delete(deliveries).where(deliveries.c.id == delivery.id))

    def _next(self, account_id: int) -> Delivery | None:
        d = deliveries.c
        with self._database.read() as connection:
            row = connection.execute(sa.select(
                d.id, d.account_id, webhooks.c.url, webhooks.c.secret, d.event, d.body, d.tries
            ).join_from(deliveries, webhooks, d.account_id == webhooks.c.account_id).where(
                d.account_id == account_id, d.next_ns <= self._clock.now_ns()).order_by(
                d.id).limit(1)).mappings().first()
        return Delivery(**row) if row else None

    def _failure(self, delivery: Delivery) -> str:
        """Send it; return what went wrong, '' when it was taken. A redirect is not followed."""
        try:
            scheme, host, port, path = _place(delivery.url)
            ip = self._allowed(host, port)    # the name may lead elsewhere than when it was set
            status = _post((scheme, host, port, ip), path, delivery.body.encode(), {
                'Content-Type': 'application/json', SIGNATURE: signature(
                    delivery.secret, delivery.body, self._clock.now_ns() // 10**9)})
        except (ArenaError, OSError, http.client.HTTPException) as error:
            return f'{delivery.url}: {error or type(error).__name__}'
        return '' if 200 <= status < 300 else f'{delivery.url}: it answered {status}'


def signature(secret: str, body: str, now_s: int) -> str:
    """Return the header that shows that a body was sent by who has the secret, and when."""
    code = hmac.new(secret.encode(), f'{now_s}.{body}'.encode(), hashlib.sha256)
    return f't={now_s},v1={code.hexdigest()}'


def _postpone(connection: Connection, failed: Delivery, failure: str, now_ns: int) -> None:
    """All that is due to the same receiver waits as well; what failed too often is removed."""
    is_due = sa.and_(deliveries.c.account_id == failed.account_id, deliveries.c.next_ns <= now_ns)
    connection.execute(sa.delete(deliveries).where(is_due, deliveries.c.tries >= len(PAUSES_S)))
    pause_s = PAUSES_S[min(failed.tries, len(PAUSES_S) - 1)]
    connection.execute(sa.update(deliveries).where(is_due).values(
        tries=deliveries.c.tries + 1, failure=failure[:MOST_WORDS],
        next_ns=now_ns + int(pause_s * 1e9)))


def _place(url: str) -> tuple[str, str, int, str]:
    """Return scheme, host, port and path of an address; DataError."""
    try:
        parts = urlsplit(url)
        port = parts.port or PORTS.get(parts.scheme, 0)
    except ValueError as error:
        raise DataError(f'{url:.100} is no address: {error}') from error
    if parts.scheme not in PORTS or not parts.hostname or parts.username is not None \
            or len(url) > MOST_CHARS or not url.isascii() or not url.isprintable() or ' ' in url:
        raise DataError(f'a webhook is https://host/path or http://host/path, found {url:.100}')
    return parts.scheme, parts.hostname, port, \
        (parts.path or '/') + (f'?{parts.query}' if parts.query else '')


def _post(place: tuple[str, str, int, str], path: str, body: bytes,
          headers: Mapping[str, str]) -> int:
    """Return the status that a host answers at the IP address that was checked."""
    scheme, host, port, ip = place
    line = socket.create_connection((ip, port), TIMEOUT_S)
    if scheme == 'https':
        line = ssl.create_default_context().wrap_socket(
            line, server_hostname=host, do_handshake_on_connect=False)
    # A receiver that sends a byte now and then never reaches the time limit of a read.
    end = threading.Timer(TIMEOUT_S, _cut, (line,))
    end.daemon = True
    connection = http.client.HTTPConnection(host, port)
    connection.sock = line
    end.start()
    try:
        if isinstance(line, ssl.SSLSocket):
            line.do_handshake()
        connection.request('POST', path, body, dict(headers))
        return connection.getresponse().status
    finally:
        end.cancel()
        connection.close()


def _cut(line: socket.socket) -> None:
    with contextlib.suppress(OSError):    # it is closed already
        socket.socket.shutdown(line, socket.SHUT_RDWR)
