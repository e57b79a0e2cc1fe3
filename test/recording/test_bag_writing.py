"""Bags are written as rosbag2 writes them, and read as other people's readers read them."""

import json
import random
import struct
from collections import Counter

import pytest
import rosbags.rosbag2
import yaml
from mcap.reader import SeekingReader, make_reader
from mcap.records import Chunk
from mcap.stream_reader import StreamReader
from mcap.writer import CompressionType, Writer

from arena_robot.core.config import parse_yaml
from arena_robot.core.errors import RecordingError
from arena_robot.recording.bag import metadata
from arena_robot.recording.bag.base import INFINITE_NS, Message, Qos, Topic
from arena_robot.recording.bag.codec import codec_of
from arena_robot.recording.bag.mcap_file import McapFile
from arena_robot.recording.bag.reader import BagReader, messages_in_order
from arena_robot.recording.bag.salvage import salvage
from arena_robot.recording.bag.writer import BagWriter

WORD = Topic('/word', 'std_msgs/msg/String', 'string data\n', 'RIHS01_' + '0' * 64,
             (Qos('best_effort', 'volatile', depth=5, lifespan_ns=100_000_000),))
LATCHED = Topic('/state', 'std_msgs/msg/String', 'string data\n', '',
                (Qos(durability='transient_local'),))
PICTURE = Topic('/picture', 'sensor_msgs/msg/CompressedImage', 'uint8[] data\n')
TOPICS = ('/a', '/b', '/c', '/d')


def message(topic, log_ns, text='hello', sequence=0):
    words = text.encode() + b'\0'
    return Message(topic.name, log_ns, log_ns - 1, sequence,
                   b'\0\1\0\0' + struct.pack('<I', len(words)) + words)


def test_every_message_comes_back_as_it_went_in(maker, pristine):
    with BagReader(pristine) as bag:
        messages = list(bag.messages())
        assert [m.log_ns for m in messages] == sorted(m.log_ns for m in messages)
        assert sorted(messages) == sorted(maker.messages())
        assert bag.topics == maker.topics()


def test_rosbags_reads_the_bag_with_all_its_promises(maker, pristine):
    with rosbags.rosbag2.Reader(pristine) as bag:
        counts = Counter(c.topic for c, _, _ in bag.messages())
        connections = {c.topic: c for c in bag.connections}
    assert counts == Counter(m.topic for m in maker.messages())
    assert connections.keys() == maker.topics().keys()
    latched = connections['/session_node/episode_info'].ext.offered_qos_profiles[0]
    assert latched.durability.name == 'TRANSIENT_LOCAL'
    assert latched.lifespan == (9223372036, 854775807)
    for name, topic in maker.topics().items():
        assert connections[name].digest == topic.type_hash


def test_the_mcap_reader_finds_indices_and_sound_checksums(maker, pristine):
    with next(pristine.glob('*.mcap')).open('rb') as file:
        reader = make_reader(file, validate_crcs=True)
        assert reader.get_header().profile == 'ros2'
        summary = reader.get_summary()
        count = sum(1 for _ in reader.iter_messages())
    assert count == summary.statistics.message_count == len(list(maker.messages()))
    assert {c.compression for c in summary.chunk_indexes} == {'zstd', ''}
    assert all(c.message_index_offsets for c in summary.chunk_indexes)
    channel = next(c for c in summary.channels.values() if c.topic == '/joint_states')
    assert channel.message_encoding == 'cdr'
    assert channel.metadata['topic_type_hash'].startswith('RIHS01_')
    assert yaml.safe_load(channel.metadata['offered_qos_profiles'])[0]['depth'] == 10
    assert summary.schemas[channel.schema_id].encoding == 'ros2msg'


def test_pictures_are_stored_as_they_are(tmp_path):
    file = McapFile(tmp_path / 'a.mcap')
    file.open()
    ids = {t.name: file.add_channel(t) for t in (WORD, PICTURE)}
    for topic in (WORD, PICTURE):
        file.write(ids[topic.name], message(topic, 10, 'x' * 1000))
    file.close()
    with (tmp_path / 'a.mcap').open('rb') as stream:
        chunks = [r for r in StreamReader(stream, emit_chunks=True).records
                  if isinstance(r, Chunk)]
    assert [(c.compression, len(c.data) > 1000) for c in chunks] == [('zstd', False), ('', True)]
    assert all(c.uncompressed_crc for c in chunks)


@pytest.mark.parametrize(('level', 'name'), [(0, ''), (1, 'zstd'), (15, 'zstd')])
def test_state_is_compressed_as_asked(tmp_path, level, name):
    with BagWriter(tmp_path / 'A', level=level) as bag:
        bag.add_topic(WORD)
        bag.write(message(WORD, 10, 'x' * 1000))
    with (tmp_path / 'A' / 'A_0.mcap').open('rb') as stream:
        chunk, = [r for r in StreamReader(stream, emit_chunks=True).records
                  if isinstance(r, Chunk)]
    assert chunk.compression == name
    with BagReader(tmp_path / 'A') as bag:
        assert [m.log_ns for m in bag.messages()] == [10]


