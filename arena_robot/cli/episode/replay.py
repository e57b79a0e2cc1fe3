"""
Replay an episode's messages, or query a policy again with its recorded observations.

Messages go to the recorded topic names below /replay, never to the live ones; the options are
those of `ros2 bag play`. Space pauses and goes on, n plays the next message, + and - make it
faster and slower, < and > go five seconds back and on. --remaps prints the names for another
player:

    ros2 bag play DIR --remap $(arena episode replay DIR --remaps)

With --policy nothing is published: each recorded inference is repeated, and a table and a plot
show how much the new actions differ from the recorded ones. --bag also writes both as one bag, for
the panel "recorded and asked again" of the Foxglove layout. With --judge the progress that the
judge sees is drawn in the terminal as the bag is played.
"""

import argparse
import sys
import threading
from collections.abc import Container, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from arena_robot.cli.terminal import json_text, sentences, single_keys
from arena_robot.core.errors import ConfigError

if TYPE_CHECKING:
    from arena_robot.records.audit_file import EpisodeAudit

BARS = '▁▂▃▄▅▆▇█'
WIDTH = 48
# What a key does to the rate: the steps of `ros2 bag play`; and to the time, s.
FASTER = {'+': 1.1, '-': 1 / 1.1}
JUMPS_S = {'<': -5.0, '>': 5.0}


