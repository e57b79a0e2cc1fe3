"""
The tables. Times are integer nanoseconds of the server's clock; progress is 0..1.

Text that people typed is kept as they typed it; pages escape it when they show it. A column of
:class:`SealedText` is sealed in the database and plain in the program.
"""

import weakref
from typing import Any

from sqlalchemy import (
    DDL,
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    ColumnElement,
    Float,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
    and_,
    case,
    event,
    false,
    or_,
    select,
)
from sqlalchemy.engine import Dialect, Engine
from sqlalchemy.types import TypeDecorator, TypeEngine

from arena_robot.core.verdict import FIELDS, Kind, VerdictField
from arena_robot.robots.arms import ROBOTS
from arena_robot.server.sealing import Seal, is_sealed

_SEALS: weakref.WeakKeyDictionary[Dialect, Seal] = weakref.WeakKeyDictionary()


class SealedText(TypeDecorator[str]):
    """Text that is sealed on its way to the database; without a key it is stored as it is."""

    impl = Text
    cache_ok = True

    def __init__(self, about: str) -> None:
        super().__init__()
        self.about = about

    def process_bind_param(self, value: Any, dialect: Dialect) -> Any:
        """Return the text as the database keeps it."""
        seal = _SEALS.get(dialect)
        return seal.seal(value, self.about) if seal is not None and value else value

    def process_result_value(self, value: Any, dialect: Dialect) -> Any:
        """Return the text; as it is kept when this program has no key."""
        seal = _SEALS.get(dialect)
        return seal.open(value, self.about) if seal and value and is_sealed(value) else value


class SealedLines(SealedText):
    """Lines that are appended in parts, ``column + part``; each part is sealed by itself."""

    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Dialect) -> Any:
        """Return the part as the database keeps it: one line."""
        kept = super().process_bind_param(value, dialect)
        return f'{kept}\n' if kept and is_sealed(kept) else kept

    def process_result_value(self, value: Any, dialect: Dialect) -> Any:
        """Return all lines; those stored without a key are as they are."""
        if not value or 'sealed' not in value:
            return value
        opened = super().process_result_value
        return ''.join(opened(line, dialect) if is_sealed(line) else f'{line}\n'
                       for line in value.splitlines())


def use_seal(engine: Engine, seal: Seal) -> None:
    """Let an engine seal and open the columns of this type."""
    _SEALS[engine.dialect] = seal


metadata = MetaData(naming_convention={
    'ix': 'ix_%(table_name)s_%(column_0_N_name)s', 'uq': 'uq_%(table_name)s_%(column_0_N_name)s',
    'ck': 'ck_%(table_name)s_%(constraint_name)s', 'pk': 'pk_%(table_name)s',
    'fk': 'fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s'})


def _id() -> Column[int]:
    return Column('id', Integer, primary_key=True, autoincrement=True)


def _verdict_column(field: VerdictField) -> Column[Any]:
    kinds: dict[Kind, TypeEngine[Any]] = {
        Kind.SHARE: Float(), Kind.FLAG: Boolean(), Kind.TEXT: Text(), Kind.NUMBER: Float(),
        Kind.LISTED: Text(),
        Kind.CHOICE: String(max((len(value) for value in field.choices), default=0))}
    return Column(field.name, kinds[field.kind], nullable=not field.is_text)


accounts = Table(
    'accounts', metadata, _id(),
    Column('name', String(200), nullable=False, unique=True),
    Column('institution', String(200), nullable=False),
    Column('roles', String(200), nullable=False),
    Column('person', String(200), nullable=False),
    Column('created_ns', BigInteger, nullable=False))

stations = Table(
    'stations', metadata, _id(),
    Column('name', String(200), nullable=False, unique=True),
    Column('institution', String(200), nullable=False),
    Column('robot', String(50), nullable=False),
    Column('external_cameras', Integer, nullable=False),
    Column('wrist_camera', Boolean, nullable=False),
    Column('stereo', Boolean, nullable=False),
    Column('test_driver', Boolean, nullable=False),
    Column('created_ns', BigInteger, nullable=False),
    Column('depth', Boolean, nullable=False, server_default=false()))

