"""
The views of an episode: which topic of a bag holds the images of which camera's eye.

Where the camera was is read from the bag's tf_static.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.spatial.transform import Rotation

from arena_robot.core.observation import EYES, ROLES, Floats, view
from arena_robot.recording.bag.base import Decoder, Topic
from arena_robot.robots.arms import BASE_LINK, FLANGE_LINK
from arena_robot.safety.urdf import CameraMount, pose_of_matrix

if TYPE_CHECKING:    # videos are written where no bag is read, without mcap
    from arena_robot.recording.bag.reader import BagReader

STEP = 'arena_msgs/msg/StepRecord'
IMAGE = 'sensor_msgs/msg/Image'
JPEG = 'sensor_msgs/msg/CompressedImage'
JPEGS = '/compressed'
PNGS = '/compressedDepth'
TF = 'tf2_msgs/msg/TFMessage'
LONGEST = 20    # frames from a camera to the arm's base; more of them are a loop


@dataclass(frozen=True)
class EpisodeView:
    """The recorded topic of one view, with its camera's role, its eye, or depth, and its frame."""

    topic: Topic
    role: str = ''
    eye: str = ''
    frame_id: str = ''


def episode_views(bag: 'BagReader', views: Iterable[Any]) -> dict[str, EpisodeView]:
    """
    Return the views of an episode by name; ``views`` are the views of its EpisodeInfo.

    A recording without them, made by another program, has its views found by :func:`view_of`
    in the names of its image topics, where these are unambiguous.
    """
    named = {str(entry.view): EpisodeView(topic, str(entry.role), str(entry.eye),
                                          str(entry.frame_id))
             for entry in views if (topic := _carrier(bag, str(entry.topic)))}
    return dict(sorted((named or _by_topic_names(bag)).items()))


def view_of(topic: str) -> tuple[str, str] | None:
    """
    Return role and eye in a topic's name, such as ('wrist', 'left'); None where it has no role.

    The role is a part of a word, as in ``wrist_camera``, or a word before the eye's, as in
    ``left/zed_node/right``. The eye is the next word that is ``left`` or ``right``; without one it
    is the left eye. A single ``left`` is an eye, of a camera that is not named.
    """
    words = topic.strip('/').split('/')
    for k, word in enumerate(words):
        role = next((r for r in ROLES if r in word.split('_')), '')
        eye = next((w for w in words[k + 1:] if w in EYES), '')
        if role and (eye or word not in EYES):
            return role, eye or 'left'
        if role:
            return None
    return None


def _by_topic_names(bag: 'BagReader') -> dict[str, EpisodeView]:
    """
    Find views in topic names; compressed ones are preferred to raw ones.

    The station's namespace, such as ``/left`` of the left robot, is not part of a view's name.
    Latched images, such as start photographs, are not views.
    """
    views: dict[str, EpisodeView] = {}
    steps = bag.of_type(STEP)
    namespace = steps[0].name.rsplit('/', 2)[0] + '/' if steps else '/'
    for kind in (JPEG, IMAGE):
        for topic in bag.of_type(kind):
            named = view_of(topic.name.removeprefix(namespace))
            if named and not (topic.is_latched or 'depth' in topic.name):
                views.setdefault(view(*named), EpisodeView(topic, *named))
    return views


def _carrier(bag: 'BagReader', topic: str) -> Topic | None:
    """Return the topic that holds a view's images: its JPEGs, its PNGs of depth, or raw ones."""
    carriers = [bag.topics[name] for name in (topic + JPEGS, topic + PNGS, topic)
                if name in bag.topics]
    return max(carriers, key=lambda t: bag.metadata.counts.get(t.name, 0), default=None)


def fixed_frames(bag: 'BagReader', decoder: Decoder) -> dict[str, tuple[str, Floats]]:
    """Return the parent of each fixed frame, and its pose (4, 4) in it; the last one counts."""
    names = [topic.name for topic in bag.of_type(TF) if topic.name.endswith('/tf_static')]
    frames: dict[str, tuple[str, Floats]] = {}
    for message in bag.messages(names) if names else ():
        for transform in decoder.decode(bag.topics[message.topic], message.data).transforms:
            turn = transform.transform.rotation
            if np.linalg.norm([turn.x, turn.y, turn.z, turn.w]) > 0.5:  # else no rotation at all
                frames[str(transform.child_frame_id)] = (str(transform.header.frame_id),
                                                         _matrix(transform.transform))
    return frames


def mount_of(frames: Mapping[str, tuple[str, Floats]], frame_id: str) -> CameraMount | None:
    """
    Return where an optical frame is on the arm: in its base or its flange.

    None where no fixed frames lead from it to an arm's base or flange.
    """
    pose, frame = np.eye(4), frame_id
    for _ in range(LONGEST):
        if frame.endswith((BASE_LINK, FLANGE_LINK)):
            return CameraMount(frame, pose_of_matrix(pose)) if frame != frame_id else None
        if frame not in frames:
            return None
        frame, step = frames[frame]
        pose = step @ pose
    return None


def _matrix(transform: Any) -> Floats:
    place, turn = transform.translation, transform.rotation
    out = np.eye(4)
    out[:3, :3] = Rotation.from_quat([turn.x, turn.y, turn.z, turn.w]).as_matrix()
    out[:3, 3] = place.x, place.y, place.z
    return out
