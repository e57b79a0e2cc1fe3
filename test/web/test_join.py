"""Signing in on the site, at a provider of the test's own: who comes in, and who does not."""

import base64
import hashlib
import json
import re
import secrets
import time
from dataclasses import replace
from urllib.parse import parse_qs, parse_qsl, urlencode, urlsplit

import httpx
import pytest
from http_server import HttpServer, free_port
from selenium.webdriver.support.ui import WebDriverWait
from test_accessibility import findings, source  # noqa: F401  the fixture

from arena_robot.core.clock import SystemClock
from arena_robot.core.errors import ConfigError
from arena_robot.server.app import ArenaServer
from arena_robot.server.base import Role
from arena_robot.server.config import ServerConfig, ServerLimits, SignIn, SignInProvider
from arena_robot.web.site.serve import SiteServer

pytest.importorskip('authlib', reason='authlib is missing: pip install -r requirements.txt')
from joserfc import jwt
from joserfc.jwk import RSAKey

KEY, STRANGERS_KEY = (RSAKey.generate_key(2048, {'kid': 'one'}) for _ in range(2))
POLICY = {'name': 'violet', 'address': 'grpc://127.0.0.1:9', 'paper': 'https://example.org/p',
          'open_source': 'on'}


def unpadded(data):
    return base64.urlsafe_b64encode(data).rstrip(b'=').decode()


class Provider(HttpServer):
    """OpenID Connect with RS256 and PKCE, and what GitHub has; ``wrong`` changes its claims."""

    def __init__(self):
        super().__init__(self.answered)
        self.codes, self.wrong, self.header = {}, {}, {'alg': 'RS256', 'kid': 'one'}
        self.key, self.subject, self.asked = KEY, '1234', []
        self.email = {'email': 'ada@ethz.ch', 'email_verified': True}

    def respond(self, path, body, headers):
        where, query = urlsplit(path).path, dict(parse_qsl(urlsplit(path).query))
        if where != '/authorize':
            code, data = self.answered(where, dict(parse_qsl(body.decode())))
            return code, {'Content-Type': 'application/json'}, json.dumps(data).encode()
        self.asked.append(query)
        self.codes[code := secrets.token_hex(8)] = query
        back = urlencode({'code': code, 'state': query['state']})
        return 302, {'Location': f"{query['redirect_uri']}?{back}"}, b''

    def answered(self, path, form):
        if path == '/token':
            return self.token(form)
        return 200, {
            '/.well-known/openid-configuration': {
                'issuer': self.url, 'authorization_endpoint': f'{self.url}/authorize',
                'token_endpoint': f'{self.url}/token', 'jwks_uri': f'{self.url}/jwks',
                'id_token_signing_alg_values_supported': ['RS256', 'HS256', 'none']},
            '/jwks': {'keys': [KEY.as_dict(private=False)]},
            '/user': {'id': int(self.subject), 'login': 'ada'},
            '/emails': [{'email': 'x@ethz.ch', 'primary': False, 'verified': True},
                        {'primary': True, 'email': 'ada@ethz.ch',
                         'verified': self.email['email_verified']}]}[path]

    def token(self, form):
        asked = self.codes.pop(form.get('code'), None)
        digest = hashlib.sha256(form.get('code_verifier', '').encode()).digest()
        if asked is None or unpadded(digest) != asked['code_challenge'] \
                or form['redirect_uri'] != asked['redirect_uri']:
            return 400, {'error': 'invalid_grant'}
        claims = {'iss': self.url, 'sub': self.subject, 'aud': 'arena', 'iat': int(time.time()),
                  'exp': int(time.time()) + 300, 'nonce': asked.get('nonce'), **self.email,
                  'preferred_username': 'ada', **self.wrong}
        answer = {'access_token': 'a', 'token_type': 'Bearer'}
        return 200, {**answer, 'id_token': self.signed(claims)} if 'nonce' in asked else answer

    def signed(self, claims):
        if self.header['alg'] == 'RS256':
            return jwt.encode(self.header, claims, self.key)
        head, said = (unpadded(json.dumps(part).encode()) for part in (self.header, claims))
        return f'{head}.{said}.'