def replay_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what to play and how."""
    parser.add_argument('folder', type=Path, help='an episode, such as …/A')
    parser.add_argument('--rate', type=float, default=1.0, help='times the recorded speed')
    parser.add_argument('--start', type=float, default=0.0, metavar='S',
                        help='begin this many seconds into the episode')
    parser.add_argument('--topics', nargs='+', default=['.*'], metavar='REGEX',
                        help='whole names of the topics to play, as regular expressions')
    parser.add_argument('--loop', action='store_true', help='begin again at the end')
    parser.add_argument('--start-paused', action='store_true',
                        help='begin paused: the space bar, or the service ~/resume, goes on')
    parser.add_argument('--clock', type=float, nargs='?', const=40.0, default=0.0, metavar='HZ',
                        help='publish the recorded time on /clock (default 40 Hz)')
    parser.add_argument('--remap', nargs='+', default=[], metavar='/OLD:=/NEW',
                        help='publish a topic under this name; one in use is refused')
    parser.add_argument('--qos-profile-overrides-path', default='', metavar='FILE',
                        help='QoS profiles by recorded topic, as ros2 bag takes')
    parser.add_argument('--step', action='store_true', help='wait for Enter before each step')
    parser.add_argument('--prefix', default='replay', help='first part of the published names')
    parser.add_argument('--wait', type=float, default=2.0, metavar='S',
                        help='wait up to this long for a subscriber of each topic')
    parser.add_argument('--remaps', action='store_true', help='publish nothing; print the remaps '
                        'for `ros2 bag play` that keep a bag from a live station')
    parser.add_argument('--policy', metavar='ADDRESS', help='query this policy instead')
    parser.add_argument('--bag', type=Path, metavar='FOLDER', help='with --policy: write a '
                        'bag with the recorded topics, and the new answers below /requery')
    parser.add_argument('--judge', metavar='NAME', help='draw the progress that a judge sees')
    parser.add_argument('--param', action='append', default=[], metavar='KEY=VALUE',
                        help='a setting of the judge; can be given again')
    parser.add_argument('--plot', type=Path, help='picture of the comparison or of the judged '
                        'progress (.png or .svg); default with --policy: replay.png in the '
                        'episode')


def run_replay(args: argparse.Namespace) -> int:
    """Play or compare, and report."""
    from arena_robot.recording.bag.reader import BagReader

    if args.bag and not args.policy:
        raise ConfigError('--bag writes the answers of a policy: name one with --policy')
    with BagReader(args.folder) as bag:
        if args.remaps:
            prefix = args.prefix.strip('/')
            remaps = {name: f'/{prefix}{name}' for name in sorted(bag.topics)}
            print(json_text(remaps) if args.json else
                  ' '.join(f'{name}:={new}' for name, new in remaps.items()))
            return 0
        return _ask(bag, args) if args.policy else _play(bag, args)


def _play(bag: Any, args: argparse.Namespace) -> int:
    from arena_robot.nodes.replay import ReplayParams, replay
    from arena_robot.recording.bag.playback import Pace

    params = ReplayParams(
        rate=args.rate, start=args.start, topics=tuple(args.topics), prefix=args.prefix,
        remap=tuple(args.remap), loop=args.loop, start_paused=args.start_paused,
        clock=args.clock, qos_profile_overrides_path=args.qos_profile_overrides_path,
        wait=args.wait)
    names, pace = params.names(), Pace(args.rate, args.start_paused)
    hold = _asking(bag) if args.step else None
    with (nullcontext() if args.step else playing_keys(pace, bag),
          judged_curve(bag, args, hold) as hold):
        done = replay(bag, params, hold, pace)
    late, counts = done.report.late_ms, sorted(done.report.counts.items())
    if args.json:
        print(json_text({
            'topics': {names.of(name): count for name, count in counts},
            'left_out': list(done.left_out), 'everyone_listened': done.everyone_listened,
            'late_ms': {'median': late(50), 'p99': late(99), 'most': late(100)}}))
        return 0
    for line in done.left_out:
        print(f'left out: {line}')
    if not done.everyone_listened:
        print('not every topic had a subscriber when it began')
    for name, count in counts:
        print(f'  {count:7d}  {names.of(name)}')
    print(f'{sum(done.report.counts.values())} messages; late: median {late(50):.2f} ms, '
          f'p99 {late(99):.2f} ms, most {late(100):.2f} ms')
    return 0


@contextmanager
def judged_curve(bag: Any, args: argparse.Namespace, hold: Any) -> Iterator[Any]:
    """Yield what may hold up messages and, with --judge, draws the progress."""
    if not args.judge:
        yield hold
        return
    from arena_robot.recording.episode.views import STEP
    audit = judged_episode(args.folder, args.judge, args.param)
    line = CurveLine(audit, {t.name for t in bag.of_type(STEP)})
    yield lambda message: line.follow(message) or bool(hold and hold(message))
    line.end()
    calibration = '' if audit.calibrated else f'; not calibrated here: {audit.detail}'
    sentences(args)(
          f'{audit.judge}: {100 * audit.phi[-1]:.0f} % at the end, '
          f'{100 * max(audit.phi):.0f} % at best{calibration}')
    if args.plot:
        from arena_robot.reports.episode_audit import plot_curves
        plot_curves([audit], args.plot)


@contextmanager
def playing_keys(pace: Any, bag: Any) -> Iterator[None]:
    """Control ``pace`` by the keys of the module's text, where there is a terminal."""
    if not sys.stdin.isatty():
        yield
        return
    from arena_robot.nodes.replay import state_of
    over, begin_ns = threading.Event(), bag.metadata.start_ns

    def read() -> None:
        while not over.is_set():
            key = pressed(0.2)
            if key == ' ':
                pace.toggle()
            elif key == 'n':
                pace.play_next()
            elif key in FASTER:
                pace.set_rate(min(100.0, max(0.01, pace.rate * FASTER[key])))
            elif key in JUMPS_S:
                pace.seek(max(begin_ns, pace.now_ns() + round(JUMPS_S[key] * 1e9)))
            else:
                continue
            print(state_of(pace, begin_ns), flush=True)
    with single_keys() as pressed:
        reader = threading.Thread(target=read, daemon=True)
        reader.start()
        try:
            yield
        finally:
            over.set()
            reader.join(1.0)


def _asking(bag: Any) -> Any:
    from arena_robot.recording.episode.views import STEP

    steps = {t.name for t in bag.of_type(STEP)}
    count = iter(range(10**9))

    def wait(message: Any) -> bool:
        if message.topic not in steps:
            return False
        input(f'step {next(count)}: Enter goes on ')
        return True
    return wait


