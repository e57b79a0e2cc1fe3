"""ranking_node over real topics: latched standings, questions, new results."""

import json
import threading
import time

import pytest
from roboarena_tables import both, load

rclpy = pytest.importorskip('rclpy', reason='rclpy is missing: run make setup')
pytest.importorskip('arena_msgs', reason='arena_msgs is missing: run make setup')

from alembic.script import ScriptDirectory  # noqa: E402
from rclpy.node import Node  # noqa: E402

from arena_msgs.msg import Ranking  # noqa: E402
from arena_msgs.srv import GetRanking, IngestEpisode  # noqa: E402
from arena_robot.core.episode import Comparison, Preference  # noqa: E402
from arena_robot.core.errors import ConfigError  # noqa: E402
from arena_robot.nodes.lib import qos  # noqa: E402
from arena_robot.nodes.lib.spin import Spin  # noqa: E402
from arena_robot.nodes.ranking import RankingNode, SiteSource, source  # noqa: E402
from arena_robot.server.store.database import Database, alembic_config  # noqa: E402


def session(root, number, a, b, preference, **changes):
    folder = root / f's{number}'
    folder.mkdir(parents=True)
    record = {'version': 1, 'state': 'done', 'session_id': f's{number}', 'verified': True,
              'evaluator': 'ada', 'station': 'bench', 'prompt': 'stack',
              'created': f'2026-01-{number + 1:02}T10:00:00+00:00',
              'reveal': {'nonce': '00', 'policy_a': a, 'policy_b': b},
              'verdict': {'preference': preference, 'progress_a': 1.0, 'progress_b': 0.25,
                          'valid': changes.pop('valid', True)}}
    (folder / 'session.json').write_text(json.dumps({**record, **changes}))
    return folder


@pytest.fixture
def results(tmp_path):
    root = tmp_path / 'sessions'
    for number, (a, b, preference) in enumerate([
            ('p', 'q', 'A'), ('p', 'q', 'A'), ('q', 'p', 'A'), ('q', 'r', 'A'), ('r', 'q', 'A'),
            ('p', 'r', 'TIE')]):
        session(root, number, a, b, preference)
    session(root, 7, 'r', 'p', 'A', valid=False)
    session(root, 8, 'r', 'p', 'A', verified=False)
    session(root, 9, 'r', 'p', 'A', state='aborted')
    return root


class Asker:
    """A ranking node and somebody who listens to it and asks it."""

    def __init__(self, spin, where, *more):
        arguments = ['--ros-args', '-p', f'source:={where}', '-p', 'period:=0.05',
                     '-p', 'debounce:=0.05', '-p', 'intervals:=50', *more]
        self.node = RankingNode(context=spin.context, cli_args=arguments)
        spin.add(self.node, threads=3)
        self.ear = Node('ear', context=spin.context)
        self.heard, self.news = [], threading.Event()
        spin.add(self.ear)

    def listen(self):
        def take(message):
            self.heard.append(message)
            self.news.set()
        self.ear.create_subscription(Ranking, '/ranking_node/ranking', take, qos.LATCHED)

    def next(self, timeout_s=10.0):
        assert self.news.wait(timeout_s), 'no standings came'
        self.news.clear()
        return self.heard[-1]

    def ask(self, kind, name, **fields):
        client = self.ear.create_client(kind, f'/ranking_node/{name}')
        assert client.wait_for_service(10.0)
        future = client.call_async(kind.Request(**fields))
        done = threading.Event()
        future.add_done_callback(lambda _: done.set())
        assert done.wait(10.0)
        return future.result()


@pytest.fixture
def make():
    with Spin() as spin:
        yield lambda where, *more: Asker(spin, where, *more)


