"""
Whether a recording shows the rollout that the relay saw: its steps, times, actions, pictures.

It opens files that a station sent, so a server calls :func:`check_files` in a process of its own,
with bounds on memory and time.
"""

import base64
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from arena_robot.core.action import ActionSpace, Chunk
from arena_robot.core.bounded import MEMORY_BYTES, bound
from arena_robot.core.episode import CONTROL_RATE_HZ, EndReason
from arena_robot.core.errors import ArenaError
from arena_robot.core.files import write_text
from arena_robot.core.inferences import NOTHING_KEPT, Inference, Proof
from arena_robot.core.jpeg import thumbnail
from arena_robot.core.observation import Floats
from arena_robot.policy.base import PolicySpec
from arena_robot.policy.chunks import ChunkProgress
from arena_robot.recording.bag.base import Topic
from arena_robot.recording.bag.codec import codec_of
from arena_robot.recording.bag.reader import BagReader
from arena_robot.recording.bag.topic_stats import header_stamp_ns
from arena_robot.recording.episode.frames import pixels_of
from arena_robot.recording.episode.tracks import ChunkRecord, EpisodeTracks, Steps, load_tracks

CPU_S = 120    # an honest recording takes seconds
CLAIMS_FILE, FOUND_FILE = 'claims.json', 'found.json'
# A shorter rollout that was not ended as done says nothing about its policy.
LEAST_STEPS, LEAST_S = 10, 2.0
# Requests follow exactly from the relay's answers; a message of an answer may be lost.
LEAST_ACTIONS_SHARE = 0.95
ACTION_TOLERANCE = 1e-3    # rad; the bag has float32, and blends are rounded
# Two JPEGs of one picture, of two sizes, differ by less in any 64th of it (of 255).
MOST_BRIGHTNESS = 10
# Clocks of a station may be this far off (RemoteArena refuses more), and drift or be set by less.
MOST_SKEW_S, MOST_DRIFT_S = 600.0, 5.0
# A station that waits for its policy is slower than the control rate, but not by more.
SLOWEST_STEP_S = 60.0
# An arm that moved further (rad, any joint) is seen by the cameras that watch it.
SEEN_MOTION_RAD = 0.1
# A share of the pictures is compared: to hash all of a long rollout would read it once more.
PICTURES = 12


@dataclass(frozen=True)
class RolloutClaim:
    """
    What is known of a rollout without its recording.

    ``made`` is what the relay saw, rows of :class:`Inference`. With ``max_pace`` 0 time is
    simulated, and no time is compared.
    """

    session_id: str
    slot: str
    steps: int
    end: str
    policy_failed: bool
    max_pace: float
    made: tuple[list[Any], ...]

    def inferences(self) -> list[Inference]:
        """Return the relay's answers."""
        return [Inference.of(row) for row in self.made]


def check_files(folder: str) -> None:
    """Check the recordings in the subfolders that CLAIMS_FILE of ``folder`` names; FOUND_FILE."""
    bound(MEMORY_BYTES, CPU_S)
    home = Path(folder)
    claims = read_claims(home)
    write_text(home / FOUND_FILE, json.dumps(
        {slot: why_unproven(home / slot, claim) for slot, claim in claims.items()}))


def write_claims(home: Path, claims: Sequence[RolloutClaim]) -> None:
    """Write what :func:`check_files` has to know."""
    write_text(home / CLAIMS_FILE, json.dumps({claim.slot: asdict(claim) for claim in claims}))


def read_claims(home: Path) -> dict[str, RolloutClaim]:
    """Return what :func:`write_claims` wrote."""
    claims = json.loads((home / CLAIMS_FILE).read_text(encoding='utf-8'))
    return {slot: RolloutClaim(**{**claim, 'made': tuple(claim['made'])})
            for slot, claim in claims.items()}


def why_unproven(folder: Path, claim: RolloutClaim) -> str:
    """Return why the recording in ``folder`` is not that of the rollout; '' when it is."""
    try:
        with BagReader(folder) as bag:
            # Reading every message checks the CRC of every chunk.
            inside = sum(1 for _ in bag.messages())
            if inside != bag.metadata.message_count:
                return (f'the recording has {inside} messages, its metadata.yaml says '
                        f'{bag.metadata.message_count}')
            tracks = load_tracks(bag, codec_of(bag.topics.values()))
            return (_other_rollout(tracks, claim) or _too_short(tracks, claim)
                    or _paces(tracks, claim) or _actions(tracks, claim)
                    or _arm(tracks) or _pictures(bag, tracks)
                    or _other_pictures(bag, tracks, claim))
    except ArenaError as error:
        return f'the recording cannot be read: {str(error)[:200]}'
    except MemoryError:
        return f'the recording needs more than {MEMORY_BYTES >> 30} GiB to be read'


