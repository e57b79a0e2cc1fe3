"""The site with many sessions, as bench_server.py measures it."""

import json
import os
import time
from pathlib import Path

import httpx
import numpy as np
import sqlalchemy as sa

from arena_robot.core.clock import SystemClock
from arena_robot.core.task_categories import CATEGORIES
from arena_robot.core.verdict import from_plain, to_plain
from arena_robot.ranking.methods import METHODS
from arena_robot.reports.policy_report.statements import (
    SECTIONS,
    CheckCounts,
    Citation,
    PolicyReport,
    ReportSection,
    Statement,
    report_to_json,
)
from arena_robot.server.store import log
from arena_robot.server.store.database import Database
from arena_robot.server.store.reports import Reports
from arena_robot.server.store.schema import accounts, policies, sessions, stations

FIRST_NS, APART_NS = 1_750_000_000 * 10**9, 300 * 10**9    # 100 000 sessions in a year
LIMITS = {'assignment p99': 100.0, 'relay overhead p50': 2.0, 'relay overhead p99': 10.0,
          'site p95': 100.0, 'snapshot to leaderboard': 5.0}


def fill(folder, count):
    """Add synthetic finished sessions straight to the database."""
    rng = np.random.default_rng(0)
    words = ('put the cup on the plate', 'open the drawer', 'stack the blocks', 'press the button')
    with Database(f'sqlite:///{folder}/arena.db') as database, database.write() as connection:
        station = connection.execute(sa.select(stations.c.id)).scalars().first()
        base = dict(connection.execute(sa.select(policies)).mappings().first())
        base.pop('id')
        connection.execute(sa.insert(policies), [
            {**base, 'name': f'policy-{k:02}', 'state': 'retired'} for k in range(20)])
        person = dict(connection.execute(sa.select(accounts)).mappings().first())
        person.pop('id')
        connection.execute(sa.insert(accounts), [
            {**person, 'name': f'person {k}', 'person': f'person {k}'} for k in range(200)])
        people = connection.execute(sa.select(accounts.c.id).where(
            accounts.c.name.like('person %'))).scalars().all()
        numbers = connection.execute(sa.select(policies.c.id).where(
            policies.c.state == 'retired')).scalars().all()
        rows = []
        for k in range(count):
            a, b = rng.choice(len(numbers), 2, replace=False)
            win = rng.random() < 1 / (1 + np.exp(-(a - b) / 8))
            rows.append({
                'id': f'{k:036}', 'request': f'fill:{k}', 'station_id': station,
                'evaluator_id': people[k % 200], 'institution': f'lab {k % 12}', 'state': 'done',
                'prompt': f'{words[k % 4]} number {k % 997}', 'category': CATEGORIES[k % 9],
                'policy_a_id': numbers[a], 'policy_b_id': numbers[b], 'probation': False,
                'token_a': f'fill:{k}:a', 'token_b': f'fill:{k}:b', 'rollouts': 2,
                **dict.fromkeys(('created_ns', 'seen_ns', 'ended_ns', 'accepted_ns'),
                                 FIRST_NS + k * APART_NS),
                'revealed_ns': k, 'imported': True,
                **to_plain(from_plain({
                    'preference': 'TIE' if k % 7 == 0 else 'A' if win else 'B', 'valid': True,
                    'progress_a': 0.5, 'progress_b': 0.25, 'explanation': 'it was better'})),
                **dict.fromkeys(('incomplete', 'conflict', 'nonce', 'commitment'), '')})
        for start_row in range(0, count, 5000):
            connection.execute(sa.insert(sessions), rows[start_row:start_row + 5000])
        log.append(connection, [(row['id'], '{"kind": "session"}') for row in rows], 0)


