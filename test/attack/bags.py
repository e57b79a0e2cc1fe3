"""Damaged bags: flipped bits, zeros, noise, cut tails; copies of a bag that is being written."""

import random
import shutil
import sys
import threading
import time
from pathlib import Path

from tally import STUCK_S, Tally

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / 'recording'))

from test_damaged_bags import IMAGE, STATE, chunks, damaged, name_of, write

from arena_robot.core.errors import ArenaError
from arena_robot.recording.bag.base import Message
from arena_robot.recording.bag.mcap_file import MAGIC
from arena_robot.recording.bag.reader import BagReader
from arena_robot.recording.bag.recover import recover
from arena_robot.recording.bag.salvage import Damage, salvage
from arena_robot.recording.bag.writer import BagWriter

SHARE = 0.95
NUMBERS = {STATE.name: 1, IMAGE.name: 2, '/session_node/step': 3}


def damaged_bags(folder: Path, count: int, seed: int = 1) -> Tally:
    """
    Damage a bag at random and recover it.

    A loss is a bag of which less than 95 % of the messages outside of the damaged chunks come
    back; a wrong accept is a message that was never written, or a damage that is not reported.
    """
    tally, rng = Tally('damaged bags'), random.Random(seed)
    path = write(folder / 'whole' / 'A') / 'A_0.mcap'
    messages = {name_of(m): m for m in salvage(path) if isinstance(m, Message)}
    table, data, wanted, recovered = chunks(path), path.read_bytes(), 0, 0
    where = {name: next(k for k, (_, _, (low, high, ids)) in enumerate(table)
                        if low <= m.log_ns <= high and NUMBERS[m.topic] in ids)
             for name, m in messages.items()}
    for number in range(count):
        tally.tried += 1
        changed, begin, end = damaged(data, rng)
        hit = {n for n, (first, last, _) in enumerate(table) if first < end and begin < last}
        outside = [name for name in messages if where[name] not in hit]
        got = _recovered(tally, folder / str(number) / 'A', changed, messages)
        kept = sum(name in got for name in outside)
        wanted, recovered = wanted + len(outside), recovered + kept
        if kept < SHARE * len(outside):
            tally.note('losses', f'{kept} of {len(outside)} messages, bytes {begin} to {end}')
    tally.remarks.append(f'{100.0 * recovered / max(1, wanted):.2f} % of the messages outside of '
                         'damaged chunks came back')
    return tally


def _recovered(tally: Tally, folder: Path, data: bytes,
               messages: dict[tuple[str, int], Message]) -> set[tuple[str, int]]:
    """Return the names of the messages of a damaged bag that are in its recovered one."""
    folder.mkdir(parents=True)
    path = folder / 'A_0.mcap'
    path.write_bytes(data)
    begin_s = time.monotonic()
    try:
        named = any(isinstance(item, Damage) for item in salvage(path))
        recover(folder)
        with BagReader(folder) as bag:
            got = {name_of(m): m for m in bag.messages()}
    except ArenaError:
        got, named = {}, True
    except Exception as error:
        tally.note('crashes', error)
        return set()
    if any(messages.get(name) != m for name, m in got.items()):
        tally.note('wrong', 'a message that was never written')
    if len(got) < len(messages) and data.endswith(MAGIC) and not named:
        tally.note('wrong', 'a damage that is not reported')
    if time.monotonic() - begin_s > STUCK_S:
        tally.note('stuck', folder.name)
    shutil.rmtree(folder.parent)
    return set(got)


def growing_bags(folder: Path, count: int, seed: int = 1) -> Tally:
    """Copy a bag at random instants while it is written; all that was flushed must come back."""
    tally, rng = Tally('copies of a bag that is written'), random.Random(seed)
    flushed, over = [0], threading.Event()
    bag = BagWriter(folder / 'A', {'session_id': 's', 'slot': 'A'}, chunk_bytes=20_000)
    bag.open()
    bag.add_topic(STATE)

    def record() -> None:
        written = 0
        while not over.is_set():
            for _ in range(50):
                stamp_ns = 10**18 + written * 10**7
                bag.write(Message(STATE.name, stamp_ns, stamp_ns, written, rng.randbytes(120)))
                written += 1
            bag.flush()
            flushed[0] = written
            over.wait(0.002)

    writer = threading.Thread(target=record)
    writer.start()
    try:
        for number in range(count):
            tally.tried += 1
            before = flushed[0]
            copy = folder / str(number) / 'A'
            shutil.copytree(folder / 'A', copy)
            try:
                kept = recover(copy).messages
            except ArenaError:
                kept = 0
            if kept < before:
                tally.note('losses', f'{kept} of {before} messages')
            shutil.rmtree(copy.parent)
    finally:
        over.set()
        writer.join()
        bag.abandon()
    return tally


def recovery_speed(folder: Path, megabytes: int) -> str:
    """Return how long the recovery of a damaged bag takes per 100 MB."""
    rng = random.Random(1)
    bag = BagWriter(folder / 'A', {'session_id': 's', 'slot': 'A'})
    bag.open()
    bag.add_topic(IMAGE)
    picture = rng.randbytes(100_000)
    for k in range(10 * megabytes):
        stamp_ns = 10**18 + k * 10**7
        bag.write(Message(IMAGE.name, stamp_ns, stamp_ns, k, picture))
        if k % 500 == 0:
            bag.flush()
    bag.close()
    path = folder / 'A' / 'A_0.mcap'
    with path.open('r+b') as file:
        for _ in range(10):
            file.seek(rng.randrange(path.stat().st_size))
            file.write(b'\x55')
    saved = recover(folder / 'A')
    return (f'{saved.took_s / saved.bytes * 1e8:.2f} s per 100 MB, {saved.messages} of '
            f'{10 * megabytes} messages of a bag with 10 damaged places')
