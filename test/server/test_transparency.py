"""The log of what counts: RFC 6962's hashes, proofs, and an offline check that sees any change."""

import contextlib
import copy
import dataclasses
import json
from concurrent.futures import ThreadPoolExecutor

import pytest
import sqlalchemy as sa
from arena_setting import STATION, Setting, run

from arena_robot.cli.main import main
from arena_robot.core.clock import SystemClock
from arena_robot.core.errors import DataError, ServerError, Unauthorised
from arena_robot.core.pair import canonical, commitment
from arena_robot.ranking.standings import as_json
from arena_robot.records.session_file import SessionFile
from arena_robot.server.client import Calls, RemoteArena, ServerAddress
from arena_robot.server.proto import arena_server_pb2 as pb
from arena_robot.server.transparency.keys import LogKey
from arena_robot.server.transparency.log import correction_entry
from arena_robot.server.transparency.merkle import (
    MerkleTree,
    leaf_hash,
    node_hash,
    root_of_inclusion,
)
from arena_robot.server.transparency.verify import check_bundle
from arena_robot.session.arena.contract import PROMPT
from arena_robot.web.site.downloads import LogBundle, standings_of


def bundle(setting):
    values = setting.server.log.bundle()
    values['standings'] = as_json(setting.server.results.standings('bt')[0])
    return json.loads(json.dumps(values))


@pytest.fixture(scope='module')
def made(tmp_path_factory, pool):
    """A server with four sessions, the head after two of them, and all receipts."""
    folder = tmp_path_factory.mktemp('log')
    setting = Setting(folder / 'server', '', pool)
    arena = setting.arena()
    setting.records = records_of(arena)
    sessions = [run(arena, folder) for _ in range(2)]
    setting.old_head = setting.server.log.head().plain()
    sessions += [run(arena, folder) for _ in range(2)]
    setting.receipts = [json.loads(arena.reveal(session_id).receipt) for session_id in sessions]
    setting.sessions = sessions
    yield setting
    setting.close()


def test_a_leaderboard_is_checked_from_log_commitments_and_reveals(made):
    key = LogKey(made.config.data / 'log.key').public
    checked = check_bundle(bundle(made), key, [made.old_head], made.receipts)
    assert (len(checked.comparisons), checked.receipts, checked.heads) == (4, 4, 1)
    assert [c.session_id for c in checked.comparisons] == [
        c.session_id for c in made.server.results.comparisons()]
    assert checked.origins == {'relayed': 4}
    assert oct((made.config.data / 'log.key').stat().st_mode & 0o777) == '0o600'


def records_of(arena):
    """Return a list to which each session is added as its station's session.json has it."""
    kept, assign, feedback = [], arena.assign, arena.feedback

    def assigned(station, evaluator, prompt):
        pair = assign(station, evaluator, prompt)
        kept.append(SessionFile(pair.session_id, commitment=pair.commitment, prompt=prompt,
                                promises=(pair.promise,)))
        return pair

    def judged(session_id, verdict):
        promise = feedback(session_id, verdict)
        kept[-1] = dataclasses.replace(kept[-1], verdict=verdict,
                                       promises=(*kept[-1].promises, promise))
        return promise
    arena.assign, arena.feedback = assigned, judged
    return kept


def entries(values, change):
    """Change every entry, and sign the log anew as a maintainer can."""
    changed = [json.loads(entry) for entry in values['entries']]
    for entry in changed:
        change(entry)
    values['entries'] = [canonical(entry) for entry in changed]


def recounted(values, setting):
    """Sign the log anew, with the standings that follow from it."""
    resigned(values, setting)
    values['standings'] = standings_of(values)


def flipped(values, setting):
    opposite = {'A': 'B', 'B': 'A', 'TIE': 'TIE'}
    entries(values, lambda entry: entry['verdict'].update(
        preference=opposite[entry['verdict']['preference']]))
    recounted(values, setting)


def on_probation(values, setting):
    entries(values, lambda entry: entry.update(probation=True))
    resigned(values, setting)