def test_the_type_hashes_are_those_of_ros(maker, message_folders):
    for topic in maker.topics().values():
        package, _, short = topic.type.split('/')
        described = message_folders[-1] / package / 'msg' / f'{short}.json'
        if package != 'arena_msgs':
            hashes = json.loads(described.read_text())['type_hashes']
            assert {h['type_name']: h['hash_string'] for h in hashes}[topic.type] \
                == topic.type_hash


def test_metadata_has_every_field_rosbag2_asks_for(pristine):
    body = yaml.safe_load((pristine / 'metadata.yaml').read_text())['rosbag2_bagfile_information']
    assert body['version'] == 9
    assert body['relative_file_paths'] == ['A_0.mcap']
    assert body['files'][0]['message_count'] == body['message_count']
    for item in body['topics_with_message_count']:
        for qos in item['topic_metadata']['offered_qos_profiles']:
            assert qos.keys() == {
                'history', 'depth', 'reliability', 'durability', 'deadline', 'lifespan',
                'liveliness', 'liveliness_lease_duration', 'avoid_ros_namespace_conventions'}
            assert qos['deadline'] == {'sec': 9223372036, 'nsec': 854775807}
            assert isinstance(qos['reliability'], str)


def test_metadata_is_also_inside_the_file(pristine):
    with BagReader(pristine) as bag:
        inside = yaml.safe_load(bag.records['rosbag2']['serialized_metadata'])
        assert inside['message_count'] == bag.metadata.message_count
        assert bag.records['arena']['slot'] == 'A'


def test_qos_survives_being_text():
    profile = Qos('best_effort', 'transient_local', 'unknown', 0, 5, INFINITE_NS, 'automatic', 7)
    assert metadata.qos_from_maps(metadata.qos_to_text([profile])) == (profile,)


@pytest.mark.parametrize('broken', ['- history: keep_last', '{', '- 3'])
def test_qos_that_misses_fields_is_refused(broken):
    with pytest.raises(RecordingError, match='offered_qos_profiles'):
        metadata.qos_from_maps(broken)


def test_a_bag_is_never_overwritten(tmp_path):
    with BagWriter(tmp_path / 'A') as bag:
        bag.add_topic(WORD)
        bag.write(message(WORD, 10))
    with pytest.raises(RecordingError, match='never overwritten'):
        BagWriter(tmp_path / 'A').open()


def test_an_unknown_topic_is_refused(tmp_path):
    with BagWriter(tmp_path / 'A') as bag, pytest.raises(RecordingError, match='add_topic'):
        bag.write(message(WORD, 10))


def test_a_split_starts_with_the_latched_messages(tmp_path):
    with BagWriter(tmp_path / 'A') as bag:
        bag.add_topic(LATCHED)
        bag.add_topic(WORD)
        bag.write(message(LATCHED, 10, 'one'))
        bag.write(message(LATCHED, 20, 'two'))
        bag.write(message(WORD, 30))
        bag.split(log_ns=40)
        bag.write(message(WORD, 50))
    second = [m for m in salvage(tmp_path / 'A' / 'A_1.mcap') if isinstance(m, Message)]
    assert [(m.topic, m.log_ns, m.publish_ns) for m in second] == [('/state', 40, 19),
                                                                   ('/word', 50, 49)]
    with BagReader(tmp_path / 'A') as bag:
        assert [m.log_ns for m in bag.messages()] == [10, 20, 30, 40, 50]
        assert bag.metadata.counts == {'/state': 3, '/word': 2}
        assert (bag.metadata.start_ns, bag.metadata.duration_ns) == (10, 40)
    with rosbags.rosbag2.Reader(tmp_path / 'A') as reader:
        assert [t for _, t, _ in reader.messages()] == [10, 20, 30, 40, 50]


def test_an_empty_bag_is_a_bag(tmp_path):
    with BagWriter(tmp_path / 'A') as bag:
        bag.add_topic(WORD)
    with BagReader(tmp_path / 'A') as bag:
        assert list(bag.messages()) == []
        assert bag.metadata.message_count == 0
    with rosbags.rosbag2.Reader(tmp_path / 'A') as reader:
        assert reader.message_count == 0


def test_messages_can_be_chosen_by_topic_and_time(pristine):
    with BagReader(pristine) as bag:
        start = bag.metadata.start_ns
        chosen = list(bag.messages(['/joint_states'], start, start + 100_000_000))
        assert len(chosen) == 20
        assert {m.topic for m in chosen} == {'/joint_states'}
        assert list(bag.messages([])) == []


