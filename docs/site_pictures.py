"""
Make the pictures of docs/site.md: every page of the site, desktop beside phone, light and dark.

  python docs/site_pictures.py TABLES docs/img
  python docs/site_pictures.py --report arena-demo/report docs/img

TABLES is a folder with RoboArena's sessions.csv and episodes.csv, which a server in a temporary
folder imports. One session is run on the simulated station before. The pages are those of the real
site in Chromium (chromium and chromedriver on the PATH). A picture per page: site_NAME.webp. With
--report, the pictures are those of a report for docs/demo.md instead. --only NAME,… makes those of
some pages alone.
"""

import argparse
import contextlib
import hashlib
import io
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import av
import numpy as np
from PIL import Image
from selenium import webdriver

from arena_robot.audit.judges import make_judge
from arena_robot.audit.run import audit_clip
from arena_robot.cli.main import main as command
from arena_robot.core.clock import SystemClock
from arena_robot.core.episode import EndReason, Episode, Preference, Slot
from arena_robot.core.verdict import Clutter, Lighting, Verdict
from arena_robot.drivers.sim.expert import PERIOD_S
from arena_robot.drivers.sim.station import SimStation
from arena_robot.recording.episode.frames import write_video
from arena_robot.records.audit_file import write_audit
from arena_robot.records.clip import Clip
from arena_robot.records.episode_file import (
    ControlReport,
    EpisodeFile,
    InferenceReport,
    SceneMatch,
    Spread,
    write_episode,
    write_scene_match,
)
from arena_robot.records.roboarena_files import read_folder
from arena_robot.server.app import ArenaServer
from arena_robot.server.base import Caller, PolicyState, Role, Station
from arena_robot.server.config import ServerConfig
from arena_robot.server.files import FileId, ManifestEntry
from arena_robot.server.sessions.matching import Request
from arena_robot.server.store.evaluations import insert_evaluations
from arena_robot.server.store.policies import NewPolicy
from arena_robot.trials.labelled import script
from arena_robot.web.site.serve import SiteServer

WIDTHS, THEMES = (1280, 390), ('light', 'dark')
HEIGHT_PX, SESSION_PX = 900, 1900
HEIGHTS = {'report': 1000, 'session': SESSION_PX, 'admin': 1500}
SCALE, GAP = 0.75, 16
LARGEST_KB, QUALITIES = 115.0, (80, 70, 60, 50, 40, 30)
EVERY = 3    # control steps from picture to picture
JUDGES = ('local', 'oracle')
TASK = 'put the yellow cube in the bowl'
WHY = '{} put the cube into the bowl in one go; {} dropped it on the way.'
PAGES = {'leaderboard': '/', 'history': '/history', 'policy': '/policies/pi0_fast_droid',
         'versus': '/versus?a=pi0_fast_droid&b=paligemma_binning_droid', 'matrix': '/matrix',
         'policies': '/policies', 'groups': '/by/category',
         'report': '/policies/pi0_fast_droid/report', 'category': '/categories/pick-and-place',
         'evaluations': '/evaluations', 'data': '/data',
         'about': '/about', 'api': '/api', 'rules': '/rules', 'owner': '/owner'}
# Pages of a server with one session of its own, whose identifier ends the address of 'session'.
OWN_PAGES = {'signed_in': '/owner', 'audit': '/audit', 'session': '/evaluations/',
             'admin': '/admin'}