def another_prompt(values, setting):
    entries(values, lambda entry: entry.update(prompt='another task'))
    recounted(values, setting)


def left_out(values, setting):
    del values['entries'][1]
    recounted(values, setting)


def name_twice(values, setting):
    values['entries'][0] = values['entries'][0].replace(
        '{', '{"probation":true,', 1)
    resigned(values, setting)


def out_of_the_ranking(values, setting):
    entries(values, lambda entry: entry.update(origin='local study'))
    values['standings'] = {}
    resigned(values, setting)


def withdrawn_before(values, setting):
    name = json.loads(values['entries'][1])['session']
    values['entries'].insert(1, correction_entry(name, 'maya', 'x', True, 1))
    resigned(values, setting)


@pytest.mark.parametrize(('change', 'words'), [
    (on_probation, 'does not fit its commitment'), (name_twice, 'not canonical'),
    (withdrawn_before, 'was not entered before'),
    (out_of_the_ranking, 'passed this server.s relay, and the log calls it one of a local')])
def test_a_log_that_its_maintainer_wrote_anew_is_refused_by_itself(made, change, words):
    values = copy.deepcopy(bundle(made))
    change(values, made)
    with pytest.raises(DataError, match=words):
        check_bundle(values)


@pytest.mark.parametrize(('change', 'words'), [
    (flipped, r'signed at .* \(verdict\) another'), (another_prompt, 'has another prompt')])
def test_a_station_shows_that_its_sessions_were_changed(made, change, words):
    """The maintainer has the key and signs all anew; what the station kept does not fit."""
    values = copy.deepcopy(bundle(made))
    assert check_bundle(values, sessions=made.records).omitted == ()
    change(values, made)
    assert check_bundle(values).method == 'bt_shrunk'
    with pytest.raises(DataError, match=words):
        check_bundle(values, sessions=made.records)
    unsigned = [dataclasses.replace(record, promises=()) for record in made.records]
    with pytest.raises(DataError, match='than the station sent'):
        check_bundle(values, sessions=unsigned)


def test_a_verdict_that_the_server_took_and_left_out_is_shown(made):
    values = copy.deepcopy(bundle(made))
    left_out(values, made)
    [(session, time_ns)] = check_bundle(values, sessions=made.records).omitted
    assert (session, time_ns) == (made.sessions[1],
                                  made.server.sessions.get(made.sessions[1]).ended_ns)
    forged = dataclasses.replace(made.records[1], promises=(
        made.records[1].promises[1].replace('"time_ns":1', '"time_ns":2'),))
    with pytest.raises(DataError, match='signature is wrong'):
        check_bundle(values, sessions=[forged])


def test_losses_of_policies_that_had_counted_are_shown_when_they_are_left_out(made):
    """A probation that the draw did not promise is refused; one that it did is shown."""
    values = copy.deepcopy(bundle(made))
    entered = [json.loads(entry) for entry in values['entries']]
    last = max(entered, key=lambda entry: entry['created_ns'])
    shown = values['reveals'][last['session']]
    shown['probation'] = last['probation'] = True
    last['commitment'] = commitment(shown['nonce'], shown['policy_a'], shown['policy_b'], True)
    values['entries'] = [canonical(entry) for entry in entered]
    recounted(values, made)
    assert check_bundle(values).late_probation == (last['session'],)
    with pytest.raises(DataError, match=r'\(draw\) another'):
        check_bundle(values, sessions=made.records)


def test_a_station_stays_with_the_key_of_its_server(made, tmp_path):
    address = ServerAddress(made.target, made.tokens['station'])
    keys = tmp_path / 'arena' / 'keys.json'
    with contextlib.closing(RemoteArena(address, SystemClock(), keys=keys)) as arena:
        arena.sign_in(made.tokens['ada'])
        session = arena.assign(STATION, 'ada', PROMPT).session_id
        arena.abort(session, 'only the key was asked for')
        public = LogKey(made.config.data / 'log.key').public
        assert json.loads(keys.read_text()) == {made.target: public}
        assert arena._objection(json.dumps(made.receipts[0])) == ''
        assert 'does not fit its own head' in arena._objection(json.dumps(
            {**made.receipts[0], 'entry': '{}'}))
        keys.write_text(json.dumps({made.target: '0' * 64}))
        assert 'signs its log with the key' in arena._objection(json.dumps(made.receipts[0]))
        with pytest.raises(ServerError, match='signs its log with the key'):
            arena.assign(STATION, 'ada', PROMPT)


