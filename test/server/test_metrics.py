"""The metrics page, and the bounded audit log that it counts."""

import contextlib
import json
import socket

import httpx
import pytest
from arena_setting import STATION, Setting, run
from prometheus_client.parser import text_string_to_metric_families

from arena_robot.cli.main import main
from arena_robot.core.clock import ManualClock
from arena_robot.core.errors import ConfigError, DataError, Unauthorised
from arena_robot.server.access.call_guard import BoundedAudit
from arena_robot.server.access.rates import RateLimit
from arena_robot.server.base import PolicyState, TooManyCalls
from arena_robot.server.config import Approval, ServerLimits
from arena_robot.server.counters import MOST_ROWS, Counters
from arena_robot.server.proto import arena_server_pb2 as pb
from arena_robot.server.store.audit import Audit
from arena_robot.server.store.sessions import hide_texts
from arena_robot.session.arena.contract import PROMPT, VERDICT


@pytest.fixture(scope='module')
def setting(tmp_path_factory, pool):
    made = Setting(tmp_path_factory.mktemp('server'), '', pool, metrics_port=0,
                   limits=ServerLimits(audit_lines_per_s=1e-9, audit_burst=30))
    yield made
    made.close()


def read(setting):
    text = httpx.get(f'http://127.0.0.1:{setting.server.metrics_port}/metrics').text
    return text, {(sample.name, *sorted(sample.labels.values())): sample.value
                  for family in text_string_to_metric_families(text)
                  for sample in family.samples}


def test_the_page_counts_calls_and_names_nobody(setting, tmp_path):
    arena = setting.arena()
    run(arena, tmp_path)
    arena.assign(STATION, 'ada', PROMPT)
    with contextlib.suppress(Unauthorised, TooManyCalls):
        setting.calls('arena_wrong')('ListPolicies', pb.Empty())
    text, values = read(setting)
    assert values['arena_calls_total', 'Assign', 'ok'] == 2
    assert values['arena_calls_total', 'Infer', 'ok'] == 4
    assert values['arena_calls_total', 'ListPolicies', 'permission_denied'] == 1
    assert values['arena_refused_total', 'wrong_token'] == 1
    assert values['arena_sessions', 'running'] == 1
    assert values['arena_sessions', 'done'] == 1
    assert values['arena_policies', 'pool'] == 3
    assert values['arena_housekeeper',] == 1
    assert values['arena_call_seconds_count', 'Infer'] == 4
    assert values['arena_audit_lines_total',] > 0
    assert values['process_open_fds',] > 0
    for name in ('crimson', 'azure', 'viridian', 'ada', 'bench', 'nyu'):
        assert name not in text


def test_the_page_is_on_this_machine_alone(setting):
    with socket.create_connection(('127.0.0.1', setting.server.metrics_port)) as line:
        assert line.getpeername()[0] == '127.0.0.1'
    port = setting.server.metrics_port
    with pytest.raises(OSError), socket.create_connection(('127.0.0.2', port), 2.0):
        pass


def test_a_caller_fills_its_share_of_the_audit_log_and_no_more(setting):
    calls = setting.calls('owner')
    before = len(setting.server.audit.lines(1000))
    for _ in range(60):
        with contextlib.suppress(DataError):
            calls('RetirePolicy', pb.NameRequest(name='nothing like this'))
    lines = setting.server.audit.lines(1000)
    assert len(lines) - before <= 30
    assert read(setting)[1]['arena_audit_omitted_total',] >= 30
    for _ in range(3):
        setting.calls('maintainer')('RotateToken', pb.HolderRequest(name='ada'))
    assert len(setting.server.audit.lines(1000)) == len(lines) + 3


def test_the_next_line_says_how_many_were_left_out(database, clock):
    audit, counters, time = Audit(database, clock), Counters(), ManualClock()
    bounded = BoundedAudit(audit, RateLimit(time, 1.0, 2), counters)
    for k in range(5):
        bounded.write('station:bench', 'assign', f'r{k}', 'ok')
    time.advance_ns(10**9)
    bounded.write('station:bench', 'assign', 'r5', 'ok')
    lines = audit.lines()[::-1]
    assert [line.target for line in lines] == ['r0', 'r1', '', 'r5']
    assert '3 lines' in lines[2].detail
    assert counters.count('audit_omitted') == 3