def _ask(bag: Any, args: argparse.Namespace) -> int:
    from arena_robot.cli.terminal import ProgressBar
    from arena_robot.policy.connect import connect
    from arena_robot.policy.resizing import Resizing
    from arena_robot.recording.bag.codec import Codec
    from arena_robot.recording.episode.requery import ask_again, write_beside
    from arena_robot.reports.episode_audit import plot_chunks

    with connect(args.policy) as policy, ProgressBar() as bar:
        resized = Resizing(policy)
        codec = Codec()
        compared = ask_again(bag, codec, lambda o: resized.infer(o, 'replay'), bar.show)
        resized.reset('replay')
    path = args.plot or args.folder / 'replay.png'
    plot_chunks(compared, path)
    if args.bag:
        write_beside(bag, codec, compared, args.bag)
    if args.json:
        print(json_text({'plot': path, 'bag': args.bag, 'inferences': [
            {'index': c.index, 'step': c.step, 'recorded': len(c.recorded), 'now': len(c.asked),
             'arm_mean': c.arm_mean, 'arm_max': c.arm_max, 'gripper_share': c.gripper_share}
            for c in compared]}))
        return 0
    print('inference  step  actions (recorded, now)  arm mean   arm max   gripper differs')
    for c in compared:
        print(f'{c.index:9d}  {c.step:4d}  {len(c.recorded):10d} {len(c.asked):11d}  '
              f'{c.arm_mean:10.4f} {c.arm_max:9.4f}   {100 * c.gripper_share:14.0f}%')
    means = [c.arm_mean for c in compared]
    print(f'{len(compared)} inferences; arm numbers differ by {sum(means) / len(means):.4f} on '
          f'average, {max(c.arm_max for c in compared):.4f} at most\nplot: {path}'
          + (f'\nbag: {args.bag}' if args.bag else ''))
    return 0


class CurveLine:
    """
    Draws the curve of an audit up to the message that is played; give ``follow`` to the replay.

    The audit's time begins with the first step. Without a terminal nothing is drawn.
    """

    def __init__(self, audit: 'EpisodeAudit', steps: Container[str]) -> None:
        self._times, self._phi = audit.times_s, audit.phi
        self._steps = steps
        self._began_ns = 0
        self._shown = -1
        self._draws = sys.stdout.isatty()

    def follow(self, message: Any) -> bool:
        """Draw what belongs to a message; never holds it up."""
        if not self._began_ns and message.topic in self._steps:
            self._began_ns = message.log_ns
        if self._began_ns and self._phi:
            elapsed_s = (message.log_ns - self._began_ns) * 1e-9
            index = max((k for k, t in enumerate(self._times) if t <= elapsed_s), default=-1)
            if index != self._shown and index >= 0:
                self._shown = index
                if self._draws:
                    sys.stdout.write('\r' + curve_line(self._times, self._phi, index))
                    sys.stdout.flush()
        return False

    def end(self) -> None:
        """Leave the line."""
        if self._draws and self._shown >= 0:
            sys.stdout.write('\n')


def curve_line(times_s: Sequence[float], phi: Sequence[float], index: int) -> str:
    """Return time, value, best and the curve up to ``index``, in one line of fixed width."""
    columns = [round(k * index / max(WIDTH - 1, 1)) for k in range(WIDTH)] \
        if index >= WIDTH else list(range(index + 1))
    bars = ''.join(BARS[min(int(phi[k] * len(BARS)), len(BARS) - 1)] for k in columns)
    return (f'{times_s[index]:6.1f} s  progress {100 * phi[index]:3.0f}  '
            f'best {100 * max(phi[:index + 1]):3.0f}  {bars:<{WIDTH}}')


def judged_episode(folder: Any, judge: str, settings: Sequence[str]) -> 'EpisodeAudit':
    """Return the audit of an episode; DataError when the judge cannot say anything."""
    from arena_robot.audit.judges import make_judge, settings_of
    from arena_robot.audit.run import audit_clip
    from arena_robot.core.errors import DataError
    from arena_robot.recording.episode.clip import read_clip
    made = make_judge(judge, dict(settings_of(settings)))
    can = made.capabilities
    audit = audit_clip(made, read_clip(folder, can.interval_s, max_frames=can.max_frames))
    if not audit.valid:
        raise DataError(f'{folder} cannot be judged by {judge}: {audit.detail}')
    return audit
