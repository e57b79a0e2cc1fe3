"""Files of a session are deleted for good; the log keeps their hashes, and verify understands."""

import copy
import dataclasses
import hashlib
import io
import json

import av
import numpy as np
import pytest
from arena_setting import Setting, run
from test_transparency import bundle, resigned

from arena_robot.cli.main import main
from arena_robot.core.errors import ConfigError, DataError
from arena_robot.server.config import ServerConfig
from arena_robot.server.files import FileId
from arena_robot.server.store.uploads import MOST_BOXES, has_sound
from arena_robot.server.transparency.verify import check_bundle
from arena_robot.server.upkeep.erasing import DAY_NS


@pytest.fixture
def setting(tmp_path, pool):
    made = Setting(tmp_path / 'server', '', pool)
    made.session = run(made.arena(), tmp_path)
    yield made
    made.close()


def keys(setting):
    return [record.file.key for record in setting.server.uploads.list(setting.session)]


def test_deleted_content_is_gone_and_the_log_still_binds_it(setting, tmp_path, capsys):
    server, session = setting.server, setting.session
    before, head = keys(setting), server.log.head().plain()
    assert [key for key in before if '/B/' in key]
    assert main(['admin', 'erase', session, '--slot', 'B', '--by', 'maya', '--reason',
                 'a person in the pictures asked', '--data', str(setting.config.data)]) == 0
    left = keys(setting)
    assert left == [key for key in before if '/B/' not in key]
    assert [key for key in before if server.blobs.exists(key)] == left
    values = bundle(setting)
    checked = check_bundle(values, heads=[head])
    assert (checked.erased, len(checked.comparisons), checked.heads) == (1, 1, 1)
    entry = json.loads(values['entries'][-1])
    assert sorted(entry['files']) == [key for key in before if '/B/' in key]
    assert all(len(sha256) == 64 for sha256 in entry['files'].values())
    path = tmp_path / 'log.json'
    path.write_text(json.dumps(values))
    capsys.readouterr()
    assert main(['results', 'verify', str(path)]) == 0
    assert '3 files were removed or blurred by the maintainer' in capsys.readouterr().out


def test_a_tombstone_without_its_session_is_refused(setting):
    setting.server.eraser.erase(setting.session, '', 'a face is seen', 'maya')
    values = bundle(setting)
    wrong = copy.deepcopy(values)
    wrong['entries'].insert(0, wrong['entries'].pop())
    resigned(wrong, setting)
    with pytest.raises(DataError, match='was not entered before'):
        check_bundle(wrong)


def test_a_station_does_not_send_again_what_was_deleted(setting):
    server = setting.server
    record = server.uploads.list(setting.session)[0]
    server.eraser.erase(setting.session, '', 'a face is seen', 'maya')
    assert server.uploads.begin(record.file, record.size, record.sha256).complete
    assert server.uploads.append(record.file, 0, b'again') == record.size
    assert not server.blobs.exists(record.file.key)
    with pytest.raises(DataError, match='no file to delete'):
        server.eraser.erase(setting.session, '', 'a face is seen', 'maya')
    with pytest.raises(DataError, match='a reason has'):
        server.eraser.erase(setting.session, '', ' ', 'maya')


def test_a_kill_between_mark_and_deletion_loses_no_deletion(setting, monkeypatch):
    server = setting.server
    before = keys(setting)

    def killed(key):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(server.blobs, 'remove', killed)
        with pytest.raises(KeyboardInterrupt):
            server.eraser.erase(setting.session, '', 'a face is seen', 'maya')
    assert keys(setting) == []
    assert all(server.blobs.exists(key) for key in before)
    server.eraser.step()
    assert not any(server.blobs.exists(key) for key in before)


def test_files_are_kept_as_long_as_the_configuration_says(setting):
    eraser, clock = setting.server.eraser, setting.server.eraser._clock
    later = type('Later', (), {'now_ns': lambda self: clock.now_ns() + 31 * DAY_NS})()
    for keep, gone in (({'': 0}, False), ({'': 30, 'bench': 60}, False), ({'': 40}, False),
                       ({'': 0, 'bench': 30}, True)):
        aged = type(eraser)(*(getattr(eraser, f'_{name}') for name in (
            'database', 'blobs', 'uploads', 'log')), later, keep)
        aged.step()
        assert (keys(setting) == []) is gone, keep
    assert [(why, count > 0) for _, why, count, _ in setting.server.log.erasures(
        setting.session)] == [('files are kept for 30 days', True)]
    with pytest.raises(ConfigError, match='days, found -1'):
        dataclasses.replace(ServerConfig(), keep_files_days_of={'bench': -1})


def film(sound, name='mp4'):
    """Return the bytes of a short video, with a sound track or without."""
    out = io.BytesIO()
    with av.open(out, 'w', format=name) as made:
        picture = made.add_stream('mpeg4', rate=15)
        picture.width = picture.height = 32
        voice = made.add_stream('aac', rate=8000) if sound else None
        for packet in picture.encode(av.VideoFrame.from_ndarray(
                np.zeros((32, 32, 3), np.uint8), format='rgb24')):
            made.mux(packet)
        made.mux(picture.encode())
        if voice is not None:
            frame = av.AudioFrame.from_ndarray(np.zeros((1, 1024), np.float32), 'fltp', 'mono')
            frame.sample_rate = 8000
            made.mux(voice.encode(frame))
            made.mux(voice.encode())
    return out.getvalue()


def sent(setting, path, content):
    file = FileId(setting.session, 'A', path)
    uploads = setting.server.uploads
    uploads.begin(file, len(content), hashlib.sha256(content).hexdigest())
    uploads.append(file, 0, content)
    return uploads.finish(file)


def test_a_video_with_sound_is_not_taken(setting):
    assert sent(setting, 'videos/silent.mp4', film(False)).complete
    for name in ('mp4', 'mov'):
        with pytest.raises(DataError, match='has a sound track'):
            sent(setting, f'videos/loud.{name}', film(True, name))
        assert not setting.server.blobs.exists(f'{setting.session}/A/videos/loud.{name}')
    with pytest.raises(DataError, match='videos are MP4 without sound'):
        sent(setting, 'videos/loud.mkv', film(True, 'matroska'))


def test_broken_boxes_end_the_search(tmp_path):
    path = tmp_path / 'x.mp4'
    for content in (b'', b'\0' * 7, b'\0\0\0\1moov', b'\0\0\0\1hdlr' + b'\xff' * 8,
                    b'\0\0\0\x03moov' * 50, film(False)[:200]):
        path.write_bytes(content)
        assert not has_sound(path)
    path.write_bytes(b'\0\0\0\x08free' * (MOST_BOXES + 1))
    assert has_sound(path)
