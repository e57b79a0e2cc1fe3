"""
A study or an export as a dataset on the Hugging Face Hub: files, card, upload.

The card has the result in sentences, a plot, the licence and where the numbers come from. Each
policy gets a file for ``.eval_results/`` of its model's repository, as the Hub reads it. Nothing
is made before the reveal.
"""

import json
import re
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import yaml

import arena_robot
from arena_robot.blind.clips import CLIPS
from arena_robot.blind.report import arm_rows, blind_words
from arena_robot.blind.results import result_to_json, study_result, study_sessions
from arena_robot.blind.trials import read_study
from arena_robot.core.episode import Preference, Slot
from arena_robot.core.errors import ConfigError, DataError, ServerUnavailable
from arena_robot.core.figures import LINE, figure_bytes, new_figure, plain_text
from arena_robot.core.wilson import wilson
from arena_robot.recording.formats.lerobot_episodes import INFO_FILE, read_lerobot
from arena_robot.records.roboarena_files import read_evaluations, write_tables
from arena_robot.records.session_file import JOURNAL

SCHEME = 'hub:'
REPO = re.compile(r'[\w-][\w.-]*/[\w-][\w.-]*')
CARD, PLOT = 'README.md', 'result.png'
PICTURES = ('.mp4', '.jpg', '.jpeg', '.png', '.webp', '.webm', '.mcap', '.rrd', '.svo', '.svo2')


@dataclass(frozen=True)
class PolicyShare:
    """How often a policy ``did`` it (succeeded, was preferred): ``count`` times of ``total``."""

    policy: str
    count: int
    total: int
    did: str

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's interval of the share."""
        return wilson(self.count, self.total)

    def words(self) -> str:
        """Return the share as a sentence."""
        low, high = self.interval
        return (f'{self.policy} {self.did} in {self.count} of {self.total} '
                f'(95 %: {100 * low:.0f} to {100 * high:.0f} %).')


@dataclass(frozen=True)
class Publication:
    """
    What would leave the lab: ``files`` by their path in the dataset ``repo``, and what they show.

    ``people`` are names of evaluators, ``texts`` counts what people typed, ``addresses`` are those
    of policies. ``pictures`` are the paths of files with pictures.
    """

    repo: str
    files: Mapping[str, Path | bytes]
    people: tuple[str, ...] = ()
    texts: int = 0
    addresses: tuple[str, ...] = ()

    @property
    def pictures(self) -> tuple[str, ...]:
        """The files that show what a camera saw, and whoever stood before it."""
        return tuple(path for path in self.files
                     if PurePosixPath(path).suffix.lower() in PICTURES and path != PLOT)

    def sizes(self) -> dict[str, int]:
        """Return the bytes of each file."""
        return {path: len(file) if isinstance(file, bytes) else file.stat().st_size
                for path, file in self.files.items()}

    def lines(self) -> list[str]:
        """Return in words what would leave the lab."""
        sizes = self.sizes()
        return [f'To {self.repo} would go {len(sizes)} files, {sum(sizes.values()) / 1e6:.1f} MB:',
                *(f'  {size / 1e6:9.3f} MB  {path}' for path, size in sizes.items()),
                f"Names of people: {', '.join(self.people) or 'none'}.",
                f'Texts that people typed: {self.texts}.',
                f"Addresses of policies: {', '.join(self.addresses) or 'none'}.",
                f'Files with pictures, and with whoever is in them: {len(self.pictures)}.']


def publication(folder: Path, place: str, licence: str, clips: bool = False) -> Publication:
    """
    Return what publishing a study's folder or an export would send to ``hub:owner/name``.

    ``clips`` adds the videos of a study's trials. DataError before the reveal, and for a folder
    that is neither.
    """
    repo = place.removeprefix(SCHEME)
    if not place.startswith(SCHEME) or not REPO.fullmatch(repo):
        raise ConfigError(f"publish to {SCHEME}owner/name, found '{place:.80}'")
    if (folder / JOURNAL).is_file():
        return _of_study(folder, repo, licence, clips)
    return _of_export(folder, repo, licence)


def _of_study(folder: Path, repo: str, licence: str, clips: bool) -> Publication:
    result = study_result(read_study(folder))
    shares = [PolicyShare(row['name'], row['successes'], row['trials'], 'succeeded')
              for row in arm_rows(result) if row['trials'] and not row['human']]
    files: dict[str, Path | bytes] = {JOURNAL: folder / JOURNAL}
    files['result.json'] = json.dumps(result_to_json(result), indent=2).encode()
    with tempfile.TemporaryDirectory() as place:
        files |= {path.name: path.read_bytes()
                  for path in write_tables(Path(place), study_sessions(result))}
    if clips:
        files |= _below(folder, CLIPS)
    facts = [f'Study {result.study.name}, declared with the SHA-256 '
             f'`{result.record.versions[-1].sha256}`.', *blind_words(result.record)[:2],
             f'`{JOURNAL}` has every entry; `arena study report` makes the page of it.']
    files |= _described(repo, licence, result.study.name, result.sentences(), shares, facts)
    return Publication(
        repo, files, _named(trial.evaluator for trial in result.results),
        sum(bool(trial.reason) for trial in result.results),
        _named(arm.address for version in result.record.versions for arm in version.study.arms))


