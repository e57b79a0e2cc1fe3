"""What a maintainer looks at once a day: stations, people, sessions, policies, tokens, disk."""

import shutil
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from arena_robot.core.clock import DAY_S, to_iso
from arena_robot.server.base import PolicyState, SessionState
from arena_robot.server.config import Approval
from arena_robot.server.store.database import Connection
from arena_robot.server.store.policies import waits_for_approval
from arena_robot.server.store.schema import accounts, files, policies, sessions, stations, tokens

DAY_NS = int(1e9 * DAY_S)
WEEK_NS, SOON_NS = 7 * DAY_NS, 30 * DAY_NS    # a new token is asked for before its last month ends
NEWEST = 5                                    # incomplete sessions that are named
MOST_HIDDEN = 100                             # a page of them; older ones stay hidden


@dataclass(frozen=True)
class Overview:
    """
    The state of a server.

    ``stations`` are name, robot, when one was last heard, and sessions of seven days; ``accounts``
    those of people. ``running`` are the sessions that run, ``incomplete`` the newest ones that do
    not count yet, with what is missing. ``attention`` are policies that wait for a person or do
    not answer. ``hidden`` are the sessions whose texts a maintainer hides, and why. ``expiring``
    are holders of tokens that end within 30 days.
    """

    people: dict[str, int]
    stations: list[dict[str, Any]]
    sessions: dict[str, int]
    incomplete: list[dict[str, str]]
    policies: dict[str, int]
    attention: list[dict[str, str]]
    expiring: list[dict[str, str]]
    disk: dict[str, int]
    accounts: list[dict[str, str]]
    running: list[dict[str, str]]
    hidden: list[dict[str, str]]

    def text(self) -> str:
        """Return it as lines for a terminal."""
        def counts(values: dict[str, int]) -> str:
            return ', '.join(f'{count} {word}' for word, count in values.items()) or 'none'

        lines = [f'sessions   {counts(self.sessions)}',
                 *(f"  {row['session']}  runs at {row['station']}" for row in self.running),
                 *(f"  {row['session']}  {row['missing']}" for row in self.incomplete),
                 *(f"  {row['session']}  texts hidden by {row['why']}" for row in self.hidden),
                 f'policies   {counts(self.policies)}',
                 *(f"  {row['policy']}: {row['why']}" for row in self.attention),
                 f'stations   {len(self.stations)}',
                 *(f"  {row['station']} of {row['institution']}: {row['week']} sessions in 7 "
                   f"days, last heard {row['seen'] or 'never'}" for row in self.stations),
                 f'people     {counts(self.people)}',
                 f'tokens     {len(self.expiring)} end within 30 days',
                 *(f"  {row['holder']}: {row['until']}" for row in self.expiring),
                 f"disk       {self.disk['free'] / 1e9:.1f} GB free, "
                 f"{self.disk['files'] / 1e9:.1f} GB of uploaded files"]
        return '\n'.join(lines)


def overview(connection: Connection, data: Path, now_ns: int, rule: Approval) -> Overview:
    """Return the state of a server whose data folder is ``data``."""
    seen = connection.execute(
        sa.select(stations.c.name, stations.c.institution, stations.c.robot,
                  stations.c.test_driver, sa.func.max(sessions.c.seen_ns),
                  sa.func.sum(sa.case((sessions.c.created_ns > now_ns - WEEK_NS, 1), else_=0)))
        .join_from(stations, sessions, sessions.c.station_id == stations.c.id, isouter=True)
        .group_by(stations.c.id, stations.c.name, stations.c.institution, stations.c.robot,
                  stations.c.test_driver)
        .order_by(stations.c.name)).all()
    stored = connection.scalar(sa.select(sa.func.sum(files.c.size)).where(
        files.c.complete, files.c.erased_ns.is_(None)))
    people = _accounts(connection)
    return Overview(
        dict(sorted(Counter(
            word for row in people for word in row['roles'].split(', ') if word).items())),
        [{'station': name, 'institution': place, 'robot': robot, 'test_driver': bool(driver),
          'week': int(week or 0), 'seen': to_iso(last_ns) if last_ns else ''}
         for name, place, robot, driver, last_ns, week in seen],
        _session_counts(connection), _incomplete(connection), _by_state(connection),
        _attention(connection, rule), _expiring(connection, now_ns),
        {'free': shutil.disk_usage(data).free, 'files': int(stored or 0)},
        people, _running(connection), _hidden(connection))