def test_labels_of_strangers_do_not_fill_the_memory():
    counters = Counters()
    for k in range(MOST_ROWS + 100):
        counters.add('calls', str(k))
        counters.took('call', str(k), seconds=0.1)
    assert len(list(counters.counts('calls'))) == MOST_ROWS
    assert len(list(counters.durations('call'))) == MOST_ROWS


def test_a_taken_metrics_port_is_named(tmp_path, pool):
    with socket.create_server(('127.0.0.1', 0)) as taken, \
            pytest.raises(ConfigError, match='metrics'):
        Setting(tmp_path, '', pool, metrics_port=taken.getsockname()[1])


def test_a_maintainer_reads_what_waits_for_a_person(pool, tmp_path, capsys):
    def status(*words):
        code = main(['admin', 'status', '--config', str(config), *words])
        return code, ''.join(capsys.readouterr())

    config = tmp_path / 'server.yaml'
    config.write_text(f'data: {tmp_path}/server\napprove_policies: all\n')
    assert 'there is no database' in status()[1]
    assert not (tmp_path / 'server').exists()
    setting = Setting(tmp_path / 'server', '', pool, approve_policies=Approval.ALL)
    try:
        run(setting.arena(), tmp_path)
        waits = setting.arena().assign(STATION, 'ada', PROMPT).session_id
        setting.arena().feedback(waits, VERDICT)
        server = setting.server
        server.policies.move('viridian', PolicyState.SUSPENDED, 'joint 2 at -36.4')
        server.policies.move('azure-fast', PolicyState.SUBMITTED)
        server.policies.move('azure-fast', PolicyState.PROBATION)
        server.policies.set_health(server.policies.get('crimson-7b').id, False, 'no answer in 5 s')
        server.accounts.rotate(setting.owner, lifetime_s=3600.0)
        hide_texts(server.database, waits, 'maya', 'a name')
        rows = {part: listed(setting, tmp_path, part, capsys) for part in ('accounts', 'stations')}
        code, text = status()
        now = json.loads(status('--json')[1])
    finally:
        setting.close()
    assert code == 0
    assert (now['sessions']['counted'], now['sessions']['incomplete']) == (1, 1)
    assert f'  {waits}  ' in text
    assert 'viridian: suspended (joint 2 at -36.4)' in text
    waiting = next(line for line in text.splitlines() if 'azure-fast' in line)
    assert waiting.endswith('waits for `arena admin policy --approve`')
    assert 'crimson-7b: does not answer (no answer in 5 s)' in text
    assert now['stations'][0]['week'] == 2
    assert now['stations'][0]['seen'][:2] == '20'
    assert [row['holder'] for row in now['expiring']] == ['olga']
    assert now['people'] == {'evaluator': 1, 'maintainer': 1, 'owner': 1}
    assert now['disk']['files'] > 0
    check_lists(rows, now, text, waits)


def check_lists(rows, now, text, waits):
    assert f'{waits}  texts hidden by maya: a name' in text
    assert [row['account'] for row in rows['accounts'][0]] == ['ada', 'maya', 'olga']
    assert rows['stations'][0] == now['stations']
    assert 'ada      nyu          evaluator   ada' in rows['accounts'][1]
    assert rows['stations'][1].splitlines()[1].split()[:4] == ['bench', 'nyu', 'fr3', '2']


def listed(setting, folder, part, capsys):
    """Return what `arena admin accounts` or `stations` lists, as JSON and as a table."""
    token = folder / 'maya.token'
    token.write_text(setting.tokens['maintainer'])
    words = ['admin', part, '--server', setting.target, '--token-file', str(token)]
    assert main([*words, '--json']) == 0
    rows = json.loads(capsys.readouterr().out)
    assert main(words) == 0
    with pytest.raises(Unauthorised, match='overview is for maintainer'):
        setting.calls('ada')('Overview', pb.Empty())
    return rows, capsys.readouterr().out