def record(folder: Path, session_id: str, slot: Slot, way: str) -> tuple[int, Clip]:
    """Run the task on the simulated station, write the episode; return steps and pictures."""
    folder.mkdir()
    rows: dict[str, list[Any]] = {'stamp_ns': [], 'gripper_position': [], 'joint_velocity': [],
                                  'progress/value': []}
    films: dict[str, list[tuple[int, Any]]] = {}
    seen: dict[str, list[Any]] = {}
    with SimStation.make('cube_in_bowl', 0, size=(512, 288), rate_hz=5.0,
                         eyes=('left',)) as station:
        for step, _ in enumerate(script(station, way, 0)):
            stamp_ns = int(step * PERIOD_S * 1e9)
            rows['stamp_ns'].append(stamp_ns)
            rows['gripper_position'].append(station.gripper.state(5.0).position)
            rows['joint_velocity'].append(station.arm.state(5.0).dq)
            rows['progress/value'].append(station.potential())
            if step % EVERY == 0:
                for role, camera in station.cameras.items():
                    pixels = camera.frame(5.0).left.pixels
                    seen.setdefault(role, []).append(pixels)
                    films.setdefault(role, []).append((stamp_ns, av.VideoFrame.from_ndarray(
                        pixels, format='rgb24')))
            station.step(PERIOD_S)
    for role, frames in films.items():
        write_video(folder / f'{role}.mp4', frames, 1 / (EVERY * PERIOD_S))
    steps, wait = len(rows['stamp_ns']), Spread(0.062, 0.081, 0.09)
    np.savez_compressed(folder / 'steps.npz', **{k: np.array(v) for k, v in rows.items()},
                        **{'progress/stamp_ns': np.array(rows['stamp_ns'])})
    if slot is Slot.B:
        write_scene_match(folder, SceneMatch(0.97, {'left_left': 0.97, 'wrist_left': 0.99}))
    write_episode(folder, EpisodeFile(session_id, slot.value, TASK, steps=steps, control=(
        ControlReport(15.0, 15.0)), inference=InferenceReport(steps // 8, wait)))
    (folder / f'{slot.value}_0.mcap').write_text(f'{session_id} {slot.value}')
    return steps, Clip(TASK, np.array(rows['stamp_ns'][::EVERY]) * 1e-9, seen,
                       name=f'{session_id}/{slot.value}',
                       potential=np.array(rows['progress/value'][::EVERY]))


def run_session(server: ArenaServer, folder: Path) -> str:
    """Add a session that counts to the server; return its id."""
    accounts = server.accounts
    owner = accounts.add_account('olga', 'Penn', [Role.OWNER])
    accounts.add_account('ada', 'NYU', [Role.EVALUATOR])
    accounts.add_station(Station(0, 'nyu-1', 'NYU', 'panda'))
    caller = accounts.caller(accounts.issue(accounts.station('nyu-1')))
    numbers, clips = [], {}
    for name in ('scripted_expert', 'clumsy_expert'):
        made = server.policies.add(NewPolicy(name, 'grpc://127.0.0.1:9'), owner.id,
                                   PolicyState.POOL)
        server.policies.set_health(made.id, True)
        numbers.append(made.id)
    session = server.matching.assign(caller, Request('picture'.ljust(20, '0'), 'ada', TASK))
    expert = Slot.A if server.sessions.get(session.id).policy_a_id == numbers[0] else Slot.B
    for slot in Slot:
        way = 'expert' if slot is expert else 'drop'
        home = folder / slot.value
        steps, clips[slot] = record(home, session.id, slot, way)
        server.slots.count_rollouts([session.id])
        for step in range(0, steps, 8):
            server.record.answered((session.id, slot.value), step, 0.1, 8)
        upload(server, caller, home, Episode(
            session.id, slot, TASK, steps, EndReason.DONE, 0, int(steps * PERIOD_S * 1e9),
            reruns=int(slot is Slot.B)))
    server.verdicts.feedback(caller, session.id, Verdict(
        progress_a=1.0 if expert is Slot.A else 0.8,
        progress_b=1.0 if expert is Slot.B else 0.8, preference=Preference(expert.value),
        explanation=WHY.format(*(expert.value, 'B' if expert is Slot.A else 'A')),
        lighting=Lighting.NORMAL, clutter=Clutter.LOW))
    counts, why_not = server.acceptance.told(session.id)
    if not counts:
        raise SystemExit(f'the session of the pictures is not shown: {why_not}')
    for slot, clip in clips.items():
        for judge in JUDGES:
            write_audit(server.blobs.local_path(f'{session.id}/{slot.value}/x').parent,
                        audit_clip(make_judge(judge), clip))
    return session.id


def upload(server: ArenaServer, caller: Caller, home: Path, episode: Episode) -> None:
    """Upload the files of an episode."""
    files = {path.name: path.read_bytes() for path in home.iterdir()}
    entries = [ManifestEntry(name, len(data), hashlib.sha256(data).hexdigest())
               for name, data in files.items()]
    server.verdicts.episode(caller, episode, entries)
    for one in entries:
        file = FileId(episode.session_id, episode.slot.value, one.path)
        server.uploads.begin(file, one.size, one.sha256)
        server.uploads.append(file, 0, files[one.path])
        server.uploads.finish(file)


@contextlib.contextmanager
def started() -> Iterator[ArenaServer]:
    """Run an empty server in a temporary folder; no recording is read, bags are made up."""
    with tempfile.TemporaryDirectory() as folder:
        config = ServerConfig(data=Path(folder), port=0, probe_period_s=3600.0, max_pace=0.0,
                              photo_code_share=0.0)
        with ArenaServer(config, SystemClock(), lambda _: '', lambda _: '',
                         read_recordings=lambda _: dict.fromkeys(('A', 'B'), '')) as server:
            yield server


def browser() -> webdriver.Chrome:
    """Return headless Chromium."""
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which('chromium') or ''
    for argument in ('--headless=new', '--no-sandbox', '--disable-gpu', '--hide-scrollbars',
                     '--disable-dev-shm-usage'):
        options.add_argument(argument)
    return webdriver.Chrome(options=options,
                            service=webdriver.ChromeService(shutil.which('chromedriver')))


def photo(page: webdriver.Chrome, url: str, path: Path, height: int = HEIGHT_PX,
          token: str = '') -> None:
    """Write a page in both sizes light and dark; one that asks for a token gets it."""
    pictures = []
    for theme in THEMES:
        page.execute_cdp_cmd('Emulation.setEmulatedMedia', {
            'features': [{'name': 'prefers-color-scheme', 'value': theme}]})
        for width in WIDTHS:
            page.execute_cdp_cmd('Emulation.setDeviceMetricsOverride', {
                'width': width, 'height': height, 'deviceScaleFactor': 1, 'mobile': False})
            page.get(url)
            if token:
                page.execute_script(
                    'document.querySelector("[name=token]").value = arguments[0];'
                    'document.querySelector("form").submit()', token)
            page.execute_script(
                'for (const film of document.querySelectorAll("video")) film.currentTime = 4;'
                'for (const box of document.querySelectorAll(".commitment")) box.open = true;')
            time.sleep(1.0)
            pictures.append(Image.open(io.BytesIO(page.get_screenshot_as_png())).convert('RGB'))
    scaled = [one.resize((int(one.width * SCALE), int(one.height * SCALE)),
                         Image.Resampling.LANCZOS) for one in pictures]
    wide, high = scaled[0].width + GAP, scaled[0].height + GAP
    whole = Image.new('RGB', (wide + scaled[1].width, high + scaled[0].height), 'white')
    for k, one in enumerate(scaled):
        whole.paste(one, (wide * (k % 2), high * (k // 2)))
    for quality in QUALITIES:
        whole.save(path, quality=quality, method=6)
        if path.stat().st_size < 1e3 * LARGEST_KB:
            break
    sys.stdout.write(f'{path}: {path.stat().st_size / 1e3:.0f} kB\n')


def main() -> None:
    """Fill a server, then photograph its site."""
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--report', type=Path, help='folder of a report: only its pictures')
    parser.add_argument('--only', default='', metavar='NAME,…', help='only these pages')
    parser.add_argument('tables', type=Path, nargs='?',
                        help='folder of sessions.csv and episodes.csv')
    parser.add_argument('out', type=Path, help='folder of the pictures')
    args = parser.parse_args()
    os.environ.setdefault('MUJOCO_GL', 'egl')
    page = browser()
    try:
        if args.report:
            report_pictures(page, (args.report / 'index.html').resolve().as_uri(), args.out)
        else:
            site_pages(page, args.tables, args.out, [x for x in args.only.split(',') if x])
    finally:
        page.quit()


def report_pictures(page: webdriver.Chrome, url: str, out: Path) -> None:
    """Photograph the standings and the first session of a report."""
    photo(page, url, out / 'demo_report.webp')
    photo(page, f'{url}#session-1', out / 'demo_session.webp', SESSION_PX)


def site_pages(page: webdriver.Chrome, tables: Path, out: Path, only: list[str]) -> None:
    """Photograph every page of the site, or only some."""
    if wanted := [name for name in PAGES if name in (only or PAGES)]:
        imported_pages(page, tables, out, wanted)
    if wanted := [name for name in OWN_PAGES if name in (only or OWN_PAGES)]:
        own_pages(page, out, wanted)


def imported_pages(page: webdriver.Chrome, tables: Path, out: Path, names: list[str]) -> None:
    """Photograph pages of the imported sessions."""
    with started() as server, SiteServer(server, '127.0.0.1', 0) as site:
        insert_evaluations(server.database, SystemClock(), read_folder(tables).sessions)
        command(['report', '--all', '--data', str(server.config.data), '--save'])
        server.acceptance.consider_all()    # enters the imported sessions into the log
        server.results.settle()    # pages show what was computed last
        for name in names:
            photo(page, site.address + PAGES[name], out / f'site_{name}.webp',
                  HEIGHTS.get(name, HEIGHT_PX))


def own_pages(page: webdriver.Chrome, out: Path, names: list[str]) -> None:
    """Photograph pages of one simulated session, as owner, reader and maintainer."""
    with started() as server, SiteServer(server, '127.0.0.1', 0) as site, \
            tempfile.TemporaryDirectory() as folder:
        session_id, accounts = run_session(server, Path(folder)), server.accounts
        maya = accounts.add_account('maya', 'Penn', [Role.MAINTAINER])
        tokens = {'signed_in': accounts.issue(accounts.account('olga')),
                  'admin': accounts.issue(maya)}
        for name in names:
            if name == 'admin':    # the last one: the others show the policy as it was
                server.maintenance.act(accounts.caller(tokens[name]), 'suspend', 'clumsy_expert',
                                       'it drops what it holds')
            path = OWN_PAGES[name] + (session_id if name == 'session' else '')
            photo(page, site.address + path, out / f'site_{name}.webp',
                  HEIGHTS.get(name, HEIGHT_PX), tokens.get(name, ''))


if __name__ == '__main__':
    main()