class Joined:
    """A server whose site lets people sign in by one provider twice, and as GitHub has it."""

    def __init__(self, folder, provider, **config):
        secret = folder / 'secret'
        secret.write_text('hush\n')
        port = free_port()
        found = f'{provider.url}/.well-known/openid-configuration'
        self.sign_in = SignIn(f'http://127.0.0.1:{port}', (
            SignInProvider('hub', 'arena', secret, found),
            SignInProvider('other', 'arena', secret, found, institution='Other Lab'),
            SignInProvider('github', 'arena', secret, authorise=f'{provider.url}/authorize',
                           token=f'{provider.url}/token', user=f'{provider.url}/user',
                           emails=f'{provider.url}/emails')),
            {'ethz.ch': 'ETH'}, ('hub:666',))
        self.server = ArenaServer(ServerConfig(
            data=folder, port=0, sign_in=self.sign_in, probe_period_s=3600.0, **config),
            SystemClock(), lambda a: '', lambda a: '')
        self.server.open()
        self.web = SiteServer(self.server, '127.0.0.1', port)
        self.web.open()

    def visitor(self):
        return httpx.Client(base_url=self.web.address, follow_redirects=True, timeout=20.0)

    def close(self):
        self.web.close()
        self.server.close()


@pytest.fixture
def provider():
    with Provider() as made:
        yield made


@pytest.fixture
def place(tmp_path, provider):
    made = Joined(tmp_path, provider)
    yield made
    made.close()


@pytest.fixture
def visitor(place):
    with place.visitor() as made:
        yield made


def csrf(page):
    return re.search('name="csrf" value="([^"]+)"', page.text).group(1)


def test_who_signs_in_submits_a_policy_and_gets_a_token(place, visitor, provider):
    asked = visitor.get('/join')
    assert 'href="/join/hub"' in asked.text
    assert 'href="/join"' in visitor.get('/about').text
    page = visitor.get('/join/hub')
    assert (page.status_code, page.url.path) == (200, '/join')
    assert 'ada@hub, ETH' in page.text
    assert {'state', 'nonce', 'code_challenge'} <= provider.asked[0].keys()
    assert provider.asked[0]['code_challenge_method'] == 'S256'
    done = visitor.post('/join/policy', data={**POLICY, 'csrf': csrf(page)})
    assert 'is submitted' in done.text
    record = place.server.policies.get('violet')
    assert (record.open_source, json.loads(record.provenance)) == (
        True, {'paper': 'https://example.org/p'})
    account = place.server.accounts.account('ada@hub')
    assert (account.id, account.person, account.roles) == (
        record.owner_id, 'hub:1234', frozenset({Role.OWNER}))
    first, second = (re.search('<code>(arena_[^<]+)<', visitor.post(
        '/join/token', data={'csrf': csrf(page)}).text).group(1) for _ in range(2))
    assert place.server.accounts.caller(second).name == 'ada@hub'
    with pytest.raises(Exception, match='revoked'):
        place.server.accounts.caller(first)
    assert second not in visitor.get('/join').text
    lines = [(row.actor, row.call, row.target, row.outcome)
             for row in place.server.audit.lines(10)]
    assert ('account:ada@hub', 'register_policy', 'violet', 'ok') in lines
    assert ('account:ada@hub', 'sign_in', 'hub:1234', 'ok') in lines


def test_a_policy_that_is_refused_keeps_the_form(place, visitor):
    page = visitor.get('/join/hub')
    bad = visitor.post('/join/policy', data={**POLICY, 'name': '<b>', 'csrf': csrf(page)})
    assert bad.status_code == 400
    assert 'a policy name has' in bad.text
    assert 'value="https://example.org/p"' in bad.text
    assert '<b>"' not in bad.text


def test_one_subject_of_two_providers_is_two_accounts_and_stays_itself(place, provider):
    names = []
    for name in ('hub', 'other', 'github', 'hub'):
        with place.visitor() as visitor:
            names.append(re.search('class="note">([^<]+)<', visitor.get(f'/join/{name}').text)[1])
    assert names == ['ada@hub, ETH', 'ada@other, Other Lab', 'ada@github, ETH', 'ada@hub, ETH']
    provider.subject, provider.email = '77', {'email': 'ada@ethz.ch', 'email_verified': False}
    for name in ('hub', 'github'):
        with place.visitor() as visitor:
            assert f'ada@{name}-2, unvouched (ada@{name}-2)' in visitor.get(f'/join/{name}').text