def _accounts(connection: Connection) -> list[dict[str, str]]:
    c = accounts.c
    return [{'account': row.name, 'institution': row.institution, 'person': row.person,
             'roles': ', '.join(sorted(filter(None, row.roles.split(','))))}
            for row in connection.execute(
                sa.select(c.name, c.institution, c.person, c.roles).order_by(c.name))]


def _running(connection: Connection) -> list[dict[str, str]]:
    rows = connection.execute(
        sa.select(sessions.c.id, stations.c.name, sessions.c.created_ns).join_from(
            sessions, stations, sessions.c.station_id == stations.c.id).where(
            sessions.c.state == SessionState.RUNNING.value).order_by(sessions.c.created_ns))
    return [{'session': number, 'station': name, 'since': to_iso(since_ns)}
            for number, name, since_ns in rows]


def _hidden(connection: Connection) -> list[dict[str, str]]:
    rows = connection.execute(sa.select(sessions.c.id, sessions.c.hidden).where(
        sessions.c.hidden != '').order_by(sessions.c.created_ns.desc()).limit(MOST_HIDDEN))
    return [{'session': number, 'why': why} for number, why in rows]


def _by_state(connection: Connection) -> dict[str, int]:
    counted = connection.execute(
        sa.select(policies.c.state, sa.func.count()).where(policies.c.address != '')
        .group_by(policies.c.state).order_by(policies.c.state))
    return {row.state: row[1] for row in counted}


def _session_counts(connection: Connection) -> dict[str, int]:
    c = sessions.c
    cases = {'running': c.state == SessionState.RUNNING.value,
             'counted': c.accepted_ns.is_not(None) & c.withdrawn_ns.is_(None),
             'incomplete': _is_incomplete(), 'withdrawn': c.withdrawn_ns.is_not(None),
             'given up': c.state.in_((SessionState.ABORTED.value, SessionState.CANCELLED.value))}
    row = connection.execute(sa.select(*(
        sa.func.sum(sa.case((case, 1), else_=0)) for case in cases.values()))).one()
    return {word: int(count or 0) for word, count in zip(cases, row, strict=True)}


def _is_incomplete() -> Any:
    c = sessions.c
    return (c.state == SessionState.DONE.value) & c.accepted_ns.is_(None) & (c.incomplete != '')


def _incomplete(connection: Connection) -> list[dict[str, str]]:
    rows = connection.execute(
        sa.select(sessions.c.id, sessions.c.incomplete).where(_is_incomplete())
        .order_by(sessions.c.created_ns.desc()).limit(NEWEST))
    return [{'session': number, 'missing': missing} for number, missing in rows]


def _attention(connection: Connection, rule: Approval) -> list[dict[str, str]]:
    """Return the policies that a person has to look at, and why."""
    c, found = policies.c, []
    live = (PolicyState.PROBATION.value, PolicyState.POOL.value)
    for row in connection.execute(sa.select(c.id, c.name, c.state, c.reason, c.healthy, c.appeal)
                                  .where(c.address != '').order_by(c.name)):
        why = []
        if row.state == PolicyState.SUSPENDED.value:
            why.append(f"suspended ({row.reason or 'no reason kept'})")
        if row.appeal:
            why.append(f'its owner appeals: {row.appeal}')
        if row.state in live and not row.healthy:
            why.append(f"does not answer ({row.reason or 'no reason kept'})")
        if row.state == PolicyState.PROBATION.value and waits_for_approval(
                connection, row.id, rule):
            why.append('waits for `arena admin policy --approve`')
        if why:
            found.append({'policy': row.name, 'why': '; '.join(why)})
    return found


def _expiring(connection: Connection, now_ns: int) -> list[dict[str, str]]:
    holder = sa.func.coalesce(accounts.c.name, stations.c.name)
    last = sa.func.max(tokens.c.expires_ns)
    rows = connection.execute(
        sa.select(holder, last).select_from(
            tokens.outerjoin(accounts, tokens.c.account_id == accounts.c.id)
            .outerjoin(stations, tokens.c.station_id == stations.c.id))
        .where(tokens.c.revoked_ns.is_(None), tokens.c.expires_ns > now_ns)
        .group_by(holder).having(last < now_ns + SOON_NS).order_by(last))
    return [{'holder': name, 'until': to_iso(until_ns)} for name, until_ns in rows]
