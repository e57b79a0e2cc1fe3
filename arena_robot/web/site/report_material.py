"""The sessions of a server as the material of policy reports."""

from arena_robot.core.episode import CONTROL_RATE_HZ, Slot
from arena_robot.core.iso_time import to_iso
from arena_robot.reports.policy_report.material import ReportMaterial, ReportSession
from arena_robot.server.store.counted import CountedSession, counted_sessions
from arena_robot.server.store.database import Database


def server_material(database: Database) -> ReportMaterial:
    """Return every session that counts, oldest first."""
    return ReportMaterial(tuple(_session(one) for one in counted_sessions(database)))


def _session(one: CountedSession) -> ReportSession:
    said = one.verdict
    assert said.preference is not None
    progress = {slot.value: said.of_slot('progress', slot) for slot in Slot}
    scene = {name: value.value for name, value in (
        ('lighting', said.lighting), ('clutter', said.clutter)) if value is not None}
    return ReportSession(
        one.id, to_iso(one.created_ns), one.prompt, one.category, said.preference,
        {'A': one.policy_a, 'B': one.policy_b},
        {slot: value for slot, value in progress.items() if value is not None},
        {slot: steps / CONTROL_RATE_HZ for slot, (_, steps) in one.slots.items() if steps},
        ends={} if one.imported else {slot: end for slot, (end, _) in one.slots.items()},
        scene=scene, words=tuple(text for text in (said.explanation, said.notes) if text.strip()),
        notes={slot.value: text for slot in Slot if (text := said.of_slot('notes', slot).strip())},
        evaluator=one.evaluator, institution=one.institution)