def test_standings_are_latched_and_renewed_when_results_arrive(make, results):
    asker = make(results)
    time.sleep(0.3)
    asker.listen()
    first = asker.next()
    assert first.entries[0].rank == 1
    assert {e.policy for e in first.entries} == {'p', 'q', 'r'}
    assert first.comparisons == 6
    # Six sessions support no interval.
    assert all(e.low != e.low and e.high != e.high for e in first.entries)
    assert {e.place for e in first.entries} == {'too few to tell'}
    assert all(e.too_few and (e.rank_low, e.rank_high) == (1, 3) for e in first.entries)
    assert any('too few comparisons to tell' in text for text in first.warnings)
    heard = len(asker.heard)
    time.sleep(0.4)
    assert len(asker.heard) == heard, 'nothing changed, nothing was computed'
    for number in (10, 11, 12):
        session(results, number, 'r', 'p', 'A')
    asker.news.clear()
    assert asker.next().comparisons == 9


def test_questions(make, results):
    asker = make(results, '-p', 'cluster_by:=evaluator')
    asker.listen()
    asker.next()
    verdicts = [Comparison(f's{k}', *('pq' if k % 2 else 'qp'), Preference('AB'[k % 3 == 0]),
                           evaluator=f'e{k % people}') for people in (2, 8) for k in range(40)]
    few, enough = (asker.node.message('bt', part) for part in (verdicts[:40], verdicts[40:]))
    assert all(e.low != e.low for e in few.entries), 'two evaluators support no interval'
    assert all(e.low == e.low for e in enough.entries)
    assert [(e.rank, e.place, e.rank_low, e.rank_high, e.too_few) for e in enough.entries] == [
        (1, '1–2 tied', 1, 2, False)] * 2
    answer = asker.ask(GetRanking, 'get_ranking', method='davidson')
    assert answer.success
    assert answer.ranking.method == 'davidson'
    pair = asker.ask(GetRanking, 'get_ranking', policies=['p', 'q'])
    assert [e.policy for e in pair.ranking.entries] == ['p', 'q']
    assert pair.ranking.comparisons == 3
    from builtin_interfaces.msg import Time
    late = asker.ask(GetRanking, 'get_ranking', since=Time(sec=1_767_434_400))
    assert late.success or 'verdicts' in late.message
    wrong = asker.ask(GetRanking, 'get_ranking', method='btt')
    assert not wrong.success
    assert "no ranking method 'btt'. Did you mean 'bt'?" in wrong.message


def test_a_session_can_be_handed_in(make, results, tmp_path):
    asker = make(results)
    asker.listen()
    asker.next()
    extra = session(tmp_path / 'usb', 20, 'p', 'r', 'A')
    answer = asker.ask(IngestEpisode, 'ingest_episode', directory=str(extra))
    assert (answer.success, answer.session_id) == (True, 's20')
    assert asker.next().comparisons == 7
    bad = asker.ask(IngestEpisode, 'ingest_episode', directory=str(tmp_path / 'nowhere'))
    assert not bad.success
    assert 'is not the record of a session' in bad.message


def test_sources_that_are_none(make):
    with pytest.raises(ConfigError, match='no folder, no database URL'):
        source('/no/such/folder')


@both
def test_tables_database_and_site_give_the_same_verdicts(tables, tmp_path):
    from arena_robot.core.clock import SystemClock
    from arena_robot.server.app import ArenaServer
    from arena_robot.server.config import ServerConfig
    from arena_robot.web.site.serve import SiteServer

    config = ServerConfig(data=tmp_path, port=0, probe_period_s=3600.0)
    with ArenaServer(config, SystemClock(), lambda a: '', lambda a: '') as server:
        load(server.database, tables)
        with SiteServer(server, '127.0.0.1', 0) as web:
            over = SiteSource(web.address)
            sources = [source(str(tables)), source(f'sqlite:///{tmp_path}/arena.db'), over]
            verdicts = [{(c.session_id, c.a, c.b, c.preference) for c in s.comparisons()}
                        for s in sources]
            for s in sources:
                s.version()
                s.close()
    assert verdicts[0] == verdicts[1] == verdicts[2]
    newest = ScriptDirectory.from_config(alembic_config()).get_current_head()
    with Database(f'sqlite:///{tmp_path}/arena.db') as database:
        assert database.version() == newest