def deleted(values, setting):
    """The maintainer takes a session out and signs the rest anew."""
    del values['entries'][1]
    values['standings'] = {}
    resigned(values, setting)


def rewritten(values, setting):
    entry = json.loads(values['entries'][0])
    entry['verdict']['preference'] = 'TIE'
    values['entries'][0] = canonical(entry)
    values['standings'] = {}
    resigned(values, setting)


def resigned(values, setting):
    tree = MerkleTree([leaf_hash(body.encode()) for body in values['entries']])
    head = LogKey(setting.config.data / 'log.key').sign(len(tree), tree.root(), 1)
    values['head'] = head.plain()


def cut_short(values, setting):
    del values['entries'][-1]


def withheld(values, setting):
    values['reveals'].popitem()


def swapped(values, setting):
    for reveal in values['reveals'].values():
        reveal['policy_a'], reveal['policy_b'] = reveal['policy_b'], reveal['policy_a']


def praised(values, setting):
    values['standings']['standings'][0]['score'] += 1.0


def entered_twice(values, setting):
    values['entries'] += [values['entries'][0]] * 2
    resigned(values, setting)


def without_standings(values, setting):
    del values['standings']


def empty_standings(values, setting):
    values['standings'] = {}


def not_a_number(values, setting):
    values['standings']['standings'][0]['score'] = float('nan')


def null_score(values, setting):
    values['standings']['standings'][0]['score'] = None


def no_count(values, setting):
    del values['standings']['standings'][0]['n']


def listed_twice(values, setting):
    best = values['standings']['standings'][0]
    values['standings']['standings'].insert(0, {**best, 'score': best['score'] + 1.0})


def foreign_method(values, setting):
    values['standings']['method'] = 'json:tool'


def standings_of_text(values, setting):
    values['standings'] = 'fine'


def unsigned(values, setting):
    values['head']['time_ns'] += 1


@pytest.mark.parametrize(('change', 'words'), [
    (deleted, 'removed or changed since'), (rewritten, 'removed or changed since'),
    (cut_short, 'of another log'), (withheld, 'not revealed'),
    (swapped, 'does not fit its commitment'), (praised, 'the log gives'),
    (unsigned, 'signature of the head is wrong'), (entered_twice, 'is entered twice, as 0 and 4'),
    (without_standings, 'has no standings, and 4'), (empty_standings, 'has no standings, and 4'),
    (not_a_number, 'a score of nan'), (null_score, 'a score of nan'),
    (no_count, 'standings cannot be read'), (standings_of_text, 'standings cannot be read'),
    (listed_twice, 'names a policy twice'), (foreign_method, 'is not the name of a')])
def test_any_change_is_seen(made, change, words):
    values = copy.deepcopy(bundle(made))
    change(values, made)
    with pytest.raises(DataError, match=words):
        check_bundle(values, '', [made.old_head])


@pytest.mark.parametrize('change', [deleted, rewritten])
def test_a_receipt_alone_shows_that_a_session_was_removed(made, change):
    values = copy.deepcopy(bundle(made))
    change(values, made)
    with pytest.raises(DataError):
        check_bundle(values, '', (), made.receipts)


def test_a_log_under_another_key_is_refused(made):
    with pytest.raises(DataError, match='signed with the key'):
        check_bundle(bundle(made), '0' * 64)


