"""`arena categorise --data`: a vision model looks at the sessions of a server."""

import argparse
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from arena_robot.cli.model_arguments import chat_client

if TYPE_CHECKING:
    from arena_robot.core.observation import Pixels
    from arena_robot.reports.task_scenes import TaskScene
    from arena_robot.server.blobs import Blobs
    from arena_robot.server.store.categories import StoredCategory

VIEWS = 3


def categorise_sessions(args: argparse.Namespace) -> int:
    """Ask the model for each session that it has not seen, newest first, and store its answer."""
    from arena_robot.cli.report_save import server_config, server_database
    from arena_robot.core.clock import SystemClock
    from arena_robot.core.errors import BudgetSpent, ModelBadReply
    from arena_robot.reports.task_scenes import PROMPT_VERSION, SceneModel, by_rules
    from arena_robot.server.blobs import Blobs
    from arena_robot.server.store.browse import Browse
    from arena_robot.server.store.categories import Categories
    config, chat = server_config(args), chat_client(args)
    count = bad = 0
    with server_database(config) as database:
        kept, browse, blobs = Categories(database, SystemClock()), Browse(database), Blobs(
            config.blobs_url())
        blobs.open()
        model = SceneModel(chat)
        try:
            for session_id, prompt in kept.unseen(chat.model, PROMPT_VERSION, args.limit):
                pictures = list(_pictures(blobs, session_id, browse.videos(session_id)))
                if args.dry_run:
                    print(model.preview(prompt, pictures))
                    continue
                try:
                    scene = model.describe(prompt, pictures)
                    count += 1
                except ModelBadReply as error:    # not asked again; the others are
                    print(f'{session_id}: by rules: {error}')
                    scene = replace(by_rules(prompt), model=chat.model,
                                    prompt_version=PROMPT_VERSION)
                    bad += 1
                kept.store(session_id, _stored(scene))
        except BudgetSpent as error:
            print(f'stopped: {error}')
        finally:
            chat.close()
    print(f'{count} sessions categorised by {chat.model}'
          + f', {bad} without a fitting answer by rules' * (bad > 0)
          + f'; {chat.usage.calls} calls, cost {chat.usage.cost:.4f}')
    return 0


def _stored(scene: 'TaskScene') -> 'StoredCategory':
    from arena_robot.server.store.categories import StoredCategory
    return StoredCategory(scene.category, scene.method, scene.model, scene.prompt_version,
                          scene.confidence, scene.seen())


def _pictures(blobs: 'Blobs', session_id: str, videos: dict[str, list[str]]) -> 'Iterator[Pixels]':
    """Yield the first picture of the first views of slot A; a film that is none is left out."""
    from arena_robot.core.errors import ArenaError
    from arena_robot.recording.episode.frames import read_video
    from arena_robot.server.files import FileId
    for path in videos.get('A', [])[:VIEWS]:
        key = FileId(session_id, 'A', path).key
        local = blobs.local_path(key)
        with TemporaryDirectory(prefix='arena-first-') as folder:
            if local is None:
                local = Path(folder) / 'film.mp4'
                with local.open('wb') as stream:
                    stream.writelines(blobs.read(key))
            try:
                yield next(iter(read_video(local)))
            except (ArenaError, StopIteration):
                continue