def keep_reports(folder, sessions_each=400):
    """Keep a report on two policies, as long as one of 400 real sessions."""
    cited = iter(range(10**6))
    sections = tuple(ReportSection(title, tuple(
        Statement(f'{title}, statement {k}: it did what was asked.', citations=tuple(
            Citation(f'{next(cited) % 99_000:036}', 'it was better', 1.5) for _ in range(4)))
        for k in range(8))) for title in SECTIONS)
    with Database(f'sqlite:///{folder}/arena.db') as database:
        for name in ('policy-03', 'policy-03', 'policy-04'):
            Reports(database, SystemClock()).add(name, sessions_each, 'statistics', json.dumps(
                report_to_json(PolicyReport(name, '2026-01-01', sessions_each, sections,
                                            CheckCounts(citations=288)))))


def processor_s(pid):
    """Return the processor time of a process so far, its threads together."""
    fields = Path(f'/proc/{pid}/stat').read_text().rsplit(')', 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf('SC_CLK_TCK')


AFTER_S = 20.0    # the least time, for enough answers of each page
PAGES = (
    '/', '/?method=davidson', '/?open_source=true', '/matrix', '/policies', '/policies/policy-03',
    '/policies/policy-03/reports/1', '/policies/policy-03/reports/2/changes?since=1',
    '/policies/policy-03/reports/1/report.md', '/reports/versus?a=policy-03&b=policy-04',
    '/versus', '/versus?a=policy-03&b=policy-04', '/versus?a=policy-19&b=policy-00',
    '/by/category', '/by/institution', '/categories/find-search', '/history', '/audit', '/data',
    '/rules', '/about', '/api', '/owner', '/admin', '/feed.xml',
    '/evaluations', '/evaluations?text=drawer', '/evaluations?text=number+996',
    '/evaluations?policy=policy-03&outcome=A', '/evaluations?text=nothing+like+this',
    '/evaluations?institution=lab+3&category=Find+%2F+Search', f'/evaluations/{5:036}',
    f'/evaluations?before={FIRST_NS + 50_000 * APART_NS}_',
    '/plots/standings.svg', '/plots/matrix.svg', '/plots/history.svg', '/plots/by/category.svg',
    '/plots/versus.svg?a=policy-03&b=policy-04', '/card.png', '/card/policy-03.png',
    '/badge/policy-03.svg', '/api/standings', '/api/matrix', '/api/rules', '/api/policies',
    '/api/policies/policy-03', '/api/policies/policy-03/reports/1',
    '/api/policies/policy-03/audit', '/api/history', '/api/audit', '/api/by/category',
    '/api/evaluations?limit=100', f'/api/evaluations/{5:036}',
    '/api/log/head', '/api/log/entries?start=0', '/api/releases')


def ready(client, path, wait_s=300.0):
    """
    Ask for a page until it is there; return the seconds of the first answer.

    A picture of what was empty until now is refused for a moment, and who is the first to ask for
    what takes long is told to ask again.
    """
    began_s, first_s = time.perf_counter(), 0.0
    while True:
        answer = client.get(path)
        first_s = first_s or time.perf_counter() - began_s
        if answer.status_code not in (409, 503) or time.perf_counter() > began_s + wait_s:
            answer.raise_for_status()
            return first_s
        time.sleep(0.1)


def rested(pid, apart_s=1.0):
    """Wait until a server has nothing left to compute."""
    before, now = -1.0, processor_s(pid)
    while now - before > 0.1 * apart_s:
        time.sleep(apart_s)
        before, now = now, processor_s(pid)


def pages(address, rounds, pid):
    """Seconds of page loads, first ones and others, of each page, with its processor time."""
    spent, busy = {path: [] for path in PAGES}, dict.fromkeys(PAGES, 0.0)
    with httpx.Client(base_url=address, timeout=120.0) as client:
        first = {path: [ready(client, path)] for path in PAGES}
        rested(pid)
        for path in PAGES:
            before = processor_s(pid)
            for _ in range(rounds):
                started = time.perf_counter()
                client.get(path).raise_for_status()
                spent[path].append(time.perf_counter() - started)
            busy[path] = (processor_s(pid) - before) / rounds
    return first, spent, busy


def methods(address, slow='hierarchical', longest_s=900.0):
    """Seconds until who asks first for each method is answered, and until a slow one is there."""
    first = {}
    with httpx.Client(base_url=address, timeout=120.0) as client:
        began_s = time.perf_counter()
        first[f'/?method={slow}, first'] = [ready(client, f'/?method={slow}', longest_s)]
        there_s = time.perf_counter() - began_s
        for name, row in METHODS.rows().items():
            if row.on_site:
                began_s = time.perf_counter()
                client.get(f'/?method={name}')
                first[f'/?method={name}'] = [time.perf_counter() - began_s]
    return first, there_s


def add_verdict(folder, number):
    """Add one more finished session, as a server's own verdict would be."""
    with Database(f'sqlite:///{folder}/arena.db') as database, database.write() as connection:
        row = dict(connection.execute(sa.select(sessions).where(
            sessions.c.id == f'{0:036}')).mappings().one())
        names = {name: f'more:{number}:{name}' for name in ('request', 'token_a', 'token_b')}
        connection.execute(sa.insert(sessions), [{
            **row, **names, 'id': f'more{number:032}', 'accepted_ns': time.time_ns()}])
        log.append(connection, [(f'more{number:032}', '{}')], 0)


def after_verdict(address, folder, count):
    """Seconds of every page while new results are computed, and until the verdict is in them."""
    spent, number = {path: [] for path in PAGES}, 0
    with httpx.Client(base_url=address, timeout=120.0) as client:
        add_verdict(folder, number)
        added, shown = time.perf_counter(), None
        while shown is None or time.perf_counter() - added < max(2 * shown, AFTER_S):
            for path in PAGES:
                started = time.perf_counter()
                page = client.get(path).raise_for_status().text
                spent[path].append(time.perf_counter() - started)
                if path == '/' and shown is None and f'Results of {count + 1} verdicts' in page:
                    shown = time.perf_counter() - added
    return spent, shown


def line(what, value, unit, limit=None):
    mark = '' if limit is None else (
        f'limit {limit:g} {unit}: {"met" if value <= limit else "MISSED"}')
    print(f'{what:34} {value:10.2f} {unit:5} {mark}', flush=True)


def site(args, folder, address, pid):
    fill(folder, args.sessions)
    keep_reports(folder)
    started = time.perf_counter()
    while f'Results of {args.sessions} verdicts' not in httpx.get(address, timeout=600.0).text:
        time.sleep(0.05)
    line(f'first standings of {args.sessions}', time.perf_counter() - started, 's')
    first, spent, busy = pages(address, 20, pid)
    for path, its in spent.items():
        print(f'{1e3 * float(np.percentile(its, 95)):9.1f} ms p95 {1e3 * busy[path]:8.1f} ms '
              f'processor  {path}')
    told(spent, 'site p95')
    line('processor, slowest page', 1e3 * max(busy.values()), 'ms')
    slow, there = methods(address)
    for path, its in {**first, **slow}.items():
        print(f'{1e3 * its[0]:9.1f} ms for who is the first to ask  {path}')
    told({**first, **slow}, 'first to ask, p95')
    line('hierarchical is there after', there, 's')
    spent, shown = after_verdict(address, folder, args.sessions)
    line('a verdict is on the page after', shown, 's')
    for path, its in spent.items():
        print(f'{1e3 * max(its):9.1f} ms at most, {len(its)} times after a verdict  {path}')
    told(spent, 'after a verdict, p95')


def told(spent, what):
    """Print the p95 of all pages, and of the slowest."""
    every, slow = np.concatenate(list(spent.values())), max(
        float(np.percentile(its, 95)) for its in spent.values())
    line(f'{what}, all pages', 1e3 * float(np.percentile(every, 95)), 'ms', LIMITS['site p95'])
    line(f'{what}, slowest page', 1e3 * slow, 'ms', LIMITS['site p95'])