def _of_export(folder: Path, repo: str, licence: str) -> Publication:
    files, people = _below(folder), tuple[str, ...]()
    if (folder / INFO_FILE).is_file():
        rows = read_lerobot(folder).episodes
        names = [str(row.get('policy') or '') for row in rows]
        done, total = Counter[str](), Counter[str]()
        for row, name in zip(rows, names, strict=True):
            if name and row.get('success') is not None:
                total[name] += 1
                done[name] += bool(row['success'])
        did = 'succeeded'
        texts = sum(bool(row.get(key)) for row in rows for key in ('notes', 'explanation'))
        facts = [f'{len(rows)} episodes, a LeRobotDataset v3. `meta/episodes` names session, '
                 'slot, policy, verdict and the SHA-256 of the recording of each.']
    else:
        sessions = read_evaluations(folder).sessions
        names = [name for row in sessions for name in (row.policy_a, row.policy_b)]
        total = Counter(name for row in sessions if row.counts
                        for name in (row.policy_a, row.policy_b))
        done = Counter(row.policy_a if row.preference is Preference.A else row.policy_b
                       for row in sessions if row.counts and row.preference is not Preference.TIE)
        did, people = 'was preferred', _named(row.evaluator for row in sessions)
        texts = sum(bool(row.explanation) for row in sessions)
        facts = [f'{len(sessions)} sessions, in the tables that `arena rank` reads.']
    if blind := sorted({slot.value for slot in Slot} & set(names)):
        raise DataError(f'{folder} is still blind: policies are called {" and ".join(blind)}; '
                        'export it again after the reveal')
    shares = [PolicyShare(name, done[name], total[name], did) for name in sorted(total)]
    files |= _described(repo, licence, repo.rpartition('/')[2], [], shares, facts)
    return Publication(repo, files, people, texts)


def _below(folder: Path, part: str = '') -> dict[str, Path | bytes]:
    return {path.relative_to(folder).as_posix(): path
            for path in sorted((folder / part).rglob('*')) if path.is_file()}


def _named(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted({name for name in names if name}))


def _described(repo: str, licence: str, title: str, sentences: list[str],
               shares: list[PolicyShare], facts: list[str]) -> dict[str, Path | bytes]:
    """Return card, plot, and a file of results for the repository of each policy's model."""
    said = [*sentences, *(share.words() for share in shares)]
    front = yaml.safe_dump({'license': licence, 'pretty_name': title, 'tags': [
        'robotics', 'arena_robot'], 'task_categories': ['robotics']}, sort_keys=False)
    card = '\n\n'.join([
        f'---\n{front}---', f'# {title}', *said, *([f'![Results]({PLOT})'] if shares else []),
        '## Where it comes from', *facts,
        f'Made with arena_robot {arena_robot.__version__}; policies were compared blind.'])
    files: dict[str, Path | bytes] = {CARD: f'{card}\n'.encode()}
    if shares:
        files[PLOT] = share_plot(shares)
    return files | {f'models/{_slug(share.policy)}/.eval_results/{_slug(repo)}.yaml':
                    _eval_results(repo, title, share) for share in shares}


def _slug(text: str) -> str:
    return re.sub(r'[^a-z0-9]+', '-', text.lower()).strip('-') or 'policy'


def _eval_results(repo: str, title: str, share: PolicyShare) -> bytes:
    """Return a policy's result as a file of ``.eval_results/``."""
    from huggingface_hub import EvalResultEntry, constants, eval_result_entries_to_yaml
    entry = EvalResultEntry(
        repo, _slug(title), round(share.count / share.total, 4), source_name='arena_robot',
        source_url=f'{constants.ENDPOINT}/datasets/{repo}', notes=share.words())
    return yaml.safe_dump(eval_result_entries_to_yaml([entry]), sort_keys=False,
                          allow_unicode=True).encode()


def share_plot(shares: list[PolicyShare]) -> bytes:
    """Return a PNG of shares with their intervals, a line for each policy."""
    figure, axes = new_figure(6.0, 0.8 + 0.35 * len(shares))
    for row, share in enumerate(reversed(shares)):
        low, high = share.interval
        axes.plot([100 * low, 100 * high], [row, row], color=LINE, linewidth=2)
        axes.plot(100 * share.count / share.total, row, 'o', color=LINE)
    axes.set_yticks(range(len(shares)), [plain_text(share.policy) for share in reversed(shares)])
    axes.set_xlim(0, 100)
    axes.set_xlabel(f'{shares[0].did} in % of its trials, with 95 % intervals', fontsize=8)
    return figure_bytes(figure, 'png')


def upload(made: Publication, private: bool = False) -> str:
    """
    Send the files to the Hub in one commit; return the commit's address.

    A repository that exists keeps its other files. ``HF_TOKEN`` or `hf auth login` has the token,
    ``HF_ENDPOINT`` another Hub's address. ServerUnavailable when the Hub refuses or is not there.
    """
    from huggingface_hub import CommitOperationAdd, HfApi
    from huggingface_hub.errors import HfHubHTTPError
    unreachable: type[Exception] = HfHubHTTPError.__bases__[0]    # of its HTTP client
    try:
        api = HfApi(library_name='arena_robot', library_version=arena_robot.__version__)
        api.create_repo(made.repo, repo_type='dataset', private=private, exist_ok=True)
        return str(api.create_commit(
            made.repo, [CommitOperationAdd(path, file) for path, file in made.files.items()],
            commit_message='Publish with arena publish', repo_type='dataset').commit_url)
    except (OSError, RuntimeError, unreachable) as error:
        raise ServerUnavailable(f'the Hub did not take {made.repo}: {error}') from error
