"""
Make small files in every format of this release, which later releases go on reading.

  python docs/release_files.py test/data/0.1.0

A session is led by the page, the station and the server of the tests. Its journal, session file,
database, log and tables are kept, a bag with its derived files, the schema on PostgreSQL, and a
message of each type of both protobuf services with every field set. test/test_release_files.py
reads them, and test/server/test_database.py both databases.
"""

import base64
import json
import os
import shutil
import sqlite3
import sys
import tempfile
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from alembic.script import ScriptDirectory
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from sqlalchemy.dialects import postgresql

from arena_robot.policy.proto import arena_policy_pb2
from arena_robot.recording.episode.derive import derive
from arena_robot.records.audit_file import EpisodeAudit, write_audit
from arena_robot.records.episode_file import SceneMatch, write_scene_match
from arena_robot.records.session_file import JOURNAL, RECEIPT_FILE, SESSION_FILE
from arena_robot.server.proto import arena_server_pb2
from arena_robot.server.results.exports import export_tables
from arena_robot.server.store.database import alembic_config
from arena_robot.server.store.schema import metadata
from arena_robot.web.site.downloads import standings_of

TESTS = Path(__file__).parent.parent / 'test'
SERVICES = (arena_policy_pb2, arena_server_pb2)
PAGE_BYTES = 512    # of the database, most of whose tables have a row or none
TEXT, TRUTH, BYTES = (FieldDescriptor.CPPTYPE_STRING, FieldDescriptor.CPPTYPE_BOOL,
                      FieldDescriptor.TYPE_BYTES)
REAL = (FieldDescriptor.CPPTYPE_FLOAT, FieldDescriptor.CPPTYPE_DOUBLE)


def filled(message: Message) -> Message:
    """Return the message with every field set; of a choice between fields the last one."""
    for field in message.DESCRIPTOR.fields:
        many, value = field.is_repeated, None
        if field.message_type and field.message_type.GetOptions().map_entry:
            _fill_map(getattr(message, field.name), field)
        elif field.message_type:
            value = getattr(message, field.name)
            filled(value.add() if many else value)
            if not many:
                value.SetInParent()
        else:
            value = _value(field)
            if many:
                getattr(message, field.name).extend([value, value])
            else:
                setattr(message, field.name, value)
    return message


def _fill_map(items: Any, field: FieldDescriptor) -> None:
    key, value = (field.message_type.fields_by_name[name] for name in ('key', 'value'))
    if value.message_type:
        filled(items[_value(key)])
    else:
        items[_value(key)] = _value(value)


def _value(field: FieldDescriptor) -> Any:
    """Return a value of a field that tells it from its neighbours."""
    if field.type == BYTES:
        return f'{field.name} ö'.encode()
    if field.cpp_type == TEXT:
        return f'{field.name} ö'
    if field.enum_type:
        return field.enum_type.values[-1].number
    if field.cpp_type == TRUTH:
        return True
    return field.number + (0.5 if field.cpp_type in REAL else 0)


def write_wire(out: Path) -> None:
    """Write a message of each type: its bytes, and what they say."""
    told = {}
    for service in SERVICES:
        for kind in service.DESCRIPTOR.message_types_by_name.values():
            message = filled(GetMessageClass(kind)())
            told[kind.full_name] = {
                'bytes': base64.b64encode(message.SerializeToString(deterministic=True)).decode(),
                'says': MessageToDict(message, preserving_proto_field_name=True)}
    (out / 'wire.json').write_text(json.dumps(told, indent=1, ensure_ascii=False) + '\n')


def write_episode(out: Path) -> None:
    """Write a bag with what is derived from it, and the files that may stand beside it."""
    from sample_episodes import SampleEpisode, SampleMaker
    sample = SampleEpisode(steps=8, state_hz=30, width=32, height=18, chunk_length=4,
                           potential=True)
    SampleMaker(sample).write(out / 'A')
    derive(out / 'A', videos=False)
    write_scene_match(out / 'A', SceneMatch(0.5, {'left_left': 0.5, 'wrist_left': 0.75}))
    write_audit(out / 'A', EpisodeAudit(
        f'{sample.session_id}/A', 'local', 'made-up', 'ok', 'paper', 0.005, 0.1, sample.prompt,
        times_s=(0.0, 0.5, 1.0), phi=(0.0, 0.5, 0.25), metrics={'ppl': 0.5, 'mp': None},
        refused={'mp': 'made up'}, success=False))


def write_session(out: Path) -> None:
    """Lead a session; write the station's files, the server's database, its log and tables."""
    from test_verdict_walk import Walk
    with tempfile.TemporaryDirectory() as work, Walk(Path(work)) as walk:
        session_id, _ = walk.session(valid=True)
        folder, server = walk.station.folder / 'sessions' / session_id, walk.setting.server
        (out / 'station').mkdir()
        for name in (JOURNAL, SESSION_FILE, RECEIPT_FILE):
            shutil.copyfile(folder / name, out / 'station' / name)
        export_tables(server.database, out / 'tables')
        bundle = server.log.bundle()
        bundle['standings'] = standings_of(bundle)
        (out / 'log.json').write_text(json.dumps(bundle, ensure_ascii=False) + '\n')
        shutil.copyfile(server.config.key_path(), out / 'secrets.key')
        with closing(sqlite3.connect(server.config.data / 'arena.db')) as database:
            database.execute(f'PRAGMA page_size={PAGE_BYTES}')
            database.execute('VACUUM INTO ?', (str(out / 'arena.db'),))


def write_schema(out: Path) -> None:
    """Write the schema that a new server makes on PostgreSQL, whose revision is the newest."""
    newest = ScriptDirectory.from_config(alembic_config()).get_current_head()
    lines = ['CREATE TABLE alembic_version (version_num VARCHAR(32) PRIMARY KEY)',
             f"INSERT INTO alembic_version VALUES ('{newest}')"]
    engine = sa.create_mock_engine('postgresql://', lambda made, *_, **__: lines.append(
        str(made.compile(dialect=postgresql.dialect())).strip().replace(' \n', '\n')))
    metadata.create_all(engine, checkfirst=False)
    (out / 'postgresql.sql').write_text(''.join(f'{line};\n\n' for line in lines).rstrip() + '\n')


def main(args: Sequence[str]) -> int:
    """Write the files into a new folder."""
    if len(args) != 1:
        sys.stderr.write(__doc__ or '')
        return 2
    out = Path(args[0])
    out.mkdir(parents=True)
    sys.path[:0] = [str(TESTS), str(TESTS / 'server'), str(TESTS / 'session')]
    write_episode(out)
    write_session(out)
    write_schema(out)
    write_wire(out)
    total = sum(path.stat().st_size for path in out.rglob('*') if path.is_file())
    sys.stdout.write(f'{total / 1000:.0f} kB in {out}\n')
    return 0


if __name__ == '__main__':
    os.environ.setdefault('MUJOCO_GL', 'egl')
    sys.exit(main(sys.argv[1:]))
