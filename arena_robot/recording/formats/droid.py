"""
Export to DROID's raw layout: ``trajectory.h5``, ``metadata_<id>.json``, ``recordings/MP4``.

One row per step, with DROID's own names; stamps are milliseconds. Values that were not recorded
are left out: only the requested action space is included, and the joint target that was really
sent. A camera has the serial number that its node's diagnostics say, or ``camera_<role>`` where
they say none. Its MP4 shows both eyes side by side, as DROID's readers split it;
``<serial>_timestamps.json`` has the stamps of the frames. ``camera_extrinsics`` are poses of the
optical frames in the arm's base, where the recording says where a camera was;
``camera_intrinsics`` are those of its CameraInfo.
"""

import json
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from arena_robot import __version__
from arena_robot.core.action import ActionSpace
from arena_robot.core.errors import DataError
from arena_robot.core.files import write_text
from arena_robot.core.observation import EYES, ROLES, Floats, view
from arena_robot.recording.formats.exporting import EpisodeExport, ExportSource, new_folder
from arena_robot.robots.arms import FLANGE_LINK
from arena_robot.safety.urdf import CameraMount, matrix_of, pose_of_matrix

_MS = 1_000_000
_WRIST = 'wrist'
_DIAGNOSTICS = 'diagnostic_msgs/msg/DiagnosticArray'
_IMAGES = ': images'    # the task of a camera node whose diagnostics name the camera
_MP4 = 'recordings/MP4'


@dataclass(frozen=True)
class _Camera:
    """A camera, its role, and its recorded views by eye, the left one first."""

    serial: str
    role: str
    views: dict[str, str]

    @property
    def kind(self) -> int:
        """DROID's number: 0 on the hand, 1 varied."""
        return int(self.role != _WRIST)

    @property
    def video(self) -> str:
        return f'{_MP4}/{self.serial}.mp4'


def export_droid(source: ExportSource, output: Path) -> Path:
    """Write one episode into ``output/<session>_<slot>`` and return that folder."""
    folder = new_folder(output / f'{source.session.session_id}_{source.slot}')
    with EpisodeExport(source) as episode:
        cameras = _cameras(episode)
        try:
            with h5py.File(folder / 'trajectory.h5', 'w') as file:
                _write(file, episode, cameras)
                about = _metadata(file, episode, cameras)
        except OSError as error:
            raise DataError(f'cannot write {folder}/trajectory.h5: {error}') from error
        (folder / _MP4).mkdir(parents=True)
        for camera in cameras:
            path = folder / camera.video
            left, *right = camera.views.values()
            episode.write_step_video(left, path, beside=''.join(right))
            write_text(path.with_name(f'{camera.serial}_timestamps.json'),
                       json.dumps(_received(episode, camera).tolist()) + '\n')
        write_text(folder / f'metadata_{source.session.session_id}.json',
                   json.dumps(about, indent=2) + '\n')
    return folder


def _cameras(episode: EpisodeExport) -> list[_Camera]:
    """Return the cameras whose left eye every step used."""
    recorded, serials = episode.views(right_eyes=True), _serials(episode)
    cameras = []
    for role in ROLES:
        views = {eye: view(role, eye) for eye in EYES if view(role, eye) in recorded}
        if 'left' in views:
            topic = episode.tracks.views[view(role)].topic.name
            number = next((n for node, n in serials.items() if topic.startswith(f'/{node}/')),
                          f'camera_{role}')
            cameras.append(_Camera(number, role, views))
    return cameras


def _serials(episode: EpisodeExport) -> dict[str, str]:
    """Return the serial numbers in the recorded diagnostics by the camera's node."""
    topics = [topic.name for topic in episode.bag.of_type(_DIAGNOSTICS)]
    reports = episode.bag.decoded(episode.codec, topics) if topics else ()
    return {status.name.removesuffix(_IMAGES): number[0]
            for _, value in reports for status in value.status
            if status.name.endswith(_IMAGES)
            and (number := re.search(r'\d+$', status.hardware_id))}


def _received(episode: EpisodeExport, camera: _Camera) -> Any:
    """Return the stamp (N,) of the left picture that each step used, in ms."""
    steps = episode.tracks.steps
    return steps.image_stamps[:, steps.views.index(camera.views['left'])] // _MS


