"""Verbs on your policies at a server: submit, mine, webhook; and your credits there."""

import argparse
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from arena_robot.cli.arguments import add_server_arguments, calls
from arena_robot.cli.terminal import json_text
from arena_robot.core.action import ActionSpace
from arena_robot.core.clock import to_iso
from arena_robot.core.errors import ConfigError
from arena_robot.server.base import PROVENANCE

if TYPE_CHECKING:
    from arena_robot.server.client import Calls

SUBMITTED, SUSPENDED = 'submitted', 'suspended'
FAILURE = ('session_id', 'slot', 'end', 'detail', 'created_ns', 'has_page')
HOOK = ('url', 'secret', 'waiting', 'failure')
TEST_S = 20.0    # the server looks every 5 s what is due, and gives a receiver 10 s
LOOK_S = 0.5    # between two questions to the server, whose check takes seconds


def submit_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument('name')
    parser.add_argument('address', nargs='?',
                        help='grpc://, grpcs://, openpi:// or openpis://host:port')
    parser.add_argument('--description', default='')
    parser.add_argument('--open-source', action='store_true')
    for name, about in PROVENANCE.items():
        parser.add_argument(f'--{name}', metavar='TEXT', default='', help=f'for its page: {about}')
    parser.add_argument('--robot', metavar='NAME', default='any',
                        help='the only robot that it drives: panda, fr3, or the embodiment of a '
                             'station; any (the default): any Franka, and any arm at all where '
                             'its spec says joints=0')
    parser.add_argument('--action-space', choices=[space.value for space in ActionSpace])
    parser.add_argument('--external-cameras', type=int, choices=(0, 1, 2))
    parser.add_argument('--no-wrist-camera', action='store_false', dest='wrist_camera',
                        default=None)
    parser.add_argument('--stereo', action='store_true', default=None)
    parser.add_argument('--policy-token-file', type=Path, metavar='FILE',
                        help='the token that your policy asks for; an empty file: none any more')
    parser.add_argument('--policy-tls-ca', type=Path, metavar='FILE',
                        help='certificate of the authority of your policy server, PEM; an empty '
                             'file: the public authorities')
    parser.add_argument('--wait', type=float, metavar='S', default=0.0,
                        help='wait until the server has checked it, at most this long')
    how = parser.add_mutually_exclusive_group()
    how.add_argument('--update', action='store_true',
                     help='change an existing policy: its description, source, robot and needs '
                          'become what this command says')
    how.add_argument('--resubmit', action='store_true', help='check it again')
    how.add_argument('--appeal', metavar='TEXT',
                     help='say to the maintainers what you changed after reports that it was '
                          'unsafe')
    how.add_argument('--retire', action='store_true', help='remove it permanently')
    add_server_arguments(parser)


def run_submit(args: argparse.Namespace) -> int:
    """
    Submit, change or retire a policy of yours on an arena server.

        arena policy submit my-policy grpc://gpu1.example.org:8000 --description 'pi0 on DROID'
        arena policy submit my-policy grpc://gpu1.example.org:8000 --wait 120
        arena policy submit pi0 'openpis://gpu1.example.org:443/pi0?action_space=joint_velocity'
        arena policy submit my-policy grpc://gpu2.example.org:8000 --update
        arena policy submit pi0 grpc://h:8000 --paper https://arxiv.org/abs/2410.24164 --family pi0
        arena policy submit my-policy --resubmit        after it was suspended
        arena policy submit my-policy --appeal 'the gripper is slower now'    after unsafe reports
        arena policy submit my-policy --retire

    Action space and cameras are read from your server; one that you state must be what it says.
    """
    from arena_robot.server.proto import arena_server_pb2 as pb
    server = calls(args)
    if args.appeal:
        policy = server('AppealPolicy', pb.AppealRequest(name=args.name, text=args.appeal))
    elif args.resubmit or args.retire:
        call = 'ResubmitPolicy' if args.resubmit else 'RetirePolicy'
        policy = server(call, pb.NameRequest(name=args.name))
    elif not args.address:
        raise ConfigError('the address of the policy is missing, such as grpc://host:8000')
    else:
        policy = server('UpdatePolicy' if args.update else 'RegisterPolicy', pb.Policy(
            name=args.name, address=args.address, description=args.description,
            open_source=args.open_source, robot=args.robot, action_space=args.action_space,
            external_cameras=args.external_cameras, wrist_camera=args.wrist_camera,
            stereo=args.stereo, token=_token(args.policy_token_file),
            tls_ca=_text(args.policy_tls_ca), provenance={
                name: said for name in PROVENANCE if (said := getattr(args, name))}))
    policy = checked(server, policy, args.wait)
    reason = f' ({policy.reason})' if policy.reason else ''
    print(json_text(policy_values(policy)) if args.json else
          f'{policy.name}: {policy.state}{reason}; follow it with: arena policy mine')
    return int(policy.state == SUSPENDED)