def _other_rollout(tracks: EpisodeTracks, claim: RolloutClaim) -> str:
    recorded = tracks.info.get('session_id'), tracks.info.get('slot')
    if recorded != (claim.session_id, claim.slot):
        return f'the recording is of slot {recorded[1]} of session {recorded[0]}'
    count = len(tracks.steps.index)
    if count != claim.steps and claim.end != EndReason.INTERRUPTED.value:
        return f'the recording has {count} steps, the station said {claim.steps}'
    if not count or (tracks.steps.index != np.arange(count)).any():
        return f'the {count} steps of the recording are not numbered from 0 without gaps'
    return ''


def _too_short(tracks: EpisodeTracks, claim: RolloutClaim) -> str:
    if claim.end == EndReason.DONE.value or claim.policy_failed:
        return ''
    stamps = tracks.steps.stamps
    lasted_s = float(stamps[-1] - stamps[0]) * 1e-9 + 1.0 / CONTROL_RATE_HZ
    if len(stamps) < LEAST_STEPS or (claim.max_pace > 0.0 and lasted_s < LEAST_S):
        return (f'the rollout ended as {claim.end} after {len(stamps)} steps and '
                f'{lasted_s:.1f} s; below {LEAST_STEPS} steps or {LEAST_S:g} s it says nothing')
    return ''


def _paces(tracks: EpisodeTracks, claim: RolloutClaim) -> str:
    """Compare the stamps of the steps with the control rate, and with the relay's clock."""
    stamps = tracks.steps.stamps
    gaps_s = np.diff(stamps) * 1e-9
    if len(gaps_s) and (gaps_s.min() <= 0.0 or gaps_s.max() > SLOWEST_STEP_S):
        return f'steps of the recording are {gaps_s.min():.3f} to {gaps_s.max():.1f} s apart'
    if claim.max_pace <= 0.0:
        return ''
    fastest_s = len(gaps_s) / CONTROL_RATE_HZ / claim.max_pace
    if gaps_s.sum() < fastest_s:
        return (f'{len(stamps)} steps are recorded within {gaps_s.sum():.1f} s; at '
                f'{CONTROL_RATE_HZ:g} steps a second they take longer')
    made = [query for query in claim.inferences() if query.step < len(stamps)]
    offsets_s = np.array([query.stamp_ns - stamps[query.step] for query in made]) * 1e-9
    if not len(made):
        return 'no query that passed the relay is of a step of the recording'
    drift_s = offsets_s.max() - offsets_s.min() - max(query.took_s for query in made)
    if abs(offsets_s).max() > MOST_SKEW_S or drift_s > MOST_DRIFT_S:
        return (f'the steps were recorded {offsets_s.min():.1f} to {offsets_s.max():.1f} s before '
                'their queries passed the relay')
    return ''


def _actions(tracks: EpisodeTracks, claim: RolloutClaim) -> str:
    """Compare the recorded requests with what a station executes of the relay's answers."""
    answers = [_answer(chunk, claim) for chunk in tracks.chunks]
    if strangers := sum(answer is None for answer in answers):
        return (f'{strangers} of {len(answers)} recorded chunks answer another observation than '
                'the one that passed the relay at their step')
    width = tracks.steps.requested.shape[1]
    proofs = {chunk.index: (chunk.step, answer.proof)
              for chunk, answer in zip(tracks.chunks, answers, strict=True)
              if answer is not None and answer.proof.columns == width}
    expected = _executed(tracks.steps, proofs)
    same = sum(action is not None and bool((abs(action - asked) < ACTION_TOLERANCE).all())
               for action, asked in zip(expected, _asked(tracks), strict=True))
    if same < LEAST_ACTIONS_SHARE * len(expected):
        return (f'{same} of {len(expected)} recorded requests are what a station executes of the '
                "relay's answers")
    return ''


def _asked(tracks: EpisodeTracks) -> Floats:
    """Return the requests (N, size) as the policy gave them: in a layout only chunks have them."""
    chunks = {chunk.index: chunk.actions for chunk in tracks.chunks if '/' in chunk.space}
    steps, asked = tracks.steps, np.array(tracks.steps.requested)
    for row, (index, step) in enumerate(zip(steps.chunk_index, steps.chunk_step, strict=True)):
        if index in chunks and step < len(chunks[index]):
            asked[row, :chunks[index].shape[1]] = chunks[index][step]
    return asked


def _answer(chunk: ChunkRecord, claim: RolloutClaim) -> Inference | None:
    """Return what the relay answered to the observation of a recorded chunk; None: nothing."""
    return next((inference for inference in claim.inferences() if inference.step == chunk.step
                 and inference.proof.observation_sha256 == chunk.observation_sha256), None)


