"""
Compare policies blind on any robot: a router in front of them, and a page for the phone.

The robot's program calls the printed address as it called its policy. Each trial is started and
ended on the page, and goes to the policy that is on turn; nobody at the robot can tell which.
Everything is in the study's folder, so the same command goes on after an interruption.

    arena blind a=openpi://gpu1:8000 b=grpc://gpu2:8000 --instruction 'put the cup in the bowl'
    arena blind --study study.yaml --folder cup_in_bowl
    arena blind pi0=openpi://gpu1:8000 pi05=openpi://gpu2:8000 --study study.yaml
"""

import argparse
import contextlib
import logging
import socket
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from arena_robot.core.errors import ConfigError

if TYPE_CHECKING:
    from arena_robot.blind.study import Study
    from arena_robot.web.page_server import PageServer

STOP = "the robot's own emergency stop"
QR_BORDER = 2    # modules; readers need a quiet edge


def blind_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument('arms', metavar='NAME=ADDRESS', nargs='*',
                        help='a policy of the study, such as pi0=openpi://gpu1:8000')
    parser.add_argument('--study', type=Path, metavar='FILE',
                        help='the declared study (default: one of the two or more policies given)')
    parser.add_argument('--folder', type=Path, metavar='FOLDER', default=Path('study'),
                        help='where everything is kept (default: %(default)s)')
    parser.add_argument('--instruction', default='', help='without --study: the task')
    parser.add_argument('--rounds', type=int, default=10,
                        help='without --study: how often each pair is compared (default 10)')
    parser.add_argument('--reason', default='', help='why the study was changed, if it was')
    parser.add_argument('--robot-stop', default=STOP, metavar='WORDS',
                        help='what stops the arm, shown on the page (default: %(default)s)')
    parser.add_argument('--no-video', action='store_true',
                        help='keep no videos of the trials (they are made of the pictures in the '
                        "robot's queries)")
    parser.add_argument('--host', default='127.0.0.1',
                        help='address to serve the robot on; 0.0.0.0 for every one '
                        '(default %(default)s)')
    parser.add_argument('--port', type=int, default=8000,
                        help='port for openpi and RoboArena, 0 uses a free one (default 8000)')
    parser.add_argument('--grpc-port', type=int, default=8001,
                        help='port for gRPC, 0 uses a free one (default 8001)')
    parser.add_argument('--page-host', default='0.0.0.0',
                        help='address to serve the page on (default %(default)s)')
    parser.add_argument('--page-port', type=int, default=8600,
                        help='port of the page, 0 uses a free one (default 8600)')
    parser.add_argument('--token-file', type=Path,
                        help='file with the token that the policies ask for')


def run_blind(args: argparse.Namespace) -> int:
    """Serve the router and its page until a signal ends them."""
    from arena_robot.core.process import ended_by_signal
    from arena_robot.core.tuning import keep_freed_memory
    keep_freed_memory()
    study, addresses = _declared(args)
    over = ended_by_signal()
    with contextlib.ExitStack() as stack:
        logging.disable()    # what clients and servers log names the policy that was called
        stack.callback(logging.disable, logging.NOTSET)
        page = _serve(args, study, addresses, stack)
        link = page.url_at(_own_address(args.page_host))
        print(f'{qr_code(link)}\nthe page for the phone: {link}', flush=True)
        over.wait()
    print('stopped; the same command goes on with the study', flush=True)
    return 0