@pytest.mark.parametrize('wrong', [
    {'nonce': 'another'}, {'iss': 'https://elsewhere.example'}, {'exp': int(time.time()) - 600},
    {'aud': 'another', 'azp': 'arena'}, {'sub': ''}, {'sub': 'hub 1'}], ids=' and '.join)
def test_a_wrong_claim_is_refused(place, visitor, provider, wrong):
    provider.wrong = wrong
    assert visitor.get('/join/hub').status_code == 403
    assert 'name="csrf"' not in visitor.get('/join').text
    assert not place.server.accounts.names()
    line = place.server.audit.lines(1)[0]
    assert (line.call, line.target, line.outcome) == ('sign_in', 'hub', 'unauthorised')


@pytest.mark.parametrize('how', ['unsigned', 'key of a stranger', 'signed with the secret'])
def test_a_wrong_signature_is_refused(place, visitor, provider, how):
    if how == 'unsigned':
        provider.header = {'alg': 'none'}
    elif how == 'key of a stranger':
        provider.key = STRANGERS_KEY
    else:
        provider.header = {'alg': 'HS256'}
    assert visitor.get('/join/hub').status_code == 403
    assert not place.server.accounts.names()


def come_back(visitor, name='hub'):
    """Return where the provider sends a browser, without going there."""
    at_provider = visitor.get(f'/join/{name}', follow_redirects=False).headers['location']
    return httpx.get(at_provider).headers['location']


def test_a_code_and_a_state_serve_the_browser_that_began_and_once(place, visitor):
    back = come_back(visitor)
    with place.visitor() as other:
        assert other.get(back).status_code == 403, 'another browser'
    guessed = back.replace('state=', 'state=x')
    assert visitor.get(guessed).status_code == 403
    before = dict(visitor.cookies)
    assert visitor.get(back).status_code == 200
    assert visitor.get(back).status_code == 403, 'the same again'
    with place.visitor() as thief:
        thief.cookies.update(before)
        assert thief.get(back).status_code == 403, 'the same with the cookie of then'
    assert visitor.get('/join/hub/back?error=access_denied').status_code == 403


def test_forms_want_the_cookie_and_its_word(place, visitor):
    page = visitor.get('/join/hub')
    for what in ('policy', 'token', 'leave'):
        assert visitor.post(f'/join/{what}', data=POLICY).status_code == 403
        assert visitor.post(f'/join/{what}', data={**POLICY, 'csrf': 'x'}).status_code == 403
        assert httpx.post(f'{place.web.address}/join/{what}', data={
            **POLICY, 'csrf': csrf(page)}).status_code == 403
    assert visitor.post('/join/nothing', data={'csrf': csrf(page)}).status_code == 404
    assert 'Sign in by hub' in visitor.post('/join/leave', data={'csrf': csrf(page)}).text


def test_the_cookie_is_for_this_page_signed_and_ends(place, visitor, provider, monkeypatch):
    begun = visitor.get('/join/hub', follow_redirects=False)
    said = begun.headers['set-cookie'].lower()
    assert all(word in said for word in ('httponly', 'samesite=lax', 'path=/join', 'max-age=3600'))
    assert 'secure' not in said
    assert begun.headers['cache-control'] == 'no-store'
    page = visitor.get(come_back(visitor))
    assert page.headers['cache-control'] == 'no-store'
    assert 'set-cookie' not in visitor.get('/about').headers
    cookie = visitor.cookies['arena_join']
    with place.visitor() as forger:
        forger.cookies.set('arena_join', cookie[:-2] + 'xx', path='/join')
        assert 'Sign in by' in forger.get('/join').text
    now = time.time()
    monkeypatch.setattr(time, 'time', lambda: now + 1800)
    visitor.get('/join/other', follow_redirects=False)
    assert visitor.cookies['arena_join'] != cookie, 'a cookie of now, and of the first sign-in'
    assert 'name="csrf"' in visitor.get('/join').text
    monkeypatch.setattr(time, 'time', lambda: now + 3601)
    assert 'Sign in by' in visitor.get('/join').text
    assert visitor.post('/join/token', data={'csrf': csrf(page)}).status_code == 403


