"""Where the cameras of a recording were, from its tf_static."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.spatial.transform import Rotation

from arena_robot.core.observation import Floats
from arena_robot.recording.bag.base import Decoder
from arena_robot.recording.bag.reader import BagReader
from arena_robot.safety.camera_frames import CameraMount, pose_of_matrix
from arena_robot.safety.robots import BASE_LINK, FLANGE_LINK

TF = 'tf2_msgs/msg/TFMessage'
LONGEST = 20


def fixed_frames(bag: BagReader, decoder: Decoder) -> dict[str, tuple[str, Floats]]:
    """Return the parent of each fixed frame, and its pose (4, 4) in it; the last one counts."""
    names = [topic.name for topic in bag.of_type(TF) if topic.name.endswith('/tf_static')]
    found: dict[str, tuple[str, Floats]] = {}
    for message in bag.messages(names) if names else ():
        for one in decoder.decode(bag.topics[message.topic], message.data).transforms:
            turn = one.transform.rotation
            if np.linalg.norm([turn.x, turn.y, turn.z, turn.w]) > 0.5:  # else no rotation at all
                found[str(one.child_frame_id)] = (str(one.header.frame_id),
                                                  _matrix(one.transform))
    return found


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
