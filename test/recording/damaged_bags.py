"""A small bag of many chunks, and random damages to its bytes."""

import random

from mcap.reader import make_reader

from arena_robot.recording.bag.base import Message, Topic
from arena_robot.recording.bag.writer import BagWriter

STATE = Topic('/arm_node/arm_state', 'arena_msgs/msg/ArmState', 'float64[] q')
IMAGE = Topic('/wrist/image', 'sensor_msgs/msg/CompressedImage', 'uint8[] data')
LATE = Topic('/session_node/step', 'arena_msgs/msg/StepRecord', 'uint32 index')


def write(folder, closed=True):
    """Write about thirty chunks in two lanes; one topic appears in the middle."""
    rng = random.Random(5)
    bag = BagWriter(folder, {'session_id': 's', 'slot': 'A'}, chunk_bytes=6000)
    bag.open()
    bag.add_topic(STATE)
    bag.add_topic(IMAGE)
    for k in range(600):
        stamp_ns = 10**18 + k * 10**7
        bag.write(Message(STATE.name, stamp_ns, stamp_ns, k, rng.randbytes(120)))
        if k % 6 == 0:
            bag.write(Message(IMAGE.name, stamp_ns, stamp_ns, k, rng.randbytes(900) + bytes(300)))
        if k == 300:
            bag.add_topic(LATE)
        if k > 300 and k % 4 == 0:
            bag.write(Message(LATE.name, stamp_ns, stamp_ns, k, rng.randbytes(60)))
    if closed:
        bag.close()
    else:
        bag.flush()
        bag.abandon()
    return folder


def chunks(path):
    """Return (begin, end, names of the messages) of every chunk of an intact file."""
    with path.open('rb') as file:
        summary = make_reader(file).get_summary()
    found = []
    for index in summary.chunk_indexes:
        begin = index.chunk_start_offset
        found.append((begin, begin + index.chunk_length,
                      (index.message_start_time, index.message_end_time,
                       set(index.message_index_offsets))))
    return found


def name_of(message):
    return (message.topic, message.sequence)


def damaged(data, rng):
    """Return damaged bytes and the range of the old ones that is no longer as it was."""
    at = rng.randrange(8, len(data))
    kind = rng.choice(['flip', 'flip', 'zeros', 'noise', 'removed', 'inserted', 'cut'])
    size = rng.choice([1, 7, 64, 512, 3000])
    end = min(at + size, len(data))
    if kind == 'flip':
        changed = bytearray(data)
        changed[at] ^= 1 << rng.randrange(8)
        return bytes(changed), at, at + 1
    if kind == 'cut':
        return data[:at], at, len(data)
    filling = {'zeros': bytes(end - at), 'noise': rng.randbytes(end - at), 'removed': b'',
               'inserted': rng.randbytes(size)}[kind]
    rest = at if kind == 'inserted' else end
    return data[:at] + filling + data[rest:], at, max(rest, at + 1)