def test_the_verb_says_what_is_proven(made, tmp_path, capsys):
    (tmp_path / 'log.json').write_text(json.dumps(bundle(made)))
    (tmp_path / 'head.json').write_text(json.dumps(made.old_head))
    folder = tmp_path / 'sessions' / 'one'
    folder.mkdir(parents=True)
    (folder / 'receipt.json').write_text(json.dumps(made.receipts[0]))
    command = ['results', 'verify', str(tmp_path / 'log.json'), '--head',
               str(tmp_path / 'head.json'), '--receipts', str(tmp_path / 'sessions')]
    assert main(command) == 0
    said = capsys.readouterr().out
    assert '4 comparisons count' in said
    assert 'standings (bt) follow from the log' in said
    (tmp_path / 'log.json').write_text('[]')
    assert main(command) == 2


def test_entries_cannot_be_changed_or_deleted_in_the_database(setting, folder):
    run(setting.arena(), folder)
    for statement in ("UPDATE log SET body = ''", 'DELETE FROM log'):
        with pytest.raises(sa.exc.DBAPIError, match='append-only'), \
                setting.server.database.write() as connection:
            connection.execute(sa.text(statement))


def test_a_correction_is_appended_and_a_withdrawn_session_counts_no_longer(setting, folder):
    arena = setting.arena()
    session_id = run(arena, folder)
    for who in ('owner', 'station'):
        with pytest.raises(Unauthorised):
            setting.calls(who)('Correct', pb.CorrectionRequest(session_id=session_id, text='x'))
    calls: Calls = setting.calls('ada')
    calls('Correct', pb.CorrectionRequest(session_id=session_id, text='the cup was blue'))
    assert len(setting.server.results.comparisons()) == 1
    setting.calls('maintainer')('Correct', pb.CorrectionRequest(
        session_id=session_id, text='wrong robot', withdraw=True))
    assert setting.server.results.comparisons() == []
    assert arena.standing(session_id) == (False, 'the session was withdrawn')
    checked = check_bundle(setting.server.log.bundle())
    assert (checked.head.size, checked.comparisons, checked.withdrawn) == (3, (), 1)
    assert checked.method == '', 'no standings were checked'


@pytest.mark.parametrize('asks_for_the_names', [True, False])
def test_only_a_maintainer_withdraws_what_counts(setting, folder, asks_for_the_names):
    """An evaluator who never asks can read the names of what counts on the site."""
    arena = setting.arena()
    session_id = run(arena, folder)
    if asks_for_the_names:
        arena.reveal(session_id)
    ada: Calls = setting.calls('ada')
    with pytest.raises(Unauthorised, match='only a maintainer withdraws'):
        ada('Correct', pb.CorrectionRequest(session_id=session_id, text='lost', withdraw=True))
    assert arena.standing(session_id) == (True, '')
    ada('Correct', pb.CorrectionRequest(session_id=session_id, text='the cup was blue'))
    setting.calls('maintainer')('Correct', pb.CorrectionRequest(
        session_id=session_id, text='wrong robot', withdraw=True))
    assert arena.standing(session_id) == (False, 'the session was withdrawn')


def test_what_is_imported_is_entered_as_such(setting, tmp_path):
    from roboarena_tables import load
    from test_exchange import write
    load(setting.server.database, write(tmp_path))
    setting.server.acceptance.consider_all()
    assert setting.server.log.size() == 2
    setting.server.acceptance.consider_all()
    checked = check_bundle(bundle(setting))
    assert checked.origins == {'imported': 2}
    assert len(checked.comparisons) == len(setting.server.results.comparisons()) == 2


def test_a_bundle_holds_the_standings_of_its_own_entries(setting, tmp_path):
    from roboarena_tables import load
    from test_exchange import write
    load(setting.server.database, write(tmp_path))
    setting.server.results.forget()
    kept = LogBundle(setting.server.log)
    assert json.loads(kept.body())['standings'] == {}, 'they count, and have no entries yet'
    assert check_bundle(json.loads(kept.body())).comparisons == ()
    setting.server.acceptance.consider_all()
    checked = check_bundle(json.loads(kept.body()))
    assert (len(checked.comparisons), checked.method) == (2, 'bt_shrunk')


