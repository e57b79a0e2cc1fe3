"""Bags damaged at random: what is outside the damaged chunks comes back, byte for byte."""

import random
import shutil

import pytest
from mcap.reader import make_reader

from arena_robot.cli.main import main
from arena_robot.recording.bag.base import Message, Topic
from arena_robot.recording.bag.mcap_file import MAGIC
from arena_robot.recording.bag.reader import BagReader
from arena_robot.recording.bag.recover import damages, recover, tidy
from arena_robot.recording.bag.salvage import Damage, salvage
from arena_robot.recording.bag.writer import BagWriter

BAGS = 240
STATE = Topic('/arm_node/arm_state', 'arena_msgs/msg/ArmState', 'float64[] q')
IMAGE = Topic('/wrist/image', 'sensor_msgs/msg/CompressedImage', 'uint8[] data')
LATE = Topic('/session_node/step', 'arena_msgs/msg/StepRecord', 'uint32 index')


@pytest.fixture(scope='module')
def intact(tmp_path_factory):
    """Return an intact bag, its messages by name, and the chunk of each."""
    folder = write(tmp_path_factory.mktemp('intact') / 'A')
    messages = {name_of(m): m for m in salvage(folder / 'A_0.mcap') if isinstance(m, Message)}
    assert len(messages) == 774
    numbers = {STATE.name: 1, IMAGE.name: 2, LATE.name: 3}
    table = chunks(folder / 'A_0.mcap')
    where = {}
    for name, m in messages.items():
        where[name] = next(k for k, (_, _, (low, high, ids)) in enumerate(table)
                           if low <= m.log_ns <= high and numbers[m.topic] in ids)
    return folder, messages, where, table


def test_the_rest_of_two_hundred_damaged_bags_comes_back(intact, tmp_path):
    folder, messages, where, table = intact
    data, rng = (folder / 'A_0.mcap').read_bytes(), random.Random(11)
    wanted = recovered = reported = 0
    for k in range(BAGS):
        changed, begin, end = damaged(data, rng)
        path = tmp_path / 'A_0.mcap'
        path.write_bytes(changed)
        hit = {n for n, (first, last, _) in enumerate(table) if first < end and begin < last}
        items = list(salvage(path))
        saved = {name_of(m): m for m in items if isinstance(m, Message)}
        assert all(messages[name] == m for name, m in saved.items()), f'bag {k}: invented messages'
        outside = [name for name in messages if where[name] not in hit]
        count = sum(name in saved for name in outside)
        assert count >= 0.95 * len(outside), (f'bag {k}: {count} of {len(outside)}, {begin} to '
                                              f'{end}')
        if len(saved) < len(messages) and changed.endswith(MAGIC):
            assert any(isinstance(item, Damage) for item in items), f'bag {k}: not reported'
            reported += 1
        wanted, recovered = wanted + len(outside), recovered + count
    assert recovered >= 0.99 * wanted
    assert reported > 100


def test_a_bag_that_was_never_closed_and_is_damaged(tmp_path):
    folder = write(tmp_path / 'A', closed=False)
    path = folder / 'A_0.mcap'
    data = bytearray(path.read_bytes())
    place = len(data) // 2
    data[place:place + 900] = bytes(900)
    path.write_bytes(data)
    saved = recover(folder)
    assert 0.9 * 774 < saved.messages < 774
    assert [part.file for part in saved.skipped] == ['A_0.mcap']


def test_one_flipped_bit_is_found_told_and_skipped(intact, tmp_path, capsys):
    folder = shutil.copytree(intact[0], tmp_path / 's' / 'A')
    path = folder / 'A_0.mcap'
    data = bytearray(path.read_bytes())
    first = intact[3][1]
    data[first[0] + 100] ^= 1
    path.write_bytes(data)
    assert len(damages(folder)) == 1
    assert main(['episode', 'recover', str(folder)]) == 0
    printed = capsys.readouterr().out
    assert 'skipped: ' in printed
    assert any(word in printed for word in ('checksum', 'did not', 'zstd', 'Zstd', 'rror'))
    assert 's per 100 MB' in printed
    with BagReader(folder) as bag:
        assert 0.9 * 774 < len(list(bag.messages())) < 774
    assert main(['episode', 'recover', str(folder)]) == 0
    assert 'nothing to do' in capsys.readouterr().out


@pytest.mark.parametrize('stage', ['copying', 'first move', 'before the first move'])
def test_a_recovery_that_was_killed_is_finished_or_undone(tmp_path, stage):
    folder = write(tmp_path / 's' / 'A', closed=stage == 'nothing')
    original = (folder / 'A_0.mcap').read_bytes()
    copy = folder.with_name('A_recovering')
    if stage == 'copying':
        copy.mkdir()
        (copy / 'A_0.mcap').write_bytes(original[:1000])
    else:
        recover(folder, copy)
    if stage == 'first move':
        folder.rename(folder.with_name('A_damaged'))
    tidy(tmp_path)
    assert not copy.exists()
    assert (folder / 'metadata.yaml').exists() == (stage == 'first move')
    original_folder = folder.with_name('A_damaged') if stage == 'first move' else folder
    assert (original_folder / 'A_0.mcap').read_bytes() == original


def test_empty_and_foreign_files_have_nothing_and_do_not_fail(tmp_path):
    path = tmp_path / 'A_0.mcap'
    for content in (b'', b'\x89MCAP0\r\n', b'no bag at all', bytes(5000),
                    random.Random(1).randbytes(20_000)):
        path.write_bytes(content)
        assert not [item for item in salvage(path) if not isinstance(item, Damage)]


def test_a_lost_channel_of_a_killed_recording_takes_nothing_else_with_it(tmp_path):
    path = write(tmp_path / 'A', closed=False) / 'A_0.mcap'
    whole = {name_of(m) for m in salvage(path) if isinstance(m, Message)}
    data = bytearray(path.read_bytes())
    data[data.index(LATE.name.encode()) + 3] = 0xff    # the record of its channel
    path.write_bytes(data)
    items = list(salvage(path))
    saved = {name_of(m) for m in items if isinstance(m, Message)}
    assert not any(name == LATE.name for name, _ in saved)
    assert {name for name in whole if name[0] != LATE.name} == saved
    lost = [item.reason for item in items if isinstance(item, Damage)]
    assert len(lost) == 2, lost
    assert 'channel 3 is lost' in lost[1]


@pytest.mark.parametrize('kind', ['inserted', 'removed'])
def test_bytes_that_shift_the_file_do_not_cost_the_descriptions_at_its_end(intact, tmp_path,
                                                                           kind):
    folder, messages, _, table = intact
    data = (folder / 'A_0.mcap').read_bytes()
    place = data.index(b'CompressedImage')    # in the description before the messages
    changed = (data[:place] + b'x' + data[place:] if kind == 'inserted'
               else data[:place] + data[table[0][0] - 5:])
    path = tmp_path / 'A_0.mcap'
    path.write_bytes(changed)
    items = list(salvage(path))
    assert any(isinstance(item, Damage) for item in items)
    saved = {name_of(m): m for m in items if isinstance(m, Message)}
    assert saved == messages


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
    bounds = []
    for index in summary.chunk_indexes:
        begin = index.chunk_start_offset
        bounds.append((begin, begin + index.chunk_length,
                       (index.message_start_time, index.message_end_time,
                        set(index.message_index_offsets))))
    return bounds


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
    following = at if kind == 'inserted' else end
    return data[:at] + filling + data[following:], at, max(following, at + 1)
