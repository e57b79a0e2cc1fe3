"""
Judges behind RoboMeter's HTTP protocol, the reward-model server of that project.

``POST /evaluate_batch_npy`` takes a multipart form: the field ``sample_0`` is JSON that names the
file part ``sample_0_trajectory_frames``, a ``.npy`` of (T, H, W, 3) bytes. The answer's
``outputs_progress.progress_pred`` has a list of T numbers from 0 to 1 per sample. Whatever else
comes back makes the trace invalid.
"""

import io
import json
from typing import Any

import httpx
import numpy as np
from numpy.typing import NDArray

from arena_robot.audit.base import Capabilities, Pair, Trace, difference, invalid, trace_of
from arena_robot.core.clip import Clip
from arena_robot.core.errors import ModelBadReply, ModelError
from arena_robot.core.observation import Floats, Pixels
from arena_robot.models.http import HttpCaller, HttpSettings

PATH, INFO = '/evaluate_batch_npy', '/model_info'
FRAMES = 'sample_0_trajectory_frames'


class RobometerJudge:
    """A RoboMeter server at ``url``; it sees one ``view``, the first recorded one by default."""

    name = 'robometer'

    def __init__(self, url: str, view: str = '', timeout_s: float = 120.0, attempts: int = 3,
                 interval_s: float = 0.5, max_frames: int = 32,
                 transport: httpx.BaseTransport | None = None) -> None:
        self.capabilities = Capabilities(max_views=1, max_frames=max_frames,
                                         interval_s=interval_s)
        self._view = view
        self._http = HttpCaller(url, settings=HttpSettings(timeout_s, attempts),
                                transport=transport)

    @property
    def model(self) -> str:
        """Name of the server's model at present, and its address."""
        return f"{self._info().get('model_path') or 'unnamed model'} at {self._http.base_url}"

    @property
    def identity(self) -> str:
        """What the server says of its model at present; empty when it does not name one."""
        info = self._info()
        return json.dumps(info, sort_keys=True) if info.get('model_path') else ''

    def _info(self) -> dict[str, Any]:
        try:
            found = json.loads(self._http.call('GET', INFO))
        except (ModelError, ValueError, RecursionError):
            return {}
        return found if isinstance(found, dict) else {}

    def progress(self, clip: Clip) -> Trace:
        """Return the server's values of a view's frames."""
        view = self._view or next(iter(clip.frames))
        if view not in clip.frames:
            return invalid(clip, self.name, f"the clip has no view '{view}'; it has "
                           f'{", ".join(clip.frames)}')
        raw = b''
        try:
            raw = self._http.call('POST', PATH, files=_form(
                np.stack(clip.frames[view]), clip.instruction, clip.name))
            values = progress_in(raw, len(clip))
        except ModelError as error:
            return invalid(clip, self.name, str(error), (raw.decode('utf-8', 'replace'),))
        return trace_of(clip, values, self.model, mode=view,
                        raw=(raw.decode('utf-8', 'replace'),))

    def compare(self, pair: Pair) -> float | None:
        """Return the difference of the values of after and before."""
        return difference(self, pair)


def progress_in(body: bytes, count: int) -> Floats:
    """Return the (count,) values in an answer; ModelBadReply when it has not exactly those."""
    try:
        value = json.loads(body)['outputs_progress']['progress_pred']
        if not isinstance(value, list) or len(value) != 1 or not isinstance(value[0], list):
            raise ValueError('progress_pred is not one list')
        row = value[0]
        for entry in row:
            if isinstance(entry, bool) or not isinstance(entry, int | float):
                raise ValueError(f'{entry!r} is not a number')
        numbers = np.array(row, np.float64)
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        raise ModelBadReply(f'the answer has no progress: {error!r}'[:300]) from error
    if numbers.shape != (count,):
        raise ModelBadReply(f'the answer has {len(numbers)} values for {count} frames')
    return numbers


def _form(frames: NDArray[np.uint8], task: str, name: str) -> dict[str, Any]:
    file = io.BytesIO()
    np.save(file, frames, allow_pickle=False)
    sample = {'sample_type': 'progress', 'trajectory': {
        'frames': {'__numpy_file__': FRAMES}, 'frames_shape': list(frames.shape), 'task': task,
        'id': name or 'episode', 'metadata': {'subsequence_length': len(frames)},
        'video_embeddings': None}}
    return {'sample_0': (None, json.dumps(sample)), 'use_frame_steps': (None, 'true'),
            FRAMES: (f'{FRAMES}.npy', file.getvalue(), 'application/octet-stream')}


def frames_in(data: bytes) -> list[Pixels]:
    """Return the frames of a ``.npy`` file; ModelBadReply when it holds none."""
    try:
        frames = np.load(io.BytesIO(data), allow_pickle=False)
    except (ValueError, OSError, EOFError) as error:
        raise ModelBadReply(f'the file is no .npy: {error}') from error
    if frames.dtype != np.uint8 or frames.ndim != 4 or frames.shape[3] != 3 or not len(frames):
        raise ModelBadReply(f'frames are (T, H, W, 3) bytes, found {frames.dtype} '
                            f'{frames.shape}')
    return list(frames)
