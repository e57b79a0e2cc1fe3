"""``episode.json`` comes back as it was written."""

import json

import pytest

from arena_robot.core.errors import DataError
from arena_robot.records.episode_file import (
    EPISODE_FILE,
    BagReport,
    ClampReport,
    EpisodeFile,
    Spread,
    TopicNumbers,
    ViewReport,
    has_episode,
    read_episode,
    write_episode,
)


def test_what_is_written_is_read(tmp_path):
    assert not has_episode(tmp_path)
    episode = EpisodeFile(
        's1', 'A', 'stack', end_reason='done', steps=30, skew_s=Spread(0.01, 0.02, 0.03),
        clamps=ClampReport(3, {'step_limit': 3}), bag=BagReport(('A_0.mcap',), 12, 10**18, 2.5),
        views={'left_left': ViewReport('/left', 30, 15.0, latency_s=Spread(0.1, 0.2, 0.3),
                                       role='left', eye='left', frame_id='zed_a_left')},
        topics={'/left': TopicNumbers('sensor_msgs/msg/Image', 30, 1000)})
    write_episode(tmp_path, episode)
    assert has_episode(tmp_path)
    assert read_episode(tmp_path) == episode
    assert json.loads((tmp_path / EPISODE_FILE).read_text())['version'] == 1


@pytest.mark.parametrize(('text', 'match'), [
    ('{}', 'version is None'), ('[]', 'expected a mapping'), ('', 'holds no numbers'),
    ('{"version": 9}', 'version is 9, this program reads 1'),
    ('{"version": 1, "step": 3}', "unknown key 'step'. Did you mean 'steps'")])
def test_a_file_that_is_none_is_named(text, match, tmp_path):
    (tmp_path / EPISODE_FILE).write_text(text)
    with pytest.raises(DataError, match=match):
        read_episode(tmp_path)