def test_a_site_with_tls_has_a_secure_cookie(tmp_path, provider):
    made = Joined(tmp_path, provider)
    made.web.close()
    made.server.site_calls.config = replace(made.sign_in, address='https://arena.example.org')
    made.web = SiteServer(made.server, '127.0.0.1', 0)
    made.web.open()
    with made.visitor() as visitor:
        begun = visitor.get('/join/hub', follow_redirects=False)
        assert 'secure' in begun.headers['set-cookie'].lower()
        asked = parse_qs(urlsplit(begun.headers['location']).query)
        assert asked['redirect_uri'] == ['https://arena.example.org/join/hub/back']
    made.close()


def test_who_is_barred_or_maintains_does_not_come_in(place, visitor, provider):
    provider.subject = '666'
    assert 'is barred' in visitor.get('/join/hub').text
    assert not place.server.accounts.names(), 'no account is made'
    place.server.accounts.add_account('maya', 'nyu', [Role.MAINTAINER], 'hub:5')
    provider.subject = '5'
    refused = visitor.get('/join/hub')
    assert (refused.status_code, 'account is used with its token' in refused.text) == (403, True)
    place.server.accounts.add_account('hub:6', 'nyu', [Role.EVALUATOR])
    provider.subject = '6'
    assert 'ada@hub, ETH' in visitor.get('/join/hub').text, "not the imported person's account"


def test_rates(tmp_path, provider):
    made = Joined(tmp_path, provider, limits=ServerLimits(
        burst=4, calls_per_s=0.01, unknown_tokens_per_s=0.01))
    with made.visitor() as visitor:
        page = visitor.get('/join/hub')
        answers = [visitor.post('/join/token', data={'csrf': csrf(page)}).status_code
                   for _ in range(5)]
        assert answers == [200] * 4 + [429]
        assert [visitor.get('/join/hub', follow_redirects=False).status_code
                for _ in range(3)] == [302, 302, 429]
    made.close()


def test_nobody_signs_in_where_none_is_configured(tmp_path):
    with ArenaServer(ServerConfig(data=tmp_path, port=0), SystemClock(), lambda a: '',
                     lambda a: '') as server, SiteServer(server, '127.0.0.1', 0) as web:
        for path in ('/join', '/join/hub', '/join/hub/back'):
            assert httpx.get(web.address + path).status_code == 404
        assert httpx.post(f'{web.address}/join/token').status_code == 404
        assert '/join' not in httpx.get(f'{web.address}/about').text


@pytest.mark.parametrize('change', [
    {'name': 'Hub'}, {'discovery': 'http://hub.example.org/x'}, {'scope': 'email'},
    {'discovery': ''}])
def test_a_provider_is_checked(tmp_path, change):
    given = {'name': 'hub', 'client_id': 'x', 'secret_file': tmp_path / 'secret',
             'discovery': 'https://hub.example.org/x'}
    one = SignInProvider(**given)
    with pytest.raises(ConfigError):
        SignInProvider(**{**given, **change})
    for address, providers in (('http://arena.example.org', (one,)), ('https://a.org/', (one,)),
                               ('https://a.org', ()), ('https://a.org', (one, one))):
        with pytest.raises(ConfigError, match='sign_in'):
            SignIn(address, providers)


def test_in_a_browser(place, browser, source):    # noqa: F811
    browser.set_script_timeout(20.0)
    browser.get(f'{place.web.address}/join')
    assert not findings(browser, source)
    wait = WebDriverWait(browser, 20.0)
    browser.find_element('link text', 'Sign in by hub').click()
    wait.until(lambda page: page.find_elements('name', 'open_source'))
    for name in ('name', 'address', 'paper'):
        browser.find_element('name', name).send_keys(POLICY[name])
    assert not findings(browser, source)
    browser.find_element('xpath', '//button[.="Submit"]').click()
    wait.until(lambda page: 'is submitted' in page.page_source)
    browser.find_element('xpath', '//button[.="New token"]').click()
    wait.until(lambda page: '<code>arena_' in page.page_source)
    assert not findings(browser, source)
    browser.find_element('xpath', '//button[.="Sign out"]').click()
    wait.until(lambda page: page.find_elements('link text', 'Sign in by hub'))
    assert place.server.policies.get('violet').address == POLICY['address']
