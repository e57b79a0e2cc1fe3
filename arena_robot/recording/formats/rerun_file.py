"""
A file for the Rerun viewer: an episode, or the rollouts of a session beside each other.

:class:`LiveRerun` sends to a viewer what happens at a station now.

In a file, the timeline ``rollout`` counts seconds from the first step of each rollout, so that
both begin together. A rollout's data is below its slot, such as ``/A``:

- ``cameras/<view>``: the recorded JPEGs, at the times of their capture;
- ``arm``: the arm as a line in its base, where cameras are drawn whose place and lens are known;
- ``joints/<joint>/…``: ``measured``, ``asked`` by the policy, ``accepted`` by safety (rad);
- ``gripper/…``: the same, 0 open to 1 closed; actions of another space are in ``asked/<number>``;
- ``chunks/<number>``: every action of every chunk at the time that the policy meant it for;
- ``latency/…``: milliseconds of loop, inference, lateness, age of the observation, skew;
- ``motion``: whether the arm moves or stands still; ``progress/…``: what judges and simulator saw;
- ``log``: clamps, and how the rollout ended. ``/verdict`` is the evaluator's.
"""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import rerun as rr
import rerun.blueprint as rrb
from scipy.spatial.transform import Rotation

from arena_robot.core import jpeg
from arena_robot.core.action import ActionSpace
from arena_robot.core.errors import DataError
from arena_robot.core.files import replacing
from arena_robot.core.observation import ROLES, STILL_RAD_S, Floats, view
from arena_robot.core.verdict import FIELDS
from arena_robot.recording.bag.reader import BagReader
from arena_robot.recording.episode.clip import read_potential
from arena_robot.recording.episode.frames import depths, pixels_of
from arena_robot.recording.episode.tracks import Stamps
from arena_robot.recording.episode.views import JPEG
from arena_robot.recording.formats.exporting import EpisodeExport, ExportSource, recorded_joints
from arena_robot.records.audit_file import audits_of, read_audit
from arena_robot.records.session_file import SessionFile
from arena_robot.robots.action_spaces import joint_numbers
from arena_robot.robots.arms import FLANGE_LINK, Chain
from arena_robot.safety.kinematics import frames
from arena_robot.safety.urdf import matrix_of

TIMELINE = 'rollout'
# Of the lines: what was measured stays in the background of what was asked and accepted.
COLORS = {'measured': (150, 150, 150), 'asked': (240, 150, 30), 'accepted': (40, 120, 220)}
ARM_M = 0.02    # radius of the line that stands for the arm
FRUSTUM_M = 0.15    # the pictures of the cameras are drawn this far from them
LIVE_S = 0.1    # between two looks at a station: engineers see motion, a network has room
VIEWER = 'rerun+'    # an address of a viewer begins with it
JPEG_QUALITY = 90   # of pictures that were recorded raw; JPEGs are kept as they are


def write_rerun(sources: Sequence[ExportSource], path: Path, names: bool = False) -> None:
    """
    Write the rollouts of one session, or one of them, to a ``.rrd`` file with a layout.

    With ``names`` the rollouts are called by their policies. DataError when that is asked before
    the reveal, or an episode has no steps.
    """
    session = sources[0].session
    if names and session.reveal is None:
        raise DataError(f'session {session.session_id} is blind: its policies have no names '
                        'before the reveal; leave out --names')
    with replacing(path) as partial:
        file = rr.RecordingStream('arena_robot', recording_id=session.session_id,
                                  send_properties=False)
        file.save(partial, _layout(sources, names))
        end_s = 0.0
        for source in sources:
            with EpisodeExport(source) as episode:
                end_s = max(end_s, _Rollout(file, episode).write())
        _verdict(file, session, [source.slot for source in sources], end_s)
        file.send_recording_name(session.session_id)
        file.flush()
        file.disconnect()


