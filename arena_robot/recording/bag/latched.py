"""The newest latched messages, which are repeated at the start of each file."""

from collections.abc import Iterator

from arena_robot.recording.bag.base import Message, Topic

_STATIC_TF = 'tf2_msgs/msg/TFMessage'
_MOST = 64


class LatchedSet:
    """
    Newest message of each latched topic; of static transforms, every different one.

    Static transforms come from several senders, each with its own part of the tree.
    """

    def __init__(self) -> None:
        self._messages: dict[str, list[Message]] = {}

    def add(self, topic: Topic, message: Message) -> None:
        """Store a message; messages of topics that are not latched are ignored."""
        if not topic.is_latched:
            return
        if topic.type != _STATIC_TF:
            self._messages[topic.name] = [message]
            return
        kept = [m for m in self._messages.get(topic.name, []) if m.data != message.data]
        self._messages[topic.name] = [*kept, message][-_MOST:]

    def __iter__(self) -> Iterator[Message]:
        for messages in list(self._messages.values()):
            yield from messages