tokens = Table(
    'tokens', metadata, _id(),
    Column('digest', String(64), nullable=False, unique=True),
    Column('account_id', ForeignKey('accounts.id'), nullable=True),
    Column('station_id', ForeignKey('stations.id'), nullable=True),
    Column('created_ns', BigInteger, nullable=False),
    Column('expires_ns', BigInteger, nullable=True),
    Column('revoked_ns', BigInteger, nullable=True),
    CheckConstraint('(account_id IS NULL) <> (station_id IS NULL)', name='one_holder'))

policies = Table(
    'policies', metadata, _id(),
    Column('name', String(200), nullable=False, unique=True),
    Column('owner_id', ForeignKey('accounts.id'), nullable=False, index=True),
    Column('address', String(500), nullable=False),
    Column('open_source', Boolean, nullable=False),
    Column('description', Text, nullable=False),
    Column('robot', String(50), nullable=False),
    Column('action_space', String(50), nullable=False),
    Column('external_cameras', Integer, nullable=False),
    Column('wrist_camera', Boolean, nullable=False),
    Column('stereo', Boolean, nullable=False),
    Column('state', String(20), nullable=False, index=True),
    Column('reason', Text, nullable=False),
    Column('failures', Integer, nullable=False),
    Column('requested', Integer, nullable=False),
    Column('healthy', Boolean, nullable=False),
    Column('checked_ns', BigInteger, nullable=False),
    Column('created_ns', BigInteger, nullable=False),
    Column('updated_ns', BigInteger, nullable=False),
    Column('token', SealedText('policies.token'), nullable=False, server_default=''),
    Column('tls_ca', Text, nullable=False, server_default=''),
    # The needs that the owner stated, separated by commas; the spec as its server said it, JSON.
    Column('stated', Text, nullable=False, server_default=''),
    Column('spec', Text, nullable=False, server_default=''),
    # A maintainer said that it may enter the pool; what its owner said to reports last.
    Column('approved', Boolean, nullable=False, server_default=false()),
    Column('appeal', Text, nullable=False, server_default=''),
    # What its owner says of where it comes from, JSON: paper, weights …
    Column('provenance', Text, nullable=False, server_default=''))

# A search on SQLite reads the prompts in the index; PostgreSQL has no room for a long one there.
NEWEST = {'ix_sessions_state_created_ns_id': ('postgresql', ()),
          'ix_sessions_state_created_ns_id_prompt': ('sqlite', ('prompt',))}
sessions = Table(
    'sessions', metadata,
    Column('id', String(36), primary_key=True),
    Column('request', String(64), nullable=False, unique=True),
    Column('station_id', ForeignKey('stations.id'), nullable=False),
    Column('evaluator_id', ForeignKey('accounts.id'), nullable=False),
    Column('institution', String(200), nullable=False),
    Column('prompt', Text, nullable=False),
    Column('category', String(100), nullable=False),
    Column('state', String(20), nullable=False),
    # Empty until the pair is public; see sealed_pairs.
    Column('policy_a_id', ForeignKey('policies.id'), nullable=True),
    Column('policy_b_id', ForeignKey('policies.id'), nullable=True),
    Column('probation', Boolean, nullable=False),
    Column('nonce', String(64), nullable=False),
    Column('commitment', String(64), nullable=False),
    Column('token_a', String(64), nullable=False, unique=True),
    Column('token_b', String(64), nullable=False, unique=True),
    Column('created_ns', BigInteger, nullable=False),
    Column('seen_ns', BigInteger, nullable=False),
    Column('ended_ns', BigInteger, nullable=True),
    Column('revealed_ns', BigInteger, nullable=True),
    Column('rollouts', Integer, nullable=False),
    *(_verdict_column(field) for field in FIELDS),
    Column('imported', Boolean, nullable=False),
    Column('accepted_ns', BigInteger, nullable=True),
    Column('incomplete', Text, nullable=False),
    Column('conflict', String(20), nullable=False),
    Column('withdrawn_ns', BigInteger, nullable=True),
    Column('repeats', String(36), nullable=True),
    # The nonce is here until it is public: the session is accepted, or revealed.
    Column('sealed_nonce', SealedText('sessions.nonce'), nullable=False, server_default=''),
    Column('final', Boolean, nullable=False, server_default=false()),
    # No answer of either policy comes earlier; 0: not measured yet, null: they may differ.
    Column('equal_latency_s', Float, nullable=True),
    Column('sealed_pair', SealedText('sessions.pair'), nullable=False, server_default=''),
    Column('third_person', String(5), nullable=False, server_default=''),
    Column('photo_code', String(8), nullable=False, server_default=''),
    # Whether the pair was chosen by earlier verdicts; null: not known, as of imports.
    Column('chosen', Boolean, nullable=True),
    # A lab's own study that was sent when it had ended: its name, and the hash of its file.
    Column('study', Text, nullable=False, server_default=''),
    Column('study_sha256', String(64), nullable=False, server_default=''),
    # Which maintainer hides what people typed, and why; the pages and downloads leave it out.
    Column('hidden', Text, nullable=False, server_default=''),
    *(Index(name, 'state', 'created_ns', 'id', *more).ddl_if(dialect)
      for name, (dialect, more) in NEWEST.items()),
    Index('ix_sessions_repeats', 'repeats', unique=True),
    Index('ix_sessions_state_seen_ns', 'state', 'seen_ns'),
    Index('ix_sessions_evaluator_id_accepted_ns_created_ns', 'evaluator_id', 'accepted_ns',
          'created_ns'),
    Index('ix_sessions_evaluator_id_created_ns', 'evaluator_id', 'created_ns'),
    Index('ix_sessions_station_id_created_ns', 'station_id', 'created_ns'),
    Index('ix_sessions_station_id_state', 'station_id', 'state'),
    Index('ix_sessions_policy_a_id_created_ns_id', 'policy_a_id', 'created_ns', 'id'),
    Index('ix_sessions_policy_b_id_created_ns_id', 'policy_b_id', 'created_ns', 'id'),
    Index('ix_sessions_institution_created_ns_id', 'institution', 'created_ns', 'id'),
    Index('ix_sessions_institution_category_created_ns_id', 'institution', 'category',
          'created_ns', 'id'),
    Index('ix_sessions_category_created_ns_id', 'category', 'created_ns', 'id'),
    Index('ix_sessions_preference_created_ns_id', 'preference', 'created_ns', 'id'))