def _token(path: Path | None) -> str | None:
    """Return the first line of a token file; None: the policy keeps the token that it has."""
    text = _text(path)
    return text if text is None else (text.split() or [''])[0]


def _text(path: Path | None) -> str | None:
    """Return what is in a file; None without one."""
    if path is None:
        return None
    try:
        return path.read_text(encoding='utf-8').strip()
    except OSError as error:
        raise ConfigError(f'cannot read {path}: {error.strerror or error}') from error


def checked(server: 'Calls', policy: Any, wait_s: float) -> Any:
    """Return the policy once the server has checked it, or as it is after ``wait_s``."""
    from arena_robot.server.proto import arena_server_pb2 as pb
    end_s = time.monotonic() + wait_s
    while policy.state == SUBMITTED and time.monotonic() < end_s:
        time.sleep(LOOK_S)
        policy = next(p for p in server('ListPolicies', pb.Empty()).policies
                      if p.name == policy.name)
    return policy


def mine_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    add_server_arguments(parser)


def run_mine(args: argparse.Namespace) -> int:
    """
    List your policies on an arena server: state, health, how often requested, and why.

    Below a policy: its newest session, latency and failures; the reports that it was unsafe,
    what became of them, and whether it waits for a maintainer. Maintainers see all policies,
    and who reported them.
    """
    from arena_robot.server.proto import arena_server_pb2 as pb
    policies = calls(args)('ListPolicies', pb.Empty()).policies
    if args.json:
        print(json_text([policy_values(policy) for policy in policies]))
        return 0
    print(f'{"policy":30} {"state":10} {"healthy":7} {"asked":>5}  reason')
    for p in policies:
        print(f'{p.name:30} {p.state:10} {"yes" if p.healthy else "no":7} {p.requested:5}  '
              f'{p.reason}')
        for line in (*activity_lines(p), *review_lines(p)):
            print(f'    {line}')
    return 0


def activity_lines(policy: Any) -> Iterator[str]:
    """Yield what a policy did last, how fast it answers, and its newest failures."""
    if policy.last_ns:
        yield f'last asked {to_iso(policy.last_ns)}; an answer takes {policy.latency_s:.3f} s'
    if policy.paid:
        yield f'{policy.paid} paid comparisons wait for a station'
    for row in policy.failures:
        where = f'/evaluations/{row.session_id}' if row.has_page else row.session_id
        yield f'{row.end} on {to_iso(row.created_ns)} as {row.slot} of {where}: {row.detail}'


def webhook_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    how = parser.add_mutually_exclusive_group()
    how.add_argument('url', nargs='?', help='https://host/path, which takes a POST with JSON')
    how.add_argument('--remove', action='store_true', help='remove it, and what waits for it')
    how.add_argument('--test', action='store_true', help='send it an event, and say how it went')
    add_server_arguments(parser)


def run_webhook(args: argparse.Namespace) -> int:
    """
    Have an arena server tell yours of suspensions, sessions and studies.

        arena policy webhook https://lab.example.org/arena
        arena policy webhook                       what is kept, and what waits to be sent
        arena policy webhook --test
        arena policy webhook --remove

    A new address replaces the one before. The secret is printed once: every POST is signed with
    it, see docs/server.md.
    """
    from arena_robot.server.proto import arena_server_pb2 as pb
    server, arrived = calls(args), True
    if args.test:
        hook, arrived = tested(server)
    elif args.remove or args.url:
        hook = server('SetWebhook', pb.WebhookRequest(url='' if args.remove else args.url))
    else:
        hook = server('SetWebhook', pb.WebhookRequest())
    if args.json:
        print(json_text({name: getattr(hook, name) for name in HOOK}))
    else:
        print(f'events are sent to {hook.url}' if hook.url else 'events are sent nowhere')
        if args.test:
            print('the test arrived' if arrived else 'the test has not arrived')
        if hook.secret:
            print(f'the secret of the signature, shown this once: {hook.secret}')
        if hook.waiting:
            print(f'{hook.waiting} wait to be sent. {hook.failure or "They are sent soon."}')
    return int(not arrived)


