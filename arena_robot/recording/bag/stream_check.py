"""Checks on every message of a bag: it can be decoded, and stamps increase."""

from collections.abc import Iterator

from arena_robot.core.errors import DataError
from arena_robot.core.jpeg import from_jpeg
from arena_robot.recording.bag.base import Decoder, Message, Topic
from arena_robot.recording.bag.reader import BagReader
from arena_robot.recording.bag.topic_stats import TopicCounter
from arena_robot.recording.episode.views import JPEG

Result = tuple[bool, str, str]
_PICTURES_DECODED = 3


def message_findings(bag: BagReader, decoder: Decoder) -> Iterator[Result]:
    """
    Yield (good, what, text) for decoding and for the order of stamps.

    On topics with several publishers, as shown by their counts, stamps may be out of order.
    """
    broken: dict[str, str] = {}
    last: dict[str, int] = {}
    mixed: set[str] = set()
    backwards: dict[str, int] = {}
    counters = {name: TopicCounter(topic) for name, topic in bag.topics.items()}
    for message in bag.messages():
        topic, counter = bag.topics[message.topic], counters[message.topic]
        before = counter.last_stamp_ns
        counter.wrote(message)
        if message.sequence <= last.get(topic.name, -1):
            mixed.add(topic.name)
        last[topic.name] = message.sequence
        if counter.stamped and counter.last_stamp_ns < before and len(topic.qos) < 2:
            backwards[topic.name] = backwards.get(topic.name, 0) + 1
        problem = _problem(topic, message, decoder, counter.written)
        if problem:
            broken.setdefault(topic.name, problem)
    backwards = {n: k for n, k in backwards.items() if n not in mixed}
    yield (not broken, 'decoding', 'every message is of its type' if not broken
           else '; '.join(broken.values()))
    yield (not backwards, 'stamps', 'stamps never run backwards' if not backwards
           else '; '.join(f'{n} runs backwards {k} times' for n, k in backwards.items()))


def _problem(topic: Topic, message: Message, decoder: Decoder, count: int) -> str:
    """Return what is wrong with a message; only some images are decoded."""
    if topic.is_image and count > _PICTURES_DECODED and count % 50:
        return ''
    try:
        value = decoder.decode(topic, message.data)
    except DataError as error:
        return str(error)
    try:
        if topic.type == JPEG:
            from_jpeg(value.data)
    except DataError:
        return f'{topic.name}: picture {count} cannot be decoded'
    return ''
