"""A person in a video is blurred on request: what showed them is gone, and the log tells of it."""

import io
import json

import httpx
import numpy as np
import pytest
from arena_setting import STATION, Setting, episode, query, recorded
from test_transparency import bundle, resigned

from arena_robot.cli.main import main
from arena_robot.core.clock import SystemClock
from arena_robot.core.episode import Slot
from arena_robot.core.errors import DataError
from arena_robot.recording.episode.frames import read_video, rgb_frame, write_video
from arena_robot.server.config import ServerConfig
from arena_robot.server.files import FileId, digest_of
from arena_robot.server.store.blobs import Blobs
from arena_robot.server.transparency.verify import check_bundle
from arena_robot.server.upkeep.backup import back_up, restore
from arena_robot.server.upkeep.erasing import FileEraser
from arena_robot.session.arena.contract import PROMPT, VERDICT
from arena_robot.web.site.serve import SiteServer

WIDTH, HEIGHT, FRAMES = 160, 96, 30
BOX = ('--box', '80', '16', '144', '80')
STRIPES = np.tile(np.uint8([0, 255])[(np.arange(WIDTH) // 4) % 2][:, None], (HEIGHT, 1, 3))


@pytest.fixture(params=[''])
def setting(tmp_path, pool, request):
    made = Setting(tmp_path / 'server', '', pool, blobs=request.param)
    arena = made.arena()
    pair = arena.assign(STATION, 'ada', PROMPT)
    made.session = pair.session_id
    for slot in Slot:
        query(arena, made.session, slot)
        made.home = recorded(tmp_path / slot.value, made.session, slot)
        for name in ('left.mp4', 'left_right.mp4', 'wrist.mp4'):
            write_video(made.home / name, (
                (k * 10**9 // 15, rgb_frame(STRIPES)) for k in range(FRAMES)))
        arena.upload(made.session, episode(made.session, slot), made.home)
    arena.feedback(made.session, VERDICT)
    for path in ('left_left.jpg', 'wrist_left.jpg'):
        photo = FileId(made.session, '-', path)
        made.server.uploads.begin(photo, 1, digest_of(tmp_path / 'server' / 'log.key'))
    yield made
    made.close()


def blur(setting, *words, slot='B', camera='left', session=''):
    return main(['admin', 'blur', session or setting.session, slot, camera, *words, '--by',
                 'maya', '--data', str(setting.config.data)])


def here(setting):
    """Return the files that the server has, or waits for, without the ids of the session."""
    return {one.file.key.partition('/')[2] for one in setting.server.uploads.list(setting.session)}


def contrast(setting, name):
    """Return how much the stripes of each frame differ inside the box, and left of it."""
    path = setting.server.blobs.local_path(f'{setting.session}/B/{name}')
    return np.array([[part.std(axis=1).mean() for part in (
        frame[20:76, 84:140].astype(float), frame[20:76, :76].astype(float))]
        for frame in read_video(path)])


def test_the_box_is_blurred_and_what_shows_it_is_gone(setting, capsys):
    server, before = setting.server, here(setting)
    assert blur(setting, *BOX, '--from', '0.5', '--to', '1', '--yes') == 0
    said = capsys.readouterr().out
    gone = before - here(setting)
    assert gone >= {'B/left.mp4', 'B/left_right.mp4', 'session/left_left.jpg'}
    assert {one for one in before if one.endswith('.mcap')} - gone == {'A/A_0.mcap'}
    assert here(setting) - before == {'B/left.blurred.mp4'}
    assert {'B/wrist.mp4', 'B/episode.json', 'A/left.mp4', 'session/wrist_left.jpg'} <= here(
        setting)
    for name in gone:
        assert not server.blobs.exists(f'{setting.session}/{name}')
        assert f'  {setting.session}/{name}\n' in said
    assert 'look at them too: wrist.mp4\n' in said
    inside, outside = contrast(setting, 'left.blurred.mp4').T
    assert len(inside) == FRAMES
    assert (outside > 100).all()
    second = np.arange(FRAMES) / 15
    assert ((inside < 40) == ((second >= 0.5) & (second <= 1.0))).all()


def test_the_log_vouches_for_the_blurred_video_and_verify_counts_it(setting, tmp_path, capsys):
    head = setting.server.log.head().plain()
    assert blur(setting, '--whole', '--yes') == 0
    values = bundle(setting)
    entry = json.loads(values['entries'][-1])
    path = setting.server.blobs.local_path(entry['blurred']['file'])
    assert entry['blurred']['sha256'] == digest_of(path)
    assert entry['files'][entry['blurred']['of']] == digest_of(setting.home / 'left.mp4')
    assert check_bundle(values, heads=[head]).erased_files == len(entry['files'])
    (tmp_path / 'log.json').write_text(json.dumps(values))
    capsys.readouterr()
    assert main(['results', 'verify', str(tmp_path / 'log.json')]) == 0
    assert (f"{len(entry['files'])} files were removed or blurred by the maintainer"
            in capsys.readouterr().out)
    for name, value in (('blurred', {**entry['blurred'], 'of': 'another'}), ('files', 3)):
        wrong = {**values, 'entries': [*values['entries'][:-1], json.dumps(
            {**entry, name: value}, sort_keys=True, separators=(',', ':'))]}
        resigned(wrong, setting)
        with pytest.raises(DataError, match='cannot be read'):
            check_bundle(wrong)


def test_the_page_shows_the_blurred_video_alone(setting):
    assert blur(setting, *BOX, '--yes') == 0
    with SiteServer(setting.server, '127.0.0.1', 0) as site, \
            httpx.Client(base_url=site.address, timeout=20.0) as client:
        page = client.get(f'/evaluations/{setting.session}').text
        film = f'/files/{setting.session}/B/left'
        assert 'B/left.mp4 was blurred on request on ' in page
        assert f'{film}.blurred.mp4' in page
        assert f'{film}.mp4' not in page
        assert client.get(f'{film}.mp4').status_code == 404
        whole = client.get(f'{film}.blurred.mp4').content
        assert whole == (setting.config.data / 'blobs' / setting.session / 'B'
                         / 'left.blurred.mp4').read_bytes()


@pytest.mark.parametrize('setting', ['memory://blurring'], indirect=True)
def test_a_store_that_is_no_folder_has_the_new_video_alone(setting, monkeypatch):
    calls = ServerConfig(data=setting.config.data, blobs='memory://blurring')
    monkeypatch.setattr('arena_robot.cli.admin.config_at', lambda args: calls)
    before, blobs = here(setting), setting.server.blobs
    assert blur(setting, *BOX, '--yes') == 0
    assert set(blobs.names(f'{setting.session}/B')) == {
        one.removeprefix('B/') for one in here(setting) if one.startswith('B/')}
    assert here(setting) - before == {'B/left.blurred.mp4'}


def test_a_second_run_is_refused_and_another_box_is_not(setting, capsys):
    assert blur(setting, *BOX, '--yes') == 0
    after = here(setting)
    assert blur(setting, *BOX, '--yes') == 2
    assert 'is blurred just so already' in capsys.readouterr().err
    assert here(setting) == after
    assert blur(setting, '--box', '0', '0', '76', '96', '--yes') == 0
    assert here(setting) - after == {'B/left.blurred2.mp4'}
    assert after - here(setting) == {'B/left.blurred.mp4'}
    assert (contrast(setting, 'left.blurred2.mp4')[:, 0] < 40).all()
    record = setting.server.uploads.begin(FileId(setting.session, 'B', 'left.mp4'), (
        setting.home / 'left.mp4').stat().st_size, digest_of(setting.home / 'left.mp4'))
    assert record.complete    # the station sends nothing again


def test_backup_and_export_have_the_blurred_video_and_a_changed_one_is_found(setting, tmp_path):
    assert blur(setting, '--whole', '--yes') == 0
    back_up(setting.config, tmp_path / 'backup', SystemClock())
    again = ServerConfig(data=tmp_path / 'again')
    restore(again, tmp_path / 'backup', SystemClock())
    assert main(['results', 'export', '--files', '--data', str(again.data), '--output',
                 str(tmp_path / 'out')]) == 0
    for place in (again.data / 'blobs', tmp_path / 'out' / 'sessions'):
        films = {str(one.relative_to(place / setting.session)) for one in place.rglob('left*')}
        assert films == {'A/left.mp4', 'A/left_right.mp4', 'B/left.blurred.mp4'}
    film = setting.server.blobs.local_path(f'{setting.session}/B/left.blurred.mp4')
    film.write_bytes(film.read_bytes()[:-1] + b'x')
    with pytest.raises(DataError, match='has another SHA-256'):
        back_up(setting.config, tmp_path / 'other', SystemClock())


def test_nothing_is_done_without_the_typed_id(setting, monkeypatch, capsys):
    before = here(setting)
    monkeypatch.setattr('sys.stdin', io.StringIO('yes\n'))
    assert blur(setting, *BOX) == 2
    assert 'nothing was changed' in capsys.readouterr().err
    assert here(setting) == before
    monkeypatch.setattr('sys.stdin', io.StringIO(f'{setting.session}\n'))
    assert blur(setting, *BOX) == 0
    assert here(setting) != before


REFUSED = [
    (BOX, {'session': 'nobody'}, 'session nobody is not in the log'),
    (BOX, {'camera': 'right'}, "has no video 'right'; it has left, left_right, wrist"),
    (('--box', '80', '16', '161', '80'), {}, 'is not in a picture of 160 by 96'),
    (('--box', '80', '16', '80', '80'), {}, 'is not in a picture of 160 by 96'),
    (('--whole', '--from', '5'), {}, 'has no picture between 5 s and the end'),
    (('--whole', '--reason', ' '), {}, 'a reason has 1 to 500 characters')]


def test_what_cannot_be_done_is_said_and_changes_nothing(setting, capsys):
    before, size = here(setting), setting.server.log.size()
    for words, where, error in REFUSED:
        assert blur(setting, *words, '--yes', **where) == 2
        assert error in capsys.readouterr().err
        assert (here(setting), setting.server.log.size()) == (before, size), error


def test_a_kill_before_the_deletion_shows_nobody_unblurred(setting, monkeypatch):
    def killed(self, key):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Blobs, 'remove', killed)
        assert blur(setting, *BOX, '--yes') == 130
    assert 'B/left.mp4' not in here(setting)
    old = setting.server.blobs.local_path(f'{setting.session}/B/left.mp4')
    assert old.exists()
    FileEraser.step(setting.server.eraser)
    assert not old.exists()