def _write(file: h5py.File, episode: EpisodeExport, cameras: Sequence[_Camera]) -> None:
    seen, steps = episode.observed(), episode.tracks.steps
    state = file.create_group('observation/robot_state')
    state['joint_positions'] = seen['joint_position']
    state['joint_velocities'] = seen['joint_velocity']
    state['motor_torques_measured'] = seen['joint_torque']
    state['cartesian_position'] = seen['cartesian_position']
    state['gripper_position'] = seen['gripper_position']
    action = file.create_group('action')
    action[steps.space] = steps.requested[:, :-1]
    action['gripper_position'] = steps.gripper_sent
    if steps.space != ActionSpace.JOINT_POSITION:
        action['joint_position'] = steps.q_sent
    action['target_joint_position'] = steps.q_sent
    stamps = file.create_group('observation/timestamp')
    stamps['control/step_start'] = steps.stamps // _MS
    stamps['robot_state/read_end'] = steps.arm_stamps // _MS
    stamps['skip_action'] = np.zeros(len(steps.index), bool)
    for camera in cameras:
        stamps[f'cameras/{camera.serial}_frame_received'] = _received(episode, camera)
        kind = np.full(len(steps.index), camera.kind, np.int64)
        file[f'observation/camera_type/{camera.serial}'] = kind
        for eye, name in camera.views.items():
            _calibration(file, f'{camera.serial}_{eye}', episode, name, seen['cartesian_position'])
    file['observation/controller_info/clamped'] = np.array([bool(c) for c in steps.clamps])
    file.attrs.update({
        'current_task': episode.prompt, 'action_space': steps.space,
        'robot_serial_number': episode.robot, 'control_rate_hz': episode.rate_hz,
        'version_number': f'arena_robot {__version__}',
        'user': episode.source.session.evaluator, 'building': episode.source.session.station,
        'cartesian_frame': 'base to link8 (flange), x y z roll pitch yaw, fixed axes'})
    if episode.source.success is not None:
        file.attrs['success'] = episode.source.success


def _calibration(file: h5py.File, name: str, episode: EpisodeExport, of: str, flange: Floats
                 ) -> None:
    """Write, as far as they were recorded, extrinsics and intrinsics of a view at each step."""
    mount = episode.tracks.mounts.get(of)
    if mount is not None:
        _extrinsics(file.require_group('observation/camera_extrinsics'), name, mount, flange)
    lens = episode.intrinsics(of)
    if lens is not None:
        file[f'observation/camera_intrinsics/{name}'] = np.tile(lens, (len(flange), 1, 1))


def _extrinsics(group: h5py.Group, name: str, mount: CameraMount, flange: Floats) -> None:
    """Write the camera's pose in the base at each step; of one on the flange its offset too."""
    poses = np.tile(np.asarray(mount.pose), (len(flange), 1))
    if mount.parent.endswith(FLANGE_LINK):
        group[f'{name}_gripper_offset'] = poses
        on_flange = matrix_of(mount.pose)
        poses = np.array([pose_of_matrix(matrix_of(pose) @ on_flange) for pose in flange])
    group[name] = poses


def _metadata(file: h5py.File, episode: EpisodeExport, cameras: Sequence[_Camera]
              ) -> dict[str, Any]:
    """Return what DROID's metadata files say, paths below the episode; and slot and policy."""
    session, slot = episode.source.session, episode.source.slot
    began = time.gmtime(int(episode.tracks.steps.stamps[0]) // 10**9)
    about = {
        'uuid': session.session_id, 'slot': slot, 'policy': session.policy(slot),
        'lab': session.station, 'station': session.station, 'building': session.station,
        'user': session.evaluator, 'user_id': session.evaluator, 'scene_id': -1,
        'date': time.strftime('%Y-%m-%d', began),
        'timestamp': time.strftime('%Y-%m-%d-%Hh-%Mm-%Ss', began),
        'robot_serial': episode.robot, 'droid_version': file.attrs['version_number'],
        'current_task': episode.prompt, 'trajectory_length': len(episode.tracks.steps.index),
        'success': bool(episode.source.success), 'partial_success': session.progress(slot),
        'hdf5_path': 'trajectory.h5'}
    outside = sorted((c for c in cameras if c.kind), key=lambda camera: camera.serial)
    names = {f'ext{n}': camera for n, camera in enumerate(outside, 1)}
    for name, camera in [*names.items(), *((c.role, c) for c in cameras)]:
        about[f'{name}_mp4_path'] = camera.video
        about[f'{name}_cam_serial'] = camera.serial
        poses = file.get(f'observation/camera_extrinsics/{camera.serial}_left')
        if poses is not None:
            about[f'{name}_cam_extrinsics'] = poses[0].tolist()
    return about