class _Rollout:
    """Writes one episode below its slot; its times are seconds since its first step."""

    def __init__(self, file: rr.RecordingStream, episode: EpisodeExport) -> None:
        self._file, self._episode, self._tracks = file, episode, episode.tracks
        self._home = f'/{episode.source.slot}'
        self._steps_s = self._seconds(self._tracks.steps.stamps)
        space, width = self._tracks.steps.space, self._tracks.steps.requested.shape[1]
        self._joints = joint_numbers(self._tracks.steps.q_sent.shape[1])
        units = ('rad',) * len(self._joints)
        self._numbers = [*ActionSpace(space).row.sized(units).names, 'gripper'] if space else [
            f'number_{k}' for k in range(1, width + 1)]    # of an imported, unknown robot

    def write(self) -> float:
        """Write everything that was recorded; return the time of the last step."""
        for name in self._episode.views():
            self._camera(name)
        for name in self._episode.depths():
            self._depth(name)
        if len(self._tracks.arm.stamps):
            self._scene()
        self._arm()
        self._gripper()
        self._chunks()
        self._latency()
        self._progress()
        self._log()
        return float(self._steps_s[-1])

    def _seconds(self, stamps: Stamps) -> Floats:
        return np.asarray((stamps - self._tracks.steps.stamps[0]) * 1e-9, np.float64)

    def _send(self, entity: str, seconds: Floats | Sequence[float], columns: Any) -> None:
        if len(seconds):
            self._file.send_columns(f'{self._home}/{entity}',
                                    [rr.TimeColumn(TIMELINE, duration=np.asarray(seconds))],
                                    columns)

    def _line(self, entity: str, seconds: Floats, values: Floats) -> None:
        """Write a curve, in the colour of its last name."""
        last = entity.rpartition('/')[2]
        self._file.log(f'{self._home}/{entity}', rr.SeriesLines(
            names=last, colors=COLORS.get(last)), static=True)
        self._send(entity, seconds, rr.Scalars.columns(scalars=values))

    def _camera(self, view: str) -> None:
        track = self._tracks.views[view]
        blobs = list(self._jpegs(view))
        self._send(f'cameras/{view}', self._seconds(track.stamps), rr.EncodedImage.columns(
            blob=blobs, media_type=['image/jpeg'] * len(blobs)))

    def _depth(self, name: str) -> None:
        """Write depth below the camera whose left eye it is of, which has the pinhole."""
        track = self._tracks.depths[name]
        images = depths(self._episode.bag, self._episode.codec, track.topic)
        blobs = [jpeg.to_png(depth.millimetres) for depth in images]
        self._send(f'cameras/{view(track.view.role)}/depth', self._seconds(track.stamps),
                   rr.EncodedDepthImage.columns(
                       blob=blobs, media_type=['image/png'] * len(blobs)))

    def _jpegs(self, view: str) -> Iterator[bytes]:
        topic, codec = self._tracks.views[view].topic, self._episode.codec
        for _, value in self._episode.bag.decoded(codec, [topic.name]):
            yield bytes(value.data) if topic.type == JPEG else jpeg.to_jpeg(
                pixels_of(topic, value), JPEG_QUALITY)

    def _scene(self) -> None:
        """Draw the arm as a line along its joints, and where its cameras are."""
        seen, chain = self._episode.observed(), self._episode.chain
        if chain is not None:
            lines = [np.vstack([frames(q, chain)[:, :3, 3], np.zeros(3)])[along(chain)]
                     for q in seen['joint_position']]
            self._send('arm', self._steps_s, rr.LineStrips3D.columns(
                strips=lines, radii=np.full(len(lines), ARM_M)))
        flange = np.array([matrix_of(pose) for pose in seen['cartesian_position']])
        for name in self._episode.views():
            mount, lens = self._tracks.mounts.get(name), self._episode.intrinsics(name)
            if mount is None or lens is None:
                continue
            on_flange = mount.parent.endswith(FLANGE_LINK)
            poses = (flange if on_flange else np.eye(4)[None]) @ matrix_of(mount.pose)
            entity = f'cameras/{name}'
            self._file.log(f'{self._home}/{entity}', rr.Pinhole(
                image_from_camera=lens, image_plane_distance=FRUSTUM_M), static=True)
            self._send(entity, self._steps_s[:len(poses)], rr.Transform3D.columns(
                translation=poses[:, :3, 3],
                quaternion=Rotation.from_matrix(poses[:, :3, :3]).as_quat()))

    def _arm(self) -> None:
        steps, arm = self._tracks.steps, self._tracks.arm
        seconds = self._seconds(arm.stamps)
        for column, joint in enumerate(self._joints):
            self._line(f'joints/{joint}/measured', seconds, arm.q[:, column])
            self._line(f'joints/{joint}/accepted', self._steps_s, steps.q_sent[:, column])
        same = steps.space == ActionSpace.JOINT_POSITION
        for column, name in enumerate(self._numbers):
            if name == 'gripper':
                continue
            self._line(f'joints/{name}/asked' if same else f'asked/{name}', self._steps_s,
                       steps.requested[:, column])
        moves = np.abs(arm.dq).max(axis=1, initial=0.0) >= STILL_RAD_S
        changes = np.flatnonzero(np.diff(moves, prepend=~moves[:1]))
        self._send('motion', seconds[changes], rr.StateChange.columns(
            state=['moves' if moves[row] else 'stands still' for row in changes]))

    def _gripper(self) -> None:
        steps, gripper = self._tracks.steps, self._tracks.gripper
        self._line('gripper/measured', self._seconds(gripper.stamps), gripper.position)
        self._line('gripper/accepted', self._steps_s, steps.gripper_sent)
        if steps.space:
            self._line('gripper/asked', self._steps_s, steps.requested[:, -1])

    def _chunks(self) -> None:
        """Write each chunk's actions from the step on that it was asked for; none in a layout."""
        row_of = {int(index): row for row, index in enumerate(self._tracks.steps.index)}
        asked = [chunk for chunk in self._tracks.chunks if chunk.step in row_of
                 and chunk.actions.size and '/' not in chunk.space]    # or in other numbers
        if not asked:
            return
        seconds = np.concatenate([self._steps_s[row_of[chunk.step]] + np.arange(
            len(chunk.actions)) / self._episode.rate_hz for chunk in asked])
        values = np.concatenate([chunk.actions for chunk in asked])
        order = np.argsort(seconds, kind='stable')
        for column, name in enumerate(self._numbers):
            self._file.log(f'{self._home}/chunks/{name}', rr.SeriesPoints(
                names=name, marker_sizes=1.5), static=True)
            self._send(f'chunks/{name}', seconds[order],
                       rr.Scalars.columns(scalars=values[order, column]))

    def _latency(self) -> None:
        steps = self._tracks.steps
        for name, values in {'loop': steps.loop_s, 'inference': steps.inference_s,
                             'late': steps.late_s, 'observation_age': steps.observation_age_s,
                             'skew': steps.skew_s}.items():
            self._line(f'latency/{name}', self._steps_s, 1e3 * values)

    def _progress(self) -> None:
        for audit in map(read_audit, audits_of(self._episode.source.folder)):
            judge = rr.escape_entity_path_part(audit.judge)
            self._line(f'progress/{judge}', np.asarray(audit.times_s), np.asarray(audit.phi))
        potential = read_potential(self._episode.bag, self._episode.codec)
        if potential is not None:
            self._line('progress/simulator', self._seconds(potential.stamps), potential.values)

    def _log(self) -> None:
        steps, info = self._tracks.steps, self._tracks.info
        rows = [row for row, words in enumerate(steps.clamps) if words]
        lines = [(self._steps_s[row], 'WARN', f'step {steps.index[row]}: {steps.clamps[row]}')
                 for row in rows]
        if info.get('end_reason'):
            lines.append((self._steps_s[-1], 'INFO', f"ended: {info['end_reason']}. "
                          f"{info.get('detail', '')}".strip()))
        if lines:
            seconds, levels, texts = zip(*lines, strict=True)
            self._send('log', seconds, rr.TextLog.columns(text=texts, level=levels))