# Rollouts that their evaluators called unsafe; a maintainer clears a report with a reason.
unsafe_reports = Table(
    'unsafe_reports', metadata, _id(),
    Column('session_id', ForeignKey('sessions.id'), nullable=False),
    Column('slot', String(1), nullable=False),
    Column('created_ns', BigInteger, nullable=False),
    Column('cleared_ns', BigInteger, nullable=True, index=True),
    Column('cleared_by', String(200), nullable=False, server_default=''),
    Column('cleared_why', Text, nullable=False, server_default=''),
    UniqueConstraint('session_id', 'slot'))

episodes = Table(
    'episodes', metadata, _id(),
    Column('session_id', ForeignKey('sessions.id'), nullable=False),
    Column('slot', String(1), nullable=True),
    Column('policy_id', ForeignKey('policies.id'), nullable=True, index=True),
    Column('prompt', Text, nullable=False),
    Column('steps', Integer, nullable=False),
    Column('end_reason', String(30), nullable=False),
    Column('detail', Text, nullable=False),
    Column('progress', Float, nullable=True),
    Column('started_ns', BigInteger, nullable=False),
    Column('ended_ns', BigInteger, nullable=False),
    Column('fault', String(10), nullable=False),
    Column('reruns', Integer, nullable=False, server_default='0'),
    # The share of its steps in which the arm held because the policy had not answered.
    Column('waited', Float, nullable=True),
    Index('ix_episodes_session_id_slot', 'session_id', 'slot'))

relayed = Table(
    'relayed', metadata, _id(),
    Column('session_id', ForeignKey('sessions.id'), nullable=False),
    Column('slot', String(1), nullable=False),
    Column('station_id', ForeignKey('stations.id'), nullable=False),
    Column('policy_id', ForeignKey('policies.id'), nullable=True),
    Column('queries', Integer, nullable=False),
    Column('actions', Integer, nullable=False),
    Column('failures', Integer, nullable=False),
    Column('failure', String(200), nullable=False),
    Column('refusals', Integer, nullable=False),
    Column('cuts', Integer, nullable=False),
    Column('begun', Integer, nullable=False),
    Column('first_ns', BigInteger, nullable=False),
    Column('last_ns', BigInteger, nullable=False),
    Column('last_step', Integer, nullable=False),
    Column('last_actions', Integer, nullable=False),
    Column('exact', SealedLines('relayed.exact'), nullable=False),
    UniqueConstraint('session_id', 'slot'),
    Index('ix_relayed_policy_id_last_ns', 'policy_id', 'last_ns'))

