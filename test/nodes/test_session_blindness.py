"""
Before the reveal nothing names a policy: no topic, parameter, log, file or page.

And before the verdict is final none of them shows anything of an audit.
"""

import importlib
import json
import time
import urllib.request
from pathlib import Path

import numpy as np
import pytest
from loud_judge import WORD, LoudJudge
from rcl_interfaces.srv import GetParameters, ListParameters
from rclpy.qos import QoSDurabilityPolicy, QoSProfile, QoSReliabilityPolicy
from sample_episodes import rerun_rows
from session_rig import Rig, until

from arena_msgs.msg import ActionChunk, StepRecord
from arena_robot.cli.station.session import rerun_of
from arena_robot.core.action import ActionSpace, Chunk
from arena_robot.core.episode import Preference, Slot
from arena_robot.core.verdict import Verdict, scored
from arena_robot.nodes.lib.calls import result
from arena_robot.nodes.remote.desk import RemoteAudits
from arena_robot.policy.base import PolicySpec
from arena_robot.policy.grpc.server import GrpcPolicyServer
from arena_robot.policy.options import ServeOptions
from arena_robot.recording.bag.salvage import salvage
from arena_robot.session.protocol.states import State
from arena_robot.web.console.app import ConsoleServer

NAMES = ('crimson-7b', 'azure-fast')
SPECS = {'crimson-7b': PolicySpec(ActionSpace.JOINT_VELOCITY, (187, 211), chunk_length=13),
         'azure-fast': PolicySpec(ActionSpace.JOINT_POSITION, (149, 163), chunk_length=9)}
# What a spec would look like if somebody wrote it down.
MARKS = ('image_size', 'chunk_length', 'pipelined', 'jpeg_quality', 'PolicySpec', '(187, 211)',
         '(149, 163)', '187, 211', '149, 163')


class Talker:
    """A policy that would give itself away wherever its words are repeated."""

    def __init__(self, name):
        self.name, self.spec, self.asked = name, SPECS[name], 0

    def infer(self, observation, episode=''):
        self.asked += 1
        if self.name == NAMES[0] and self.asked == 3:
            raise RuntimeError(f'{self.name}: out of memory on its GPU')
        arm = np.zeros(7) if self.spec.action_space.is_velocity else observation.arm.q
        actions = np.tile(np.append(arm, 0.0), (self.spec.chunk_length, 1))
        return Chunk(actions.astype(np.float32), self.spec.action_space)

    def reset(self, episode=''):
        raise RuntimeError(f'{self.name} forgets nothing')


def message_class(kind):
    package, group, name = kind.split('/')
    interfaces = importlib.import_module(f'{package}.{group}')
    if group == 'action':
        return getattr(interfaces, name.removesuffix('_FeedbackMessage')).Impl.FeedbackMessage
    return getattr(interfaces, name)


class Spy:
    """Keeps the bytes of every message on every topic of a namespace."""

    def __init__(self, node, namespace):
        self.node, self.namespace, self.heard, self.topics = node, namespace, {}, set()

    def listen(self):
        for topic, (kind, *_) in self.node.get_topic_names_and_types():
            near = topic.startswith(f'/{self.namespace}/') or topic in ('/rosout', '/diagnostics')
            if near and topic not in self.topics and 'Image' not in kind:
                self.topics.add(topic)
                reliable, late = self.offered(topic)
                profile = QoSProfile(depth=50, reliability=reliable, durability=late)
                self.node.create_subscription(message_class(kind), topic, self.keeper(topic),
                                              profile, raw=True)

    def offered(self, topic):
        offers = [p.qos_profile for p in self.node.get_publishers_info_by_topic(topic)]
        reliable = all(p.reliability == QoSReliabilityPolicy.RELIABLE for p in offers)
        late = all(p.durability == QoSDurabilityPolicy.TRANSIENT_LOCAL for p in offers)
        return (QoSReliabilityPolicy.RELIABLE if reliable else QoSReliabilityPolicy.BEST_EFFORT,
                QoSDurabilityPolicy.TRANSIENT_LOCAL if late else QoSDurabilityPolicy.VOLATILE)

    def keeper(self, topic):
        kept = self.heard.setdefault(topic, bytearray())
        return lambda data: kept.extend(bytes(data))

    def parameters(self, name):
        """Return the values of all parameters of a node, as text."""
        listed = self.node.create_client(ListParameters, f'/{self.namespace}/{name}/'
                                         'list_parameters')
        got = self.node.create_client(GetParameters, f'/{self.namespace}/{name}/get_parameters')
        assert listed.wait_for_service(10.0)
        assert got.wait_for_service(10.0)
        names = result(listed.call_async(ListParameters.Request()), 10.0, name).result.names
        return repr(result(got.call_async(GetParameters.Request(names=names)), 10.0, name))


