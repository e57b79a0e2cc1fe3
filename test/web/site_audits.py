"""Audits of two sessions of a site, and what its pages then say of them."""

import re
from dataclasses import replace

import numpy as np

from arena_robot.records.audit_file import EpisodeAudit, read_audit, write_audit


def write_audits(made):
    """Audit two sessions of a place: against the evaluator, and with him."""
    blobs = made.server.blobs
    for number, ends in ((3, (0.2, 0.9)), (4, (0.1, 0.8))):
        for slot, end in zip('AB', ends, strict=True):
            folder = blobs.local_path(f'{made.sessions[number]}/{slot}/x').parent
            write_audit(folder, EpisodeAudit(
                'x', 'fine', 'm', 'ok', 'paper', 0.005, 1e-8, times_s=tuple(np.arange(8.0)),
                phi=(0.0, 0.5, end, 0.2, 0.2, 0.2, 0.2, end), interval_s=1.0,
                metrics={'mp': max(0.5, end), 'ppl': end / 2, 'cra': 0.1, 'str': 0.4}))
    for slot in 'AB':
        folder = blobs.local_path(f'{made.sessions[3]}/{slot}/x').parent
        write_audit(folder, replace(read_audit(folder / 'audit' / 'fine.json'), judge='local'))


def words_of(page):
    """Return the words of a page without its tags."""
    return re.sub(r'\s+', ' ', re.sub('<[^>]+>', ' ', page))


def audits_are_shown(place):
    """Check the pages of a place that has the audits."""
    page = words_of(place.get(f'/evaluations/{place.sessions[3]}').text)
    assert 'Local, STR: the judge looks at the arm' in page
    assert 'Fine, STR' not in page
    assert 'Local agrees' not in page
    assert 'Local prefers' not in page
    assert '25 % at 1.0 s, 50 % at 1.0 s, 75 % at 2.0 s' in page
    assert '3.0 to 6.0 s' in page
    assert 'prefers B, against the evaluator' in page
    assert 'Fine agrees with the preference' in words_of(
        place.get(f'/evaluations/{place.sessions[4]}').text)
    picture = place.get(f'/plots/evaluations/{place.sessions[3]}.svg').text
    assert picture.count('class="mark fall') + picture.count('class="mark still') >= 3
    audit, local = place.get('/api/audit').json()
    assert (local['judge'], local['audited'], local['decisive'], local['against']) == (
        'local', 1, 0, [])
    assert 'arm' in local['untrusted']
    assert not audit['untrusted']
    assert (audit['judge'], audit['audited'], audit['agree'], audit['decisive']) == (
        'fine', 2, 1, 2)
    assert [session['session'] for session in audit['against']] == [place.sessions[3]]
    assert audit['institutions'] == [{'name': 'nyu', 'agree': 1, 'decisive': 2}]
    listed = place.get('/audit').text
    assert 'No evaluator is judged by it: the judge looks at the arm' in listed
    assert 'agree in <b>50 %</b> of 2 decisive' in listed
    assert f'/evaluations/{place.sessions[3]}' in listed
    profile, refused = place.get('/api/policies/crimson-7b/audit').json()
    assert [row[0] for row in profile['rows']][:1] == ['all']
    assert profile['rows'][0][2] == 2
    assert 'arm' in refused['refused']['str']
    assert profile['refused'] == {}
    policy = words_of(place.get('/policies/crimson-7b').text)
    assert 'Audit by the judge fine' in policy
    assert 'STR is not computed for some: the judge looks at the arm' in policy
    assert place.get('/api/policies/nobody/audit').json() == []
