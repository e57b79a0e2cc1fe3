"""
Reports on the policies and categories of the sessions of a server, made from its database.

The sessions of the server are the material of the reports.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from arena_robot.core.bounded import BoundedWorker
from arena_robot.core.clock import Clock, SystemClock, to_iso
from arena_robot.core.config import load
from arena_robot.core.episode import CONTROL_RATE_HZ
from arena_robot.core.errors import ArenaError, ModelBadReply
from arena_robot.core.observation import Pixels
from arena_robot.models.chat import ANSWER_TOKENS, CACHE, ChatClient, ChatSettings
from arena_robot.recording.episode.frames import first_picture
from arena_robot.reports.episode_audit import audit_session
from arena_robot.reports.policy_report.material import ReportMaterial, ReportSession
from arena_robot.reports.policy_report.narrator import ReportNarrator
from arena_robot.reports.policy_report.render import report_of
from arena_robot.reports.policy_report.statements import report_to_json
from arena_robot.reports.task_scenes import PROMPT_VERSION, SceneModel, by_rules
from arena_robot.server.config import ServerConfig
from arena_robot.server.files import FileId
from arena_robot.server.sealing import seal_of
from arena_robot.server.store.blobs import Blobs
from arena_robot.server.store.browse import Browse
from arena_robot.server.store.categories import Categories, StoredCategory
from arena_robot.server.store.database import Database
from arena_robot.server.store.reports import Reports
from arena_robot.server.store.verdicts import CountedSession, counted_sessions
from arena_robot.server.upkeep.background_work import BackgroundFunctions, sessions_to_categorise
from arena_robot.web.site.recorded import AuditCurves, AuditNote, RecordedFiles, RecordedRollout

READ_S = 60.0    # for the recordings of a session: its worker gives up before
VIEWS = 3                # of a start scene: left, right, wrist
RECORDED = 500    # the newest sessions whose files are read
_Files = Mapping[str, RecordedRollout]


@contextmanager
def opened(config: ServerConfig) -> Iterator[tuple[Database, Blobs]]:
    """Yield database and files of a server; sealed texts can be read where its key is there."""
    key, blobs = config.key_path(), Blobs(config.blobs_url())
    with Database(config.database_url(), seal_of(key) if key.exists() else None) as database:
        blobs.open()
        yield database, blobs


def save_reports(database: Database, blobs: Blobs, clock: Clock, policy: str = '',
                 since: str = '', chat: ChatClient | None = None) -> Iterator[str]:
    """
    Make and store the report on a policy, or on all whose sessions changed.

    A line about each is yielded once it is stored. With ``chat`` a model writes the prose.
    """
    material, stored = server_material(database, blobs), Reports(database, clock)
    covered = stored.covered()
    for name in [policy] if policy else [
            name for name in material.policies() if len(material.of(name)) != covered.get(name)]:
        report = ReportNarrator(chat).report(name, material, clock, since) if chat \
            else report_of(name, material, clock, since)
        made = stored.add(name, report.sessions, report.method, json.dumps(
            report_to_json(report), ensure_ascii=False, allow_nan=False))
        yield f'{name}: report {made.number}. {report.counts.words()}'


def unseen_sessions(database: Database, blobs: Blobs, categories: Categories, model: str,
                    most: int) -> Iterator[tuple[str, str, list[Pixels]]]:
    """Yield id, instruction and first pictures of the newest sessions the model has not seen."""
    browse = Browse(database)
    for session_id, prompt in categories.unseen(model, PROMPT_VERSION, most):
        videos = browse.videos(session_id).get('A', [])[:VIEWS]
        yield session_id, prompt, list(_first_pictures(blobs, session_id, videos))


def described(model: SceneModel, name: str, prompt: str, pictures: list[Pixels]
              ) -> tuple[StoredCategory, str]:
    """
    Return what the model called ``name`` says of a session, and '' or why its answer is unfit.

    A session without a fitting answer is categorised by rules, and not shown to the model again.
    """
    try:
        scene, wrong = model.describe(prompt, pictures), ''
    except ModelBadReply as error:
        scene, wrong = replace(by_rules(prompt), model=name, prompt_version=PROMPT_VERSION), str(
            error)
    return StoredCategory(scene.category, scene.method, scene.model, scene.prompt_version,
                          scene.confidence, scene.seen()), wrong


def _first_pictures(blobs: Blobs, session_id: str, videos: list[str]) -> Iterator[Pixels]:
    """Yield the first picture of each film; one that is none is left out."""
    worker = BoundedWorker()
    for path in videos:
        key = FileId(session_id, 'A', path).key
        local = blobs.local_path(key)
        with TemporaryDirectory(prefix='arena-first-') as folder:
            if local is None:
                local = Path(folder) / 'film.mp4'
                with local.open('wb') as stream:
                    stream.writelines(blobs.read(key))
            try:
                yield worker.call(first_picture, local)
            except ArenaError:
                continue


def reports_job(config_file: str) -> None:
    """Make new reports on all policies with other sessions than their last one."""
    with opened(load(ServerConfig, Path(config_file))) as (database, blobs):
        for _ in save_reports(database, blobs, SystemClock()):
            pass


def categories_job(config_file: str) -> None:
    """Show the vision model as many sessions as the configuration allows now."""
    config = load(ServerConfig, Path(config_file))
    with opened(config) as (database, blobs), closing(ChatClient(
            ChatSettings(cache=CACHE, max_tokens=ANSWER_TOKENS))) as chat:
        categories, model = Categories(database, SystemClock()), SceneModel(chat)
        for session_id, prompt, pictures in unseen_sessions(
                database, blobs, categories, chat.model,
                sessions_to_categorise(config, categories)):
            categories.store(session_id, described(model, chat.model, prompt, pictures)[0])


SERVER_JOBS = BackgroundFunctions(audit_session, reports_job, categories_job)


def server_material(database: Database, blobs: Blobs | None = None) -> ReportMaterial:
    """
    Return every session that counts, oldest first.

    With ``blobs`` the newest have latencies, audits and the moment of the first fall.
    """
    rows = counted_sessions(database)
    browse = Browse(database)
    files = RecordedFiles(blobs, AuditCurves(blobs, browse)) if blobs is not None else None
    newest = [row.id for row in rows if not row.imported][-RECORDED:]
    read = {name: files.session(name, {}, READ_S).rollouts for name in newest} if files else {}
    return ReportMaterial(tuple(_session(row, read.get(row.id, {})) for row in rows))


def _session(session: CountedSession, files: _Files) -> ReportSession:
    return ReportSession(
        session.id, to_iso(session.created_ns), session.prompt, session.category, session.verdict,
        {'A': session.policy_a, 'B': session.policy_b},
        {slot: steps / CONTROL_RATE_HZ for slot, (_, steps) in session.slots.items() if steps},
        {slot: run.numbers.inference.wait_s.p50 for slot, run in files.items()
         if run.numbers and run.numbers.inference.wait_s},
        waited=session.waited,
        audits={slot: {name: value for name, value in note.metrics.items() if value is not None}
                for slot, run in files.items() for note in _notes(run)},
        moments={slot: note.marks.falls[0][0] for slot, run in files.items()
                 for note in _notes(run) if note.marks.falls},
        ends={} if session.imported else {slot: end for slot, (end, _) in session.slots.items()},
        evaluator=session.evaluator, institution=session.institution)


def _notes(run: RecordedRollout) -> list[AuditNote]:
    """Return the first calibrated audit of a rollout, by the judge's name."""
    return [note for _, note in sorted(run.audits.items()) if note.calibrated][:1]