def _executed(steps: Steps, proofs: Mapping[int, tuple[int, Proof]]) -> list[Floats | None]:
    """Return what a station requests at each step, from the answers by number; None: unknown."""
    progress, number, out = ChunkProgress(), -1, list[Floats | None]()
    space = next((member for member in ActionSpace if member.value == steps.space), None)
    for step, index in enumerate(steps.chunk_index):
        asked_at, proof = proofs.get(index, (step + 1, NOTHING_KEPT))
        if space and index != number and asked_at <= step:
            progress.since_ask, number = step - asked_at, index
            progress.use(Chunk(proof.actions().astype(np.float32), space,
                               blend_steps=proof.blend_steps), PolicySpec(space))
        known = index == number and progress.left > 0
        out.append(progress.take() if known else None)
    return out


def _arm(tracks: EpisodeTracks) -> str:
    missing = int((~np.isin(tracks.steps.arm_stamps, tracks.arm.stamps)).sum())
    if missing > 0.1 * len(tracks.steps.index):
        return f'the arm states of {missing} steps are not in the recording'
    return ''


def _pictures(bag: BagReader, tracks: EpisodeTracks) -> str:
    """Find the pictures that the steps used; they change where the arm moves."""
    names = [name for column, name in enumerate(tracks.steps.views)
             if tracks.steps.image_stamps[:, column].any()]
    if not names:
        return 'no step of the recording names a picture that it used'
    q = tracks.arm.q
    moved = float(np.ptp(q, axis=0).max()) > SEEN_MOTION_RAD if len(q) else False
    changing = 0
    for name in names:
        used = tracks.steps.image_stamps[:, tracks.steps.views.index(name)]
        track = tracks.views.get(name)
        here = track.stamps if track else np.zeros(0, np.int64)
        lost = int((~np.isin(used[used > 0], here)).sum())
        if track is None or lost > 0.1 * len(used):
            return f'{lost} of {len(used)} pictures of {name} that the steps used are missing'
        changing += _differ(bag, track.topic.name, np.unique(used[used > 0]))
    if moved and not changing:
        return 'the arm moves in the recording, and no picture changes'
    return ''


def _other_pictures(bag: BagReader, tracks: EpisodeTracks, claim: RolloutClaim) -> str:
    """Compare the pictures that the relay looked at with those that their steps recorded."""
    shown = [(query.step, name, thumb) for query in claim.inferences()
             for name, thumb in query.proof.pictures.items()
             if query.step < len(tracks.steps.index)]
    stamps = {name: tracks.steps.image_stamps[:, column]
              for column, name in enumerate(tracks.steps.views)}
    here = {(name, stamp): recorded for name, used in stamps.items() if name in tracks.views
            for stamp, recorded in _thumbnails(bag, tracks.views[name].topic, {
                int(used[step]) for step, _, _ in shown})}
    for step, name, thumb in shown:
        # A policy with one outside camera is sent the chosen one under the left one's name.
        names = (name, name.replace('left_', 'right_', 1))
        seen = [here[key] for view in names if view in stamps
                and (key := (view, int(stamps[view][step]))) in here]
        sent = np.frombuffer(base64.b64decode(thumb), np.uint8).reshape(8, 8).astype(int)
        if seen and min(abs(sent - recorded).max() for recorded in seen) > MOST_BRIGHTNESS:
            return f'the picture {name} of step {step} is not the one that passed the relay'
    return ''


def _thumbnails(bag: BagReader, topic: Topic,
                stamps: Collection[int]) -> Iterator[tuple[int, NDArray[np.int64]]]:
    """Yield the stamp and the thumbnail of those pictures of a topic."""
    decoder = codec_of(bag.topics.values())
    for message in bag.messages([topic.name]):
        if (stamp := header_stamp_ns(message.data)) in stamps:
            value = decoder.decode(topic, message.data)
            yield stamp, thumbnail(pixels_of(topic, value)).astype(np.int64)


def _differ(bag: BagReader, topic: str, stamps: np.ndarray) -> bool:
    """Tell whether pictures that were spread over the rollout differ from each other."""
    start_ns, end_ns = int(stamps[0]), int(stamps[-1]) + 1
    step_ns = max(1, (end_ns - start_ns) // PICTURES)
    seen: set[bytes] = set()
    next_ns = 0
    for message in bag.messages([topic]):
        if message.log_ns < next_ns:
            continue
        next_ns = message.log_ns + step_ns
        # Without the header, whose stamp changes with each message.
        seen.add(sha256(message.data[len(message.data) // 2:]).digest())
        if len(seen) > 1:
            return True
    return False