def _serve(args: argparse.Namespace, study: 'Study', addresses: dict[str, str],
           stack: contextlib.ExitStack) -> 'PageServer':
    from arena_robot.blind.clips import TrialClips
    from arena_robot.blind.desk import StudyDesk
    from arena_robot.blind.page import create_page
    from arena_robot.blind.router import ArmPool, BlindRouter
    from arena_robot.blind.trials import seed_home, study_seed
    from arena_robot.core.clock import SystemClock
    from arena_robot.policy.options import CallOptions, ServeOptions
    from arena_robot.web.page_server import PageServer

    token = args.token_file.read_text(encoding='utf-8').split()[0] if args.token_file else ''
    pool = stack.enter_context(ArmPool(addresses, CallOptions(token=token)))
    args.folder.mkdir(parents=True, exist_ok=True)
    clips = None if args.no_video else stack.enter_context(TrialClips(
        args.folder, SystemClock(), lambda text: desk.stray(text)))
    desk = stack.enter_context(StudyDesk(
        args.folder, study, study_seed(args.folder, seed_home()), SystemClock(),
        lambda text: print(text, flush=True), pool.prepare, reason=args.reason,
        clips=clips))
    router = stack.enter_context(BlindRouter(
        desk, pool, ServeOptions(host=args.host, port=args.port),
        ServeOptions(host=args.host, port=args.grpc_port), clips))
    for protocol, address in router.addresses.items():
        print(f"for the robot's program, {protocol}: {address}", flush=True)
    if pool.why_no_spec:
        print(f'no gRPC address: {pool.why_no_spec}', flush=True)
    words = {'robot_stop': args.robot_stop, 'report': f'arena study report {args.folder}'}
    return stack.enter_context(PageServer(
        lambda token, hosts: create_page(desk, token, hosts, words), args.page_host,
        args.page_port, option='--page-port'))


def _declared(args: argparse.Namespace) -> 'tuple[Study, dict[str, str]]':
    """Return the study, and the address of each of its policies. Raises ConfigError."""
    from arena_robot.blind.study import load_study
    from arena_robot.blind.trials import read_study
    from arena_robot.policy.address import parse_address
    from arena_robot.records.session_file import JOURNAL
    given = dict(_pairs(args.arms))
    if args.study is not None:
        study = load_study(args.study)
    elif args.instruction:
        study = _new_study(args, given)
    elif (args.folder / JOURNAL).is_file():
        study = read_study(args.folder).study
    else:
        raise ConfigError("a study needs its task: add --instruction 'put the cup in the bowl', "
                          'or declare the whole study with --study study.yaml')
    names = [arm.name for arm in study.arms]
    if more := sorted(set(given) - set(names)):
        raise ConfigError(f"{', '.join(more)} is no policy of the study; it has "
                          f"{', '.join(names)}")
    addresses = {arm.name: given.get(arm.name) or arm.address for arm in study.arms}
    if lacking := [name for name, address in addresses.items() if not address]:
        raise ConfigError(f'say where {lacking[0]} is served: {lacking[0]}=openpi://host:8000')
    for address in addresses.values():
        parse_address(address)
    return study, addresses


def _new_study(args: argparse.Namespace, given: dict[str, str]) -> 'Study':
    """Return a study of the given policies at one task: pairs, or all pairs of more than two."""
    from arena_robot.blind.study import Design, StartCondition, Study, StudyArm
    try:
        return Study(
            args.folder.resolve().name,
            tuple(StudyArm(name, address) for name, address in given.items()),
            (StartCondition('start', instruction=args.instruction),),
            'The task is done as the instruction says.',
            Design.PAIRS if len(given) == 2 else Design.ROUND_ROBIN, repeats=args.rounds)
    except ValueError as error:
        raise ConfigError(str(error)) from error


def _pairs(words: Iterable[str]) -> Iterable[tuple[str, str]]:
    for word in words:
        name, mark, address = word.partition('=')
        if not mark or not name or not address:
            raise ConfigError(f"'{word}' is not NAME=ADDRESS, such as pi0=openpi://gpu1:8000")
        yield name, address


def _own_address(host: str) -> str:
    """Return the address of this machine in its network, where it listens on every one."""
    if host not in ('0.0.0.0', '::'):
        return host
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(('192.0.2.1', 9))    # sends nothing; the system chooses its address
            return str(probe.getsockname()[0])
        except OSError:    # no network
            return 'localhost'


def qr_code(text: str) -> str:
    """Return a QR code in half blocks, dark on light whatever the terminal's colours are."""
    import cv2
    import numpy as np
    modules = np.asarray(cv2.QRCodeEncoder.create().encode(text)) > 0
    light = np.pad(modules, QR_BORDER, constant_values=True)
    light = np.pad(light, ((0, len(light) % 2), (0, 0)), constant_values=True)
    blocks = {(True, True): '█', (True, False): '▀', (False, True): '▄', (False, False): ' '}
    return '\n'.join('\x1b[97;40m' + ''.join(
        blocks[bool(top), bool(low)] for top, low in zip(light[row], light[row + 1], strict=True))
        + '\x1b[0m' for row in range(0, len(light), 2))