def test_everything_imported_is_entered_at_once(setting, tmp_path, monkeypatch):
    from roboarena_tables import load
    from test_exchange import write
    monkeypatch.setattr('arena_robot.server.store.verdicts.BATCH', 1)
    load(setting.server.database, write(tmp_path))
    setting.server.acceptance.consider_all()
    assert setting.server.log.size() == 2


def test_the_bundle_is_made_once_for_each_size_of_the_log(made, monkeypatch):
    made_here = []
    monkeypatch.setattr('arena_robot.web.site.downloads.standings_of',
                        lambda values: made_here.append(values) or {})
    kept = LogBundle(made.server.log)
    with ThreadPoolExecutor(8) as pool:
        bodies = set(pool.map(lambda _: kept.body(), range(24)))
    assert (len(bodies), len(made_here)) == (1, 1)


def test_an_import_and_a_start_enter_what_counts(tmp_path):
    from roboarena_tables import load
    from test_exchange import write

    from arena_robot.core.clock import SystemClock
    from arena_robot.server.app import ArenaServer
    from arena_robot.server.config import ServerConfig
    from arena_robot.server.store.database import Database
    from arena_robot.server.store.log import size
    data = tmp_path / 'data'
    assert main(['episode', 'import', str(write(tmp_path)), '--output', str(tmp_path / 'out'),
                 '--server-data', str(data)]) == 0
    config = ServerConfig(data=data, port=0, site_port=-1, probe_period_s=3600.0)
    with Database(config.database_url()) as database, database.read() as connection:
        assert size(connection) == 2
    config = ServerConfig(data=tmp_path / 'other', port=0, site_port=-1, probe_period_s=3600.0)
    config.data.mkdir()
    with Database(config.database_url()) as database:
        load(database, tmp_path)
    server = ArenaServer(config, SystemClock(), lambda a: '', lambda a: '')
    server._housekeeping.open = lambda: None
    with server:
        assert server.log.size() == 2


# The leaves of Certificate Transparency's own tests, and their root.
LEAVES = [bytes.fromhex(text) for text in (
    '', '00', '10', '2021', '3031', '40414243', '5051525354555657',
    '606162636465666768696a6b6c6d6e6f')]
ROOT = '5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328'


def test_the_root_is_that_of_certificate_transparency():
    assert MerkleTree([leaf_hash(leaf) for leaf in LEAVES]).root().hex() == ROOT


def is_consistent(old, new, old_root, new_root, path):
    """Tell whether a proof shows that the log of ``new`` entries only added to that of ``old``."""
    if old == new:
        return not path and old_root == new_root
    if not 0 < old < new or not path:
        return False
    hashes = list(path) if old & (old - 1) else [old_root, *path]
    place, last = old - 1, new - 1
    while place % 2:
        place, last = place >> 1, last >> 1
    first = second = hashes[0]
    for node in hashes[1:]:
        if last == 0:
            return False
        if place % 2 or place == last:
            first, second = node_hash(node, first), node_hash(node, second)
            while place % 2 == 0 and place:
                place, last = place >> 1, last >> 1
        else:
            second = node_hash(second, node)
        place, last = place >> 1, last >> 1
    return last == 0 and first == old_root and second == new_root


def test_every_proof_holds_and_no_other():
    leaves = [leaf_hash(bytes([k])) for k in range(40)]
    tree = MerkleTree(leaves)
    for size in range(1, 41):
        root = tree.root(size)
        assert root == MerkleTree(leaves[:size]).root()
        for number in range(size):
            path = tree.inclusion(number, size)
            assert root_of_inclusion(leaves[number], number, size, path) == root
            assert root_of_inclusion(leaves[number - 1], number, size, path) != root or size == 1
        for old in range(1, size + 1):
            path = tree.consistency(old, size)
            assert is_consistent(old, size, tree.root(old), root, path)
            assert not is_consistent(old, size, bytes(32), root, path)
            if path:
                assert not is_consistent(old, size, tree.root(old), root, path[:-1])
