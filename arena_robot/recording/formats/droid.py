"""
Export to DROID's raw layout: ``trajectory.h5``, ``metadata_<id>.json``, ``recordings/MP4``.

One row per step, with DROID's own names; stamps are milliseconds. Values that were not recorded
are left out: only the requested action space is included, and the joint target that was really
sent. Cameras are named by view instead of serial number. ``camera_extrinsics`` are poses of the
optical frames in the arm's base, where the recording says where a camera was.
"""

import json
from pathlib import Path

import h5py
import numpy as np

from arena_robot.core.action import ActionSpace
from arena_robot.core.errors import DataError
from arena_robot.core.files import write_text
from arena_robot.core.observation import Floats
from arena_robot.recording.formats.exporting import EpisodeExport, ExportSource, new_folder
from arena_robot.robots.arms import FLANGE_LINK
from arena_robot.safety.urdf import CameraMount, matrix_of, pose_of_matrix

_MS = 1_000_000
_KINDS = {'left': 1, 'right': 1, 'wrist': 0}


def export_droid(source: ExportSource, output: Path) -> Path:
    """Write one episode into ``output/<session>_<slot>`` and return that folder."""
    folder = new_folder(output / f'{source.session.session_id}_{source.slot}')
    with EpisodeExport(source) as episode:
        views = episode.views(right_eyes=True)
        try:
            with h5py.File(folder / 'trajectory.h5', 'w') as file:
                _write(file, episode, views)
        except OSError as error:
            raise DataError(f'cannot write {folder}/trajectory.h5: {error}') from error
        videos = folder / 'recordings' / 'MP4'
        videos.mkdir(parents=True)
        for view in views:
            episode.write_step_video(view, videos / f'{view}.mp4')
        session = source.session
        text = json.dumps({
            'uuid': session.session_id, 'slot': source.slot, 'policy': session.policy(source.slot),
            'station': session.station, 'current_task': episode.prompt,
            'trajectory_length': len(episode.tracks.steps.index),
            'success': session.progress(source.slot) == 1.0,
            'partial_success': session.progress(source.slot),
            'hdf5_path': 'trajectory.h5',
            'mp4_paths': {v: f'recordings/MP4/{v}.mp4' for v in views}}, indent=2) + '\n'
        write_text(folder / f'metadata_{session.session_id}.json', text)
    return folder


def _write(file: h5py.File, episode: EpisodeExport, views: list[str]) -> None:
    rows, steps = episode.rows(), episode.tracks.steps
    state = file.create_group('observation/robot_state')
    state['joint_positions'] = rows.joints
    state['joint_velocities'] = rows.velocities
    state['motor_torques_measured'] = rows.torques
    state['cartesian_position'] = rows.pose
    state['gripper_position'] = rows.gripper
    action = file.create_group('action')
    action[rows.space] = rows.requested[:, :-1]
    action['gripper_position'] = steps.gripper_sent
    if rows.space != ActionSpace.JOINT_POSITION:
        action['joint_position'] = steps.q_sent
    action['target_joint_position'] = steps.q_sent
    for view in views:
        _extrinsics(file, view, episode.tracks.mounts.get(view), rows.pose)
    stamps = file.create_group('observation/timestamp')
    stamps['control/step_start'] = steps.stamps // _MS
    stamps['robot_state/read_end'] = steps.arm_stamps // _MS
    for view in views:
        column = steps.views.index(view)
        stamps[f'cameras/{view}_frame_received'] = steps.image_stamps[:, column] // _MS
        kind = np.full(len(steps.index), _KINDS[view.split('_')[0]], np.int64)
        file[f'observation/camera_type/{view}'] = kind
    stamps['skip_action'] = np.zeros(len(steps.index), bool)
    file['observation/controller_info/clamped'] = np.array([bool(c) for c in steps.clamps])
    file.attrs['current_task'] = episode.prompt
    file.attrs['action_space'] = rows.space
    file.attrs['cartesian_frame'] = 'base to link8 (flange), x y z roll pitch yaw, fixed axes'


def _extrinsics(file: h5py.File, view: str, mount: CameraMount | None, flange: Floats) -> None:
    """Write the camera's pose in the base at each step; of one on the flange its offset too."""
    if mount is None:
        return
    poses = np.tile(np.asarray(mount.pose), (len(flange), 1))
    group = file.require_group('observation/camera_extrinsics')
    if mount.parent.endswith(FLANGE_LINK):
        group[f'{view}_gripper_offset'] = poses
        on_flange = matrix_of(mount.pose)
        poses = np.array([pose_of_matrix(matrix_of(pose) @ on_flange) for pose in flange])
    group[view] = poses
