"""
Rollouts that their evaluators called unsafe, and what follows for the policy.

One report keeps the policy away from the station of the report. Reports of two stations by two
persons, or one of a test driver's station, suspend it. A maintainer clears the reports. The pair
of a session may not be public, so a report names the session and the slot, and no policy.
"""

from collections.abc import Iterable
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from arena_robot.core.episode import Slot
from arena_robot.core.verdict import Verdict
from arena_robot.server.base import UnsafeReport
from arena_robot.server.store.schema import (
    accounts,
    policies,
    relayed,
    sessions,
    stations,
    unsafe_reports,
)
from arena_robot.server.store.sealed_pairs import columns, pair_of

# At how many stations, and by how many persons, a policy has to be reported to be suspended.
REPORTS_TO_SUSPEND = 2


_REACHED = sa.exists().where(
    relayed.c.session_id == unsafe_reports.c.session_id,
    relayed.c.slot == unsafe_reports.c.slot, relayed.c.queries > 0)
_REPORTS = sa.select(
    unsafe_reports, *columns(), sessions.c.notes_a, sessions.c.notes_b, sessions.c.explanation,
    sessions.c.invalid_reason, sessions.c.station_id, stations.c.name.label('station'),
    stations.c.test_driver, accounts.c.name.label('evaluator'), accounts.c.person,
    _REACHED.label('reached')).select_from(
    unsafe_reports.join(sessions).join(stations, sessions.c.station_id == stations.c.id)
    .join(accounts, sessions.c.evaluator_id == accounts.c.id)).order_by(unsafe_reports.c.id)
_STANDING_AT = _REPORTS.where(unsafe_reports.c.cleared_ns.is_(None),
                              sessions.c.station_id == sa.bindparam('station'))


def note_unsafe(connection: Connection, session_id: str, verdict: Verdict,
                now_ns: int) -> list[Slot]:
    """Store the reports of a verdict; return the slots that are reported."""
    slots = [slot for slot in Slot if verdict.of_slot('unsafe', slot)]
    for slot in slots:
        connection.execute(sa.insert(unsafe_reports).values(
            session_id=session_id, slot=slot.value, created_ns=now_ns))
    return slots


def reports_by_policy(connection: Connection) -> dict[int, list[UnsafeReport]]:
    """Return every report, the oldest first, by the number of the policy."""
    reports: dict[int, list[UnsafeReport]] = {}
    for row in connection.execute(_REPORTS):
        report = _report(row)
        reports.setdefault(report.policy_id, []).append(report)
    return reports


def reported_at(connection: Connection, station_id: int) -> set[int]:
    """Return the numbers of the policies that a standing report keeps away from a station."""
    return {_report(row).policy_id
            for row in connection.execute(_STANDING_AT, {'station': station_id})}


def why_suspended(reports: Iterable[UnsafeReport]) -> str:
    """
    Return why the standing reports on a policy suspend it; '' when they do not.

    Only a rollout in which the policy answered is evidence against it elsewhere, except at a test
    driver: there somebody watches who was asked to.
    """
    standing = [report for report in reports
                if report.stands and (report.reached or report.test_driver)]
    driver = [report for report in standing if report.test_driver]
    places = {report.station for report in standing}
    people = {report.person for report in standing}
    if not driver and min(len(places), len(people)) < REPORTS_TO_SUSPEND:
        return ''
    where = 'a test driver' if driver else f'{len(places)} stations'
    return (f'reported as unsafe by {where}: {(driver or standing)[-1].reason[:300]} – a '
            'maintainer has to look; say what you changed with: arena policy submit NAME '
            '--appeal TEXT')


def clear_reports(connection: Connection, policy_id: int, by: str, why: str, now_ns: int) -> int:
    """Note that a maintainer looked at the standing reports on a policy; return their number."""
    standing = [report for report in reports_by_policy(connection).get(policy_id, ())
                if report.stands]
    for report in standing:
        connection.execute(sa.update(unsafe_reports).where(
            unsafe_reports.c.session_id == report.session_id,
            unsafe_reports.c.slot == report.slot).values(
            cleared_ns=now_ns, cleared_by=by, cleared_why=why))
    return len(standing)


def owner_is_reported(connection: Connection, owner_id: int) -> bool:
    """Tell whether a report stands on any policy of an owner."""
    mine = set(connection.execute(sa.select(policies.c.id).where(
        policies.c.owner_id == owner_id)).scalars())
    return any(report.stands for number, reports in reports_by_policy(connection).items()
               if number in mine for report in reports)


def _report(row: Any) -> UnsafeReport:
    number = dict(zip(Slot, pair_of(row), strict=True))[Slot(row.slot)]
    notes = row.notes_a if row.slot == Slot.A.value else row.notes_b
    return UnsafeReport(
        row.session_id, row.slot, number, row.station, row.evaluator, row.person,
        bool(row.test_driver), bool(row.reached),
        notes or row.explanation or row.invalid_reason, row.created_ns, row.cleared_by,
        row.cleared_why)
