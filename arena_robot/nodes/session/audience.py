"""Topics of a session node: its state, the episode, every step and every chunk."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rclpy.node import Node
from rclpy.publisher import Publisher
from sensor_msgs.msg import CompressedImage

from arena_msgs.msg import ActionChunk, CameraView, EpisodeInfo, SessionState, StepRecord
from arena_robot.core.action import Chunk
from arena_robot.core.clock import Clock
from arena_robot.core.episode import Episode, Slot, Step
from arena_robot.core.jpeg import to_jpeg
from arena_robot.core.observation import Observation, Pixels
from arena_robot.nodes.lib import qos
from arena_robot.nodes.remote.robot import RemoteArm
from arena_robot.nodes.session import messages
from arena_robot.session.evaluator.desk import DeskState
from arena_robot.session.loop.rollout import RolloutRequest

SHOWN_EYE = '_left'


class RosAudience:
    """
    Publishes a session's events; see :class:`arena_robot.session.ports.Audience`.

    ``fixed``, ``views`` and what ``arm`` is are published with every episode; ``shown`` returns
    the state to publish.
    """

    def __init__(self, node: Node, clock: Clock, arm: RemoteArm,
                 fixed: Mapping[str, Any], shown: Callable[[], DeskState],
                 views: Callable[[], Sequence[CameraView]] = tuple) -> None:
        self._node = node
        self._clock = clock
        self._arm = arm
        self._fixed = fixed
        self._slot = Slot.A
        self._space = ''
        self._shown, self._views = shown, views
        self._state = qos.publisher(node, SessionState, '~/state', qos.LATCHED)
        self._episode = qos.publisher(node, EpisodeInfo, '~/episode_info', qos.LATCHED)
        self._steps = qos.publisher(node, StepRecord, '~/step')
        self._chunks = qos.publisher(node, ActionChunk, '~/action_chunk')
        self._reference = qos.publisher(node, CompressedImage, '~/reset_reference', qos.LATCHED)
        self._references: dict[str, Publisher] = {}
        self.last: Step | None = None

    def changed(self) -> None:
        """Publish the state."""
        self._state.publish(messages.state_message(self._shown()))

    def episode(self, job: RolloutRequest, episode: Episode | None) -> None:
        """Publish how an episode starts or ended."""
        self._slot = job.slot
        if episode is None:
            self.last, arm = None, self._arm.description()
            self._fixed = {**self._fixed, 'robot_type': arm.robot_type, 'backend': arm.backend}
        self._episode.publish(messages.episode_message(
            job, episode, self._clock.now_ns(), self._arm.frame, self._fixed, self._views()))

    def chunk(self, index: int, step: int, chunk: Chunk) -> None:
        """Publish the actions of an inference."""
        self._space = chunk.space.value
        self._chunks.publish(messages.chunk_message(
            index, step, chunk, self._slot, self._clock.now_ns(), self._arm.frame))

    def step(self, step: Step, observation: Observation) -> None:
        """Publish one control step."""
        self.last = step
        self._steps.publish(messages.step_message(step, observation, self._slot, self._space,
                                                  self._arm.frame))

    def photos(self, photos: Mapping[str, Pixels]) -> None:
        """Publish the start photographs of the left eyes, each under its view's name."""
        now_ns = self._clock.now_ns()
        frames = {one.view: one.frame_id for one in self._views()}
        for number, (view, pixels) in enumerate(p for p in photos.items()
                                                if p[0].endswith(SHOWN_EYE)):
            message = messages.photo_message(to_jpeg(pixels), now_ns, frames.get(view, ''))
            if view not in self._references:
                self._references[view] = qos.publisher(
                    self._node, CompressedImage, f'~/reset_reference/{view}', qos.LATCHED)
            self._references[view].publish(message)
            if number == 0:
                self._reference.publish(message)
