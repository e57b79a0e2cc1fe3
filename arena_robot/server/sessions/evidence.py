"""Whether a judged session really took place: the relay's record, the files, their lengths."""

from dataclasses import dataclass
from pathlib import PurePosixPath

from arena_robot.core.episode import CONTROL_RATE_HZ, MAX_RERUNS, EndReason, Slot
from arena_robot.core.errors import ArenaError
from arena_robot.core.inferences import waited_share, waits_s
from arena_robot.records.episode_file import EPISODE_FILE, EpisodeFile, parse_episode
from arena_robot.server.files import FileId
from arena_robot.server.store.blobs import Blobs
from arena_robot.server.store.files import SessionEvidence
from arena_robot.server.store.relayed import RelayedRollout

EPISODE_BYTES = 4 << 20    # an episode.json of ours has some kB
# A station that was killed may have lost its last seconds of steps.
LOST_STEPS = 45
BAG_SUFFIX = '.mcap'


@dataclass(frozen=True)
class Missing:
    """
    Why a session does not count yet, in one sentence; '' when nothing is missing.

    With ``waits`` it is something that the station may still send.
    """

    why: str = ''
    waits: bool = False


def waits(evidence: SessionEvidence) -> dict[str, float]:
    """Return the share of the time of each slot in which the arm waited for its policy."""
    return {slot: waited_share(waits_s(seen.inferences()), episode.steps)
            for slot, seen in evidence.rollouts.items()
            if (episode := evidence.episodes.get(slot)) and episode.steps}


def missing(evidence: SessionEvidence, session_id: str, blobs: Blobs, max_pace: float) -> Missing:
    """
    Return what keeps a session from counting.

    ``max_pace`` is how many times faster than the control rate a rollout may pass the relay;
    0: any.
    """
    for slot in Slot:
        if why := _not_relayed(evidence.rollouts.get(slot.value), max_pace):
            return Missing(f'{slot.value}: {why}')
    for slot in Slot:
        if why := _not_stored(evidence, slot.value):
            return Missing(f'{slot.value}: {why}', waits=True)
    for slot in Slot:
        if why := _begun(evidence, slot.value):
            return Missing(f'{slot.value}: {why}')
        if why := _lengths(evidence, session_id, slot.value, blobs):
            return Missing(f'{slot.value}: {why}')
    bags = [{file.sha256 for file in evidence.manifests[slot.value].files
             if file.path.endswith(BAG_SUFFIX)} for slot in Slot]
    return Missing('A and B have the same recording' if bags[0] & bags[1] else '')


def _not_stored(evidence: SessionEvidence, slot: str) -> str:
    if slot not in evidence.episodes:
        return 'the station has not said how the rollout ended'
    manifest = evidence.manifests.get(slot)
    if manifest is None or not manifest.files:
        return 'the station has not named the files of the episode'
    names = [PurePosixPath(file.path) for file in manifest.files]
    if PurePosixPath(EPISODE_FILE) not in names or not any(
            name.suffix == BAG_SUFFIX for name in names):
        return f'the episode has no recording, or no {EPISODE_FILE}'
    waiting = sum(evidence.files.get((slot, file.path)) != (file.size, file.sha256)
                  for file in manifest.files)
    if waiting:
        return f'{waiting} of {len(manifest.files)} files have not arrived yet'
    return ''


def too_quick(evidence: SessionEvidence, ended_ns: int | None, max_pace: float) -> str:
    """
    Return why a session took less time than its steps do; '' when it did not.

    From its first query to its verdict, by the server's clock, both rollouts have to fit.
    """
    if max_pace <= 0.0 or ended_ns is None:
        return ''
    took_s = (ended_ns - min(rollout.first_ns for rollout in evidence.rollouts.values())) * 1e-9
    steps = sum(rollout.steps for rollout in evidence.episodes.values())
    if took_s < steps / CONTROL_RATE_HZ / max_pace:
        return (f'the verdict came {took_s:.1f} s after the first query; {steps} steps take '
                f'{steps / CONTROL_RATE_HZ:.1f} s')
    return ''


def _not_relayed(seen: RelayedRollout | None, max_pace: float) -> str:
    if seen is None or seen.queries == 0:
        return "the policy was not called through this server's relay"
    if seen.begun > 1 + MAX_RERUNS:
        return (f'the rollout was begun {seen.begun} times; a slot is run again at most '
                f'{MAX_RERUNS} times')
    fastest_s = seen.last_step / CONTROL_RATE_HZ / max_pace if max_pace > 0.0 else 0.0
    if seen.seconds < fastest_s:
        return (f'{seen.last_step} steps passed the relay within {seen.seconds:.1f} s; at '
                f'{CONTROL_RATE_HZ:g} steps a second they take longer')
    return ''


def _begun(evidence: SessionEvidence, slot: str) -> str:
    begun, reruns = evidence.rollouts[slot].begun, evidence.episodes[slot].reruns
    if begun > 1 + reruns:
        return f'the rollout was begun {begun} times; the station said that {reruns} were rerun'
    return ''


def _lengths(evidence: SessionEvidence, session_id: str, slot: str, blobs: Blobs) -> str:
    seen, episode = evidence.rollouts[slot], evidence.episodes[slot]
    try:
        file = _episode_file(blobs, session_id, slot)
    except ArenaError as error:
        return f'{EPISODE_FILE} cannot be read: {str(error)[:200]}'
    if (file.session_id, file.slot) != (session_id, slot):
        return f'{EPISODE_FILE} is of another rollout'
    interrupted = episode.end == EndReason.INTERRUPTED.value
    if file.steps != episode.steps and not interrupted:
        return f'the recording has {file.steps} steps, the station said {episode.steps}'
    least = seen.last_step - (LOST_STEPS if interrupted else 0)
    most = seen.last_step + seen.last_actions
    if not least <= file.steps <= most or file.steps < 1:
        return (f'the recording has {file.steps} steps; what passed the relay makes '
                f'{max(1, least)} to {most}')
    return ''


def _episode_file(blobs: Blobs, session_id: str, slot: str) -> EpisodeFile:
    data = b''
    for block in blobs.read(FileId(session_id, slot, EPISODE_FILE).key):
        data += block
        if len(data) > EPISODE_BYTES:
            break
    return parse_episode(data, f'{slot}/{EPISODE_FILE}')