def test_what_was_flushed_survives_a_cut(tmp_path):
    bag = BagWriter(tmp_path / 'A', {'slot': 'A'})
    bag.open()
    bag.add_topic(WORD)
    for k in range(10):
        bag.write(message(WORD, k + 1))
    bag.flush()
    bag.write(message(WORD, 99))
    bag.abandon()
    items = list(salvage(tmp_path / 'A' / 'A_0.mcap'))
    assert [m.log_ns for m in items if isinstance(m, Message)] == list(range(1, 11))
    assert WORD in items
    with pytest.raises(RecordingError, match='arena episode recover'):
        BagReader(tmp_path / 'A').open()


def test_damage_in_the_middle_is_noticed(episode):
    path = next(episode.glob('*.mcap'))
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0xFF
    path.write_bytes(data)
    with pytest.raises(RecordingError, match='damaged'), BagReader(episode) as bag:
        list(bag.messages())


def test_other_bags_are_named(tmp_path):
    (tmp_path / 'metadata.yaml').write_text(
        'rosbag2_bagfile_information: {storage_identifier: sqlite3}')
    with pytest.raises(RecordingError, match='ros2 bag convert'):
        metadata.read(tmp_path)
    with pytest.raises(RecordingError, match='cannot read'):
        metadata.read(tmp_path / 'nowhere')


def written(path, times, chunk_size=300):
    """Write messages of those topics at the given times; a chunk has five or so."""
    with path.open('wb') as out:
        writer = Writer(out, chunk_size=chunk_size, compression=CompressionType.ZSTD)
        writer.start()
        schema = writer.register_schema('std_msgs/msg/String', 'ros2msg', b'string data')
        channels = [writer.register_channel(name, 'cdr', schema) for name in TOPICS]
        for number, at_ns in enumerate(times):
            writer.add_message(channels[number % 3], at_ns, struct.pack('<I', number) * 10, at_ns,
                               number)
        writer.finish()
    return path


def both(path, topics=None, start_ns=None, end_ns=None):
    """Return the messages as read here and by the library."""
    with path.open('rb') as file:
        reader = SeekingReader(file, validate_crcs=True)
        ours = list(messages_in_order(file, reader.get_summary(), topics, start_ns, end_ns))
        theirs = [(channel.topic, m.log_time, m.publish_time, m.sequence, m.data)
                  for _, channel, m in reader.iter_messages(
                      topics, starting_at=start_ns, ending_before=end_ns)]
    return [tuple(m) for m in ours], theirs


@pytest.mark.parametrize('late', [0, 3, 30, 400])
def test_messages_are_those_of_the_library(tmp_path, late):
    rng = random.Random(late)
    times = [1000 * k + rng.randrange(1000 * late + 1) for k in range(400)]
    path = written(tmp_path / 'some.mcap', times)
    for topics in (None, ['/b'], ['/a', '/c'], ['/d'], ['/nowhere']):
        for start_ns, end_ns in ((None, None), (100_000, None), (None, 250_500),
                                 (100_500, 300_000)):
            ours, theirs = both(path, topics, start_ns, end_ns)
            assert ours == theirs
    assert len(both(path)[0]) == 400


def test_only_what_a_later_chunk_may_precede_is_held(tmp_path):
    """A file in order is read a chunk at a time, as one that does not fit into memory must be."""
    path = written(tmp_path / 'ordered.mcap', range(0, 400_000, 1000))
    with path.open('rb') as file:
        summary = SeekingReader(file).get_summary()
        in_order, reads = messages_in_order(file, summary, None, None, None), []
        for message in in_order:
            reads.append((message.log_ns, file.tell()))
    ends = sorted((chunk.message_start_time, chunk.chunk_start_offset + chunk.chunk_length)
                  for chunk in summary.chunk_indexes)
    for log_ns, place in reads:    # at most the chunk behind a message's own has been read
        last = max(k for k, (start_ns, _) in enumerate(ends) if start_ns <= log_ns)
        assert place <= ends[min(last + 1, len(ends) - 1)][1]


def test_bags_with_the_same_definitions_share_a_codec():
    first, second = (Topic('/x', 'lab_msgs/msg/Grip', text) for text in ('float64 force',
                                                                         'float32 force'))
    assert codec_of([first]) is codec_of([first])
    assert codec_of([first]) is not codec_of([second])
    data = struct.pack('<Id', 0x0100, 2.5)
    assert codec_of([first]).decode(first, data).force == 2.5
    assert codec_of([second]).decode(second, struct.pack('<If', 0x0100, 2.5)).force == 2.5


def test_what_is_wrong_with_a_yaml_text_is_shown_with_its_line():
    with pytest.raises(Exception, match=r'(?s)line 2.*a: \[1') as error:
        parse_yaml('b: 2\na: [1\nc: 3\n')
    assert '^' in str(error.value)
