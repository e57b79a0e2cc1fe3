"""Whose fault the end of a rollout was, decided by what the relay saw and by nothing else."""

from enum import Enum

from arena_robot.core.episode import EndReason
from arena_robot.server.store import relayed
from arena_robot.server.store.database import Connection
from arena_robot.server.store.policies import note_failures, suspend
from arena_robot.server.store.relayed import RelayedRollout


class Fault(str, Enum):
    """Who caused that a rollout ended early; ``NONE`` when it did not."""

    NONE = ''
    POLICY = 'policy'
    NETWORK = 'network'
    STATION = 'station'


def fault_of(end: EndReason, seen: RelayedRollout | None) -> Fault:
    """
    Return whose fault an end was.

    A station's report alone never counts against a policy: the relay must have seen it fail.
    """
    if end in (EndReason.SAFETY_STOP, EndReason.DRIVER_ERROR, EndReason.INTERRUPTED):
        return Fault.STATION
    if end is not EndReason.POLICY_ERROR:
        return Fault.NONE
    if seen is None:
        return Fault.NETWORK
    if seen.failure:
        return Fault.POLICY
    if seen.refusals and not seen.cuts:
        return Fault.STATION
    return Fault.NETWORK if seen.cuts or not seen.queries else Fault.STATION


def judge_policy(connection: Connection, policy_id: int, limit: int, now_ns: int) -> bool:
    """
    Suspend a policy whose newest ``limit`` rollouts all failed at the relay; tell whether it was.

    Only failures at two stations or more suspend it. After as many at one station it is marked,
    and the server checks it itself.
    """
    newest = relayed.newest_of_policy(connection, policy_id, limit)
    failed = 0
    for one in newest:
        if not one.failure:
            break
        failed += 1
    note_failures(connection, policy_id, failed, now_ns)
    if failed < limit or len({one.station_id for one in newest}) < 2:
        return False
    return suspend(connection, policy_id, f'{failed} rollouts in a row failed at the relay, at '
                   f'several stations; the last: {newest[0].failure}', now_ns)
