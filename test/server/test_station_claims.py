"""Who a station says that it is, and what it says that its episode has."""

import pytest
from arena_setting import STATION, episode, recorded

from arena_robot.core.episode import Slot
from arena_robot.core.errors import DataError, Unauthorised
from arena_robot.server.files import FileId
from arena_robot.server.proto import arena_server_pb2 as pb
from arena_robot.session.arena.contract import PROMPT


def assigned(arena):
    return arena.assign(STATION, 'ada', PROMPT).session_id


def test_a_station_cannot_state_who_evaluates(setting):
    calls = setting.calls('station')
    for words in ({'evaluator': 'ada'}, {'evaluator_token': setting.tokens['owner']},
                  {'evaluator_token': 'arena_guess'},
                  {'evaluator_token': setting.tokens['station']}):
        with pytest.raises(Unauthorised):
            calls('Assign', pb.AssignRequest(request='q' * 32, prompt=PROMPT, **words))
    assert setting.arena().sign_in(setting.tokens['ada']) == 'ada'
    with pytest.raises(Unauthorised):
        setting.arena().sign_in(setting.tokens['owner'])


def test_a_manifest_cannot_name_what_is_no_file_of_an_episode(setting, folder):
    arena, calls = setting.arena(), setting.calls('station')
    session_id = assigned(arena)
    for path in ('../x', '/etc/passwd', 'a b', ''):
        with pytest.raises(DataError):
            calls('StoreEpisode', pb.EpisodeRequest(
                session_id=session_id, slot='A', steps=1, end_reason='done',
                files=[pb.ManifestFile(path=path, size=1, sha256='0' * 64)]))
    home = recorded(folder / session_id, session_id, Slot.A)
    for stray in ('.DS_Store', '.steps.npz.tmp', 'Bild ä.png'):
        (home / stray).write_text('x')
    arena.upload(session_id, episode(session_id, Slot.A), home)
    assert not setting.server.blobs.exists(FileId(session_id, 'A', 'steps').key)