def along(chain: Chain) -> list[int]:
    """Return a way along the frames of an arm, flange last: to the end of other arms and back."""
    ends = sorted(set(range(len(chain.places))) - set(chain.parents))
    ways = [[-1, *np.flatnonzero(chain.moves[end]).tolist()] for end in ends]
    there_and_back = [frame for way in ways[:-1] for frame in way + way[::-1]]
    return [*there_and_back, *ways[-1], len(chain.places)]


def _verdict(file: rr.RecordingStream, session: SessionFile, slots: Sequence[str],
             end_s: float) -> None:
    """Write what was said of the session and of the slots that are shown, at the end."""
    lines = [f'{field.label}: {field.words(value)}' for field in FIELDS
             if field.is_said(value := getattr(session.verdict, field.name))
             and (field.slot is None or field.slot.value in slots)]
    file.send_columns('/verdict', [rr.TimeColumn(TIMELINE, duration=[end_s] * len(lines))],
                      rr.TextLog.columns(text=lines, level=['INFO'] * len(lines)))


def _layout(sources: Sequence[ExportSource], names: bool) -> rrb.Blueprint:
    """Return a column for each rollout, with the verdict below."""
    columns = []
    for source in sources:
        with BagReader(source.folder) as bag:
            columns.append(_column(source.slot, joint_numbers(recorded_joints(bag)),
                                   source.session.policy(source.slot) if names else source.slot))
    return rrb.Blueprint(
        rrb.Vertical(rrb.Horizontal(*columns), rrb.TextLogView(origin='/verdict', name='Verdict'),
                     row_shares=[5, 1]),
        rrb.TimePanel(timeline=TIMELINE, state='collapsed'),
        rrb.SelectionPanel(state='hidden'), rrb.BlueprintPanel(state='hidden'))


