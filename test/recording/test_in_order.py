"""Messages in order of time, against the library's own iteration."""

import random
import struct

import pytest
from mcap.reader import SeekingReader
from mcap.writer import CompressionType, Writer

from arena_robot.core.config import parse_yaml
from arena_robot.recording.bag.base import Topic
from arena_robot.recording.bag.codec import codec_of
from arena_robot.recording.bag.reader import messages_in_order

TOPICS = ('/a', '/b', '/c', '/d')


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
        found, reads = messages_in_order(file, summary, None, None, None), []
        for message in found:
            reads.append((message.log_ns, file.tell()))
    ends = sorted((one.message_start_time, one.chunk_start_offset + one.chunk_length)
                  for one in summary.chunk_indexes)
    for log_ns, place in reads:    # at most the chunk behind a message's own has been read
        own = max(k for k, (start_ns, _) in enumerate(ends) if start_ns <= log_ns)
        assert place <= ends[min(own + 1, len(ends) - 1)][1]


def test_bags_with_the_same_definitions_share_a_codec():
    one, other = (Topic('/x', 'lab_msgs/msg/Grip', text) for text in ('float64 force',
                                                                      'float32 force'))
    assert codec_of([one]) is codec_of([one])
    assert codec_of([one]) is not codec_of([other])
    data = struct.pack('<Id', 0x0100, 2.5)
    assert codec_of([one]).decode(one, data).force == 2.5
    assert codec_of([other]).decode(other, struct.pack('<If', 0x0100, 2.5)).force == 2.5


def test_what_is_wrong_with_a_yaml_text_is_shown_with_its_line():
    with pytest.raises(Exception, match=r'(?s)line 2.*a: \[1') as told:
        parse_yaml('b: 2\na: [1\nc: 3\n')
    assert '^' in str(told.value)