@pytest.fixture
def servers():
    made = {name: GrpcPolicyServer(Talker(name), ServeOptions(host='127.0.0.1', port=0))
            for name in NAMES}
    for server in made.values():
        server.open()
    yield made
    for server in made.values():
        server.close()


def leaks(kept, secrets):
    """Return what of ``secrets`` is found where."""
    return sorted((where, secret) for where, data in kept.items() for secret in secrets
                  if secret.encode() in data)


def shown(kept):
    """Return what is on pages and in logs and diagnostics, without the name of the topic."""
    messages = {where: data.replace(b'/action_chunk', b'') for where, data in kept.items()
             if where.startswith('page') or where.endswith(('/rosout', '/diagnostics', '.log'))}
    assert any('rosout' in where for where in messages)
    return messages


def files_in(folder):
    """Return the bytes of every file, bags message by message."""
    kept = {}
    for path in folder.rglob('*'):
        if path.suffix == '.mcap':
            for number, item in enumerate(salvage(path)):
                kept[f'{path.name} {number}'] = getattr(item, 'data', None) or repr(item).encode()
        elif path.is_file():
            kept[str(path)] = path.name.encode() + path.read_bytes()
    return kept


def rolled(desk, slot):
    desk.start(slot)
    return until(desk, lambda s: not s.state.running, 'the rollout does not end')


def session(desk):
    """Go through a session to the review."""
    desk.take('tester')
    desk.press('check')
    desk.open_session('ada', 'put the yellow cube in the bowl')
    desk.press('photograph')
    rolled(desk, Slot.A)
    desk.score(Slot.A, scored(Slot.A, 0.25))
    desk.press('prepare_reset')
    desk.press('confirm_reset')
    rolled(desk, Slot.B)
    desk.score(Slot.B, scored(Slot.B, 0.5))
    desk.judge(Verdict(preference=Preference.B, explanation='B went on for longer than A'))
    done = until(desk, lambda s: s.state is State.REVIEW, 'no review')
    assert sorted(s.end for s in done.slots) == ['policy_error', 'timeout']


def pages(url):
    kept = {}
    for path in ('', 'api/state', 'api/options', 'api/today', 'api/audit'):
        with urllib.request.urlopen(url + path, timeout=10.0) as answer:
            kept[f'page {path}'] = answer.read()
    return kept