# How many notes of a relay's journal are in ``relayed``; a session may be of another database.
relay_notes = Table(
    'relay_notes', metadata,
    Column('journal', String(32), primary_key=True),
    Column('session_id', String(100), primary_key=True),
    Column('slot', String(10), primary_key=True),
    Column('notes', Integer, nullable=False),
    Column('written_ns', BigInteger, nullable=False))

manifests = Table(
    'manifests', metadata, _id(),
    Column('session_id', ForeignKey('sessions.id'), nullable=False),
    Column('slot', String(1), nullable=False),
    Column('sha256', String(64), nullable=False),
    Column('content', Text, nullable=False),
    Column('created_ns', BigInteger, nullable=False),
    UniqueConstraint('session_id', 'slot'))

# What the check of a session's recordings found; ``seen`` is a hash of what it depends on.
recording_checks = Table(
    'recording_checks', metadata,
    Column('session_id', ForeignKey('sessions.id'), primary_key=True),
    Column('seen', String(64), nullable=False),
    Column('why', Text, nullable=False),
    Column('created_ns', BigInteger, nullable=False))

files = Table(
    'files', metadata, _id(),
    Column('session_id', ForeignKey('sessions.id'), nullable=False),
    Column('slot', String(1), nullable=False),
    Column('path', String(300), nullable=False),
    Column('size', BigInteger, nullable=False),
    Column('sha256', String(64), nullable=False),
    Column('received', BigInteger, nullable=False),
    Column('complete', Boolean, nullable=False),
    Column('updated_ns', BigInteger, nullable=False),
    Column('erased_ns', BigInteger, nullable=True),
    UniqueConstraint('session_id', 'slot', 'path'))

# How many bytes of files a station announced on a day (UTC, since 1970).
upload_days = Table(
    'upload_days', metadata,
    Column('station_id', ForeignKey('stations.id'), primary_key=True),
    Column('day', Integer, primary_key=True, autoincrement=False),
    Column('bytes', BigInteger, nullable=False))

balances = Table(
    'balances', metadata,
    Column('holder', String(210), primary_key=True),
    Column('amount', BigInteger, nullable=False),
    Column('may_be_negative', Boolean, nullable=False),
    CheckConstraint('may_be_negative OR amount >= 0', name='not_negative'))

entries = Table(
    'entries', metadata, _id(),
    Column('transfer', String(100), nullable=False),
    Column('holder', ForeignKey('balances.holder'), nullable=False, index=True),
    Column('amount', BigInteger, nullable=False),
    Column('reason', String(100), nullable=False),
    Column('created_ns', BigInteger, nullable=False),
    UniqueConstraint('transfer', 'holder'))

audit = Table(
    'audit', metadata, _id(),
    Column('created_ns', BigInteger, nullable=False),
    Column('actor', String(210), nullable=False),
    Column('call', String(100), nullable=False),
    Column('target', String(210), nullable=False),
    Column('outcome', String(50), nullable=False),
    Column('detail', Text, nullable=False))

# ``number`` is the place in the Merkle tree, from 0; ``body`` the exact bytes of the leaf.
log = Table(
    'log', metadata,
    Column('number', Integer, primary_key=True, autoincrement=False),
    Column('session_id', String(36), nullable=False, index=True),
    Column('body', Text, nullable=False),
    Column('created_ns', BigInteger, nullable=False))

# Who said of which kind a session's task is; the newest of a person counts, else the newest.
categories = Table(
    'categories', metadata, _id(),
    Column('session_id', ForeignKey('sessions.id'), nullable=False, index=True),
    Column('category', String(100), nullable=False),
    Column('method', String(20), nullable=False),
    Column('model', String(200), nullable=False),
    Column('prompt_version', String(20), nullable=False),
    Column('confidence', Float, nullable=True),
    Column('scene', Text, nullable=False),
    Column('actor', String(200), nullable=False),
    Column('created_ns', BigInteger, nullable=False))

# ``number`` counts the reports on a policy from 1; an address with it stays.
reports = Table(
    'reports', metadata, _id(),
    Column('policy', String(200), nullable=False),
    Column('number', Integer, nullable=False),
    Column('sessions', Integer, nullable=False),
    Column('method', String(300), nullable=False),
    Column('content', Text, nullable=False),
    Column('created_ns', BigInteger, nullable=False),
    UniqueConstraint('policy', 'number'))