def tested(server: 'Calls') -> tuple[Any, bool]:
    """Send a test; return the webhook, and whether the test arrived within ``TEST_S``."""
    from arena_robot.server.proto import arena_server_pb2 as pb
    first, end_s = server('SetWebhook', pb.WebhookRequest(test=True)), time.monotonic() + TEST_S
    hook = first
    while hook.waiting >= first.waiting and not hook.failure and time.monotonic() < end_s:
        time.sleep(LOOK_S)
        hook = server('SetWebhook', pb.WebhookRequest())
    return hook, hook.waiting < first.waiting


def review_lines(policy: Any) -> Iterator[str]:
    """Yield what people said and have to say about a policy."""
    if policy.waits_for_approval:
        yield ('a maintainer has to approve it before the pool: '
               f'arena admin policy {policy.name} --approve')
    reports = policy.unsafe_reports
    standing = sum(not report.cleared_by for report in reports)
    if reports:
        yield f'{len(reports)} reports that it was unsafe, {standing} of them stand'
    for report in reports:
        who = f' by {report.evaluator} at {report.station}' if report.station else ''
        cleared = (f'; cleared by {report.cleared_by}: {report.cleared_why}'
                   if report.cleared_by else '')
        yield f'unsafe{who}: {report.reason}{cleared}'
    if policy.appeal:
        yield f'appeal: {policy.appeal}'


def policy_values(policy: Any) -> dict[str, Any]:
    """Return a policy of a server for `--json`."""
    report = ('session_id', 'slot', 'reason', 'created_ns', 'cleared_by', 'cleared_why', 'station',
              'evaluator')
    return {**{name: getattr(policy, name) for name in (
        'name', 'owner', 'address', 'state', 'healthy', 'requested', 'reason', 'appeal',
        'waits_for_approval')}, 'provenance': dict(policy.provenance), 'last_ns': policy.last_ns,
        'latency_s': policy.latency_s if policy.HasField('latency_s') else None,
        'paid': policy.paid, 'failures': [
            {name: getattr(row, name) for name in FAILURE} for row in policy.failures],
        'unsafe_reports': [{name: getattr(unsafe, name) for name in report}
                           for unsafe in policy.unsafe_reports]}


def credits_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    how = parser.add_mutually_exclusive_group()
    how.add_argument('--give', type=int, metavar='N', help='give so many credits to --to')
    how.add_argument('--request', type=int, metavar='N',
                     help='pay for so many comparisons of --policy')
    parser.add_argument('--to', metavar='OWNER', help='an owner of your institution')
    parser.add_argument('--policy', help='a policy of yours or of your institution')
    add_server_arguments(parser)


def run_credits(args: argparse.Namespace) -> int:
    """
    Show your credits; give them to an owner of your institution, or pay for comparisons.

        arena credits
        arena credits --give 5 --to olga
        arena credits --request 10 --policy pi0-droid

    Each credit that is paid for comparisons of a policy is spent when a session with it counts;
    until then the policy is drawn more often.
    """
    from arena_robot.server.proto import arena_server_pb2 as pb
    name = uuid.uuid4().hex
    if (args.give is None) != (args.to is None) or (args.request is None) != (args.policy is None):
        raise ConfigError('credits are given with --give N --to OWNER, and paid with --request N '
                          '--policy POLICY')
    server = calls(args)
    if args.give is not None:
        account = server('GiveCredits', pb.GiveRequest(to=args.to, amount=args.give, request=name))
    elif args.request is not None:
        account = server('RequestComparisons', pb.ComparisonsRequest(
            policy=args.policy, amount=args.request, request=name))
    else:
        account = server('Credits', pb.Empty())
    if args.json:
        print(json_text({'balance': account.balance, 'paid': dict(account.paid), 'lines': [
            {'created': to_iso(line.created_ns), 'amount': line.amount, 'reason': line.reason}
            for line in account.lines]}))
        return 0
    print(f'{account.balance} credits')
    for policy, amount in sorted(account.paid.items()):
        print(f'{policy}: {amount} comparisons are paid for')
    for line in account.lines:
        print(f'  {to_iso(line.created_ns)}  {line.amount:+5}  {line.reason}')
    return 0
