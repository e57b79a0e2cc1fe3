"""The sessions of a server as the material of policy reports."""

from collections.abc import Mapping

from arena_robot.core.episode import CONTROL_RATE_HZ
from arena_robot.core.iso_time import to_iso
from arena_robot.reports.policy_report.material import ReportMaterial, ReportSession
from arena_robot.server.blobs import Blobs
from arena_robot.server.store.browse import Browse
from arena_robot.server.store.counted import CountedSession, counted_sessions
from arena_robot.server.store.database import Database
from arena_robot.web.site.audit_curves import AuditCurves, AuditNote
from arena_robot.web.site.recorded import RecordedFiles, RecordedRollout

RECORDED = 500    # the newest sessions whose files are read
_Files = Mapping[str, RecordedRollout]


def server_material(database: Database, blobs: Blobs | None = None) -> ReportMaterial:
    """
    Return every session that counts, oldest first.

    With ``blobs`` the newest have latencies, audits and the moment of the first fall.
    """
    rows = counted_sessions(database)
    browse = Browse(database)
    files = RecordedFiles(blobs, AuditCurves(blobs, browse)) if blobs is not None else None
    newest = [one.id for one in rows if not one.imported][-RECORDED:] if files else []
    read = {one: files.session(one, {}).rollouts for one in newest} if files else {}
    return ReportMaterial(tuple(_session(one, read.get(one.id, {})) for one in rows))


def _session(one: CountedSession, files: _Files) -> ReportSession:
    return ReportSession(
        one.id, to_iso(one.created_ns), one.prompt, one.category, one.verdict,
        {'A': one.policy_a, 'B': one.policy_b},
        {slot: steps / CONTROL_RATE_HZ for slot, (_, steps) in one.slots.items() if steps},
        {slot: run.numbers.inference.wait_s.p50 for slot, run in files.items()
         if run.numbers and run.numbers.inference.wait_s},
        waited=one.waited,
        audits={slot: {name: value for name, value in note.metrics.items() if value is not None}
                for slot, run in files.items() for note in _notes(run)},
        moments={slot: note.marks.falls[0][0] for slot, run in files.items()
                 for note in _notes(run) if note.marks.falls},
        ends={} if one.imported else {slot: end for slot, (end, _) in one.slots.items()},
        evaluator=one.evaluator, institution=one.institution)


def _notes(run: RecordedRollout) -> list[AuditNote]:
    """Return the first calibrated audit of a rollout, by the judge's name."""
    return [note for _, note in sorted(run.audits.items()) if note.calibrated][:1]