class Pace:
    """What the topics that are recorded have of chunks and of inference."""

    def __init__(self, observer, namespace):
        self.steps, self.chunks = [], []
        node = f'/{namespace}/session_node'
        observer.create_subscription(StepRecord, f'{node}/step', self.steps.append, 100)
        observer.create_subscription(ActionChunk, f'{node}/action_chunk', self.chunks.append, 100)

    def is_exact(self):
        """Return the lengths of chunks; what a step says agrees with them."""
        lengths = {len(c.actions) // c.width for c in self.chunks}
        assert {s.chunk_step for s in self.steps} == set(range(max(lengths)))
        assert any(s.inference_s > 0.0 for s in self.steps)
        assert {c.slot for c in self.chunks} == {'A', 'B'}
        return lengths


def auditing(rig):
    """Start an audit_node beside a station."""
    folder = Path(__file__).parent
    rig.commands['audit_node'] = (
        '-m', 'arena_robot.nodes.audit', '--ros-args', '-r', f'__ns:=/{rig.namespace}', '-p',
        f'data_dir:={rig.data}', '-p', 'judge:=loud_judge:LoudJudge', '-p', 'period:=0.2')
    rig.environment['PYTHONPATH'] = str(folder)
    rig.again('audit_node')


def audit_topics(spy):
    return {topic.rpartition('/')[2] for topic in spy.topics if '/audit_node/' in topic
            and 'parameter' not in topic}


def audit_is_everywhere(kept, namespace):
    """Wait until the audit is on its topic, on the page and in both files."""
    end_s = time.monotonic() + 60.0
    while True:
        texts = kept()
        places = {where for where, _ in leaks(texts, (WORD,))}
        files = [where for where in places if where.endswith(f'audit/{LoudJudge.name}.json')]
        if {f'/{namespace}/audit_node/report', 'page api/audit'} <= places and len(files) == 2:
            return json.loads(texts['page api/audit'])
        assert time.monotonic() < end_s, places
        time.sleep(0.3)


def rerun_is_blind(live, done, secrets):
    """Rerun got measured joints and states, and the names with the reveal alone."""
    assert ({done.policy_a, done.policy_b}, done.verified) == (set(NAMES), True)
    rows = rerun_rows(live)
    assert {entity.rpartition('/')[0] for entity, _ in rows} == {'/joints', ''}
    assert {entity for entity, _ in rows if entity.startswith('/joints/')} == {
        f'/joints/joint_{k}' for k in range(1, 8)}
    told = [text for _, text in rows['/session', 'TextLog:text']]
    assert told[-1] == f'done: A was {done.policy_a}, B was {done.policy_b}'
    assert leaks({'live': '\n'.join(told[:-1]).encode()}, (*secrets, 'chunk', 'inference')) == []


def test_nothing_names_a_policy(processes, observer, servers, tmp_path):
    addresses = {name: server.address for name, server in servers.items()}
    rig = Rig(processes, tmp_path, addresses, max_steps=40)
    auditing(rig)
    secrets = (*NAMES, *(address.removeprefix('grpc://') for address in addresses.values()),
               *MARKS)
    spy, pace = Spy(observer, rig.namespace), Pace(observer, rig.namespace)

    def kept():
        with ConsoleServer(desk, port=0, audits=audits) as console:
            texts = pages(console.url)
        texts.update({name: spy.parameters(name).encode() for name in rig.commands})
        texts.update(files_in(rig.data))
        texts.update(files_in(tmp_path / 'log'))
        texts.update({topic: bytes(data) for topic, data in spy.heard.items()})
        return texts

    with rig.desk() as desk, rerun_of(desk, str(live := tmp_path / 'live.rrd')):
        audits = RemoteAudits(desk)
        spy.listen()
        session(desk)
        spy.listen()
        clean = kept()
        assert pace.is_exact() == {13, 9}, 'the recording is exact'
        assert {f'/{rig.namespace}/session_node/step'} <= set(clean)
        assert any('.mcap' in where for where in clean)
        assert json.loads(clean['page api/state'])['state'] == 'review'
        assert leaks(clean, (*secrets, WORD)) == []
        assert leaks(shown(clean), ('inference', 'chunk')) == [], 'no length, no latency'
        assert audit_topics(spy) == {'report'}
        desk.judge(Verdict(preference=Preference.B, explanation=f'I bet that B is {NAMES[0]}'))
        places = {where for where, _ in leaks(kept(), secrets)}
        assert {f'/{rig.namespace}/session_node/state', 'page api/state'} <= places
        assert any(where.endswith('journal.jsonl') for where in places)
        desk.judge(Verdict(preference=Preference.B, explanation='B went on for longer than A'))
        desk.submit()
        done = until(desk, lambda s: s.state is State.DONE, 'no reveal', 60.0)
        assert audit_is_everywhere(kept, rig.namespace)['preference'] == 'B'
    rerun_is_blind(live, done, secrets)
    assert leaks({'terminals': rig.said().encode()}, secrets) == []