# What people say of the citations of a report; ``place`` is section.statement.citation, from 0.
# The newest of each person counts.
citation_checks = Table(
    'citation_checks', metadata, _id(),
    Column('policy', String(200), nullable=False),
    Column('number', Integer, nullable=False),
    Column('place', String(40), nullable=False),
    Column('holds', Boolean, nullable=False),
    Column('actor', String(200), nullable=False),
    Column('created_ns', BigInteger, nullable=False),
    Index('ix_citation_checks_policy_number', 'policy', 'number'))

# Where an account is told of events, and what waits to be sent there.
webhooks = Table(
    'webhooks', metadata,
    Column('account_id', ForeignKey('accounts.id'), primary_key=True),
    Column('url', String(500), nullable=False),
    Column('secret', SealedText('webhooks.secret'), nullable=False),
    Column('created_ns', BigInteger, nullable=False))

deliveries = Table(
    'deliveries', metadata, _id(),
    Column('account_id', ForeignKey('accounts.id'), nullable=False, index=True),
    Column('event', String(30), nullable=False),
    Column('body', Text, nullable=False),
    Column('tries', Integer, nullable=False),
    Column('next_ns', BigInteger, nullable=False),
    Column('failure', Text, nullable=False))

# What a caller (a hash) took from a rate in ten seconds, at all servers; older rows are removed.
rate_counts = Table(
    'rate_counts', metadata,
    Column('kind', String(20), primary_key=True),
    Column('caller', String(32), primary_key=True),
    Column('period', BigInteger, primary_key=True, autoincrement=False),
    Column('count', BigInteger, nullable=False))


HIDDEN = 'hidden by a maintainer'
_TYPED = {field.name for field in FIELDS if field.is_text}


def shown(name: str) -> Any:
    """Return a column of the sessions as the public sees it: without a text that is hidden."""
    column = sessions.c[name]
    if name != 'prompt' and name not in _TYPED:
        return column
    return case((sessions.c.hidden != '', HIDDEN if name == 'prompt' else ''),
                else_=column).label(name)


def at_robot(robot: str) -> ColumnElement[bool]:
    """Return the condition for the sessions of the stations with a kind of robot."""
    return sessions.c.station_id.in_(select(stations.c.id).where(stations.c.robot == robot))


def robot_column() -> ColumnElement[str]:
    """Return the kind of a session's robot: '' where it was imported, or was a lab's study."""
    c, robot = sessions.c, select(stations.c.robot).where(stations.c.id == sessions.c.station_id)
    return case((or_(c.imported, c.study_sha256 != ''), ''),
                else_=robot.scalar_subquery()).label('robot')


def in_pool(robot: str = '') -> ColumnElement[bool]:
    """
    Return the condition for the sessions that are ranked together: those on one kind of robot.

    Without a ``robot`` it is that of the server's first station; DROID's arms then count as one.
    """
    if robot:
        return at_robot(robot)
    droid = tuple(ROBOTS)
    first = select(stations.c.robot).order_by(stations.c.id).limit(1).scalar_subquery()
    return sessions.c.station_id.in_(select(stations.c.id).where(or_(
        stations.c.robot == first, and_(stations.c.robot.in_(droid), first.in_(droid)))))


def _append_only(table: Table) -> None:
    """Make the database itself refuse to change or delete a row."""
    words = f'{table.name} is append-only'
    statements = [('sqlite', f"""CREATE TRIGGER {table.name}_no_{verb.lower()}
            BEFORE {verb} ON {table.name}
            BEGIN SELECT RAISE(ABORT, '{words}'); END""") for verb in ('UPDATE', 'DELETE')]
    statements += [
        ('postgresql', f"""CREATE FUNCTION {table.name}_refuse() RETURNS trigger AS $$
            BEGIN RAISE EXCEPTION '{words}'; END $$ LANGUAGE plpgsql"""),
        ('postgresql', f"""CREATE TRIGGER {table.name}_append_only
            BEFORE UPDATE OR DELETE ON {table.name}
            FOR EACH ROW EXECUTE FUNCTION {table.name}_refuse()""")]
    for dialect, statement in statements:
        event.listen(table, 'after_create', DDL(  # type: ignore[no-untyped-call]
            statement).execute_if(dialect=dialect))


for _table in (audit, entries, log):
    _append_only(_table)