def _column(slot: str, numbers: Sequence[str], name: str) -> rrb.Vertical:
    """Return the views of a rollout: pictures, then curves in tabs, then motion and log."""
    def curves(title: str, part: str, legend: bool = True) -> rrb.TimeSeriesView:
        return rrb.TimeSeriesView(origin=f'/{slot}/{part}', name=title,
                                  plot_legend=rrb.PlotLegend(visible=legend))

    joints = rrb.Grid(*(curves(joint, f'joints/{joint}', legend=joint == numbers[-1])
                        for joint in numbers), name='Joints')
    return rrb.Vertical(
        rrb.Horizontal(*(rrb.Spatial2DView(origin=f'/{slot}/cameras/{view(role)}',
                                           name=f'{name}: {role}') for role in ROLES)),
        rrb.Tabs(joints, curves('Gripper', 'gripper'), curves('Asked', 'asked'),
                 curves('Chunks', 'chunks'), curves('Latency (ms)', 'latency'),
                 curves('Progress', 'progress'),
                 rrb.Spatial3DView(origin=f'/{slot}', name='Arm and cameras')),
        rrb.Horizontal(rrb.StateTimelineView(origin=f'/{slot}/motion', name='Stand-still'),
                       rrb.TextLogView(origin=f'/{slot}/log', name='Clamps and end')),
        row_shares=[3, 5, 2], name=name)


class LiveRerun:
    """
    Sends what a blind evaluator may see to a viewer: pictures, measured joints, what goes on.

    ``pictures`` returns the newest JPEG by view, ``joints`` the measured joints (n,) or None,
    ``words`` the state of the session, with names only after the reveal. Requests, targets,
    chunks and latencies are not sent: they tell policies apart. ``where`` is the address of a
    viewer, or a ``.rrd`` file; '' starts a viewer here.
    """

    def __init__(self, pictures: Callable[[], Mapping[str, bytes | None]],
                 joints: Callable[[], Floats | None], words: Callable[[], str],
                 where: str = '') -> None:
        self._pictures, self._joints, self._words, self._where = pictures, joints, words, where
        self._seen: dict[str, object] = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name='live rerun', daemon=True)

    def open(self) -> None:
        """Reach the viewer and begin to send."""
        self._stream = rr.RecordingStream('arena_robot_live', send_properties=False)
        if not self._where:
            self._stream.spawn(default_blueprint=_live_layout(self._pictures()))
        elif self._where.startswith(VIEWER):
            self._stream.connect_grpc(self._where)
        else:
            self._stream.save(self._where)
        self._thread.start()

    def close(self) -> None:
        """Stop sending."""
        self._over.set()
        self._thread.join(10 * LIVE_S)
        self._stream.flush()
        self._stream.disconnect()

    def _run(self) -> None:
        while not self._over.wait(LIVE_S):
            self.send()

    def send(self) -> None:
        """Send what is new."""
        for name, picture in self._pictures().items():
            if picture is not None and self._is_new(name, picture):
                self._stream.log(f'/cameras/{name}', rr.EncodedImage(
                    contents=picture, media_type='image/jpeg'))
        joints = self._joints()
        if joints is not None:
            for name, angle in zip(joint_numbers(len(joints)), joints, strict=True):
                self._stream.log(f'/joints/{name}', rr.Scalars(angle))
        words = self._words()
        if self._is_new('session', words):
            self._stream.log('/session', rr.TextLog(words, level='INFO'))

    def _is_new(self, what: str, value: object) -> bool:
        before, self._seen[what] = self._seen.get(what), value
        return value is not before and value != before


def _live_layout(views: Mapping[str, bytes | None]) -> rrb.Blueprint:
    return rrb.Blueprint(rrb.Vertical(
        rrb.Horizontal(*(rrb.Spatial2DView(origin=f'/cameras/{name}', name=name)
                         for name in views)),
        rrb.TimeSeriesView(origin='/joints', name='Joints (rad)'),
        rrb.TextLogView(origin='/session', name='Session'), row_shares=[4, 3, 1]))
