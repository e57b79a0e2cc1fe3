"""Configuration of a server: one YAML file, every key with a default for a laptop."""

import os
import re
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from arena_robot.core.errors import ConfigError

WEB = ('https://', 'http://')
PICTURES = ('.svg', '.png', '.webp')    # of a logo


class AssignmentGoal(Enum):
    """What the comparisons are for."""

    ORDER = 'order'
    TOP1 = 'top1'
    TOPK = 'topk'
    NEWCOMER = 'newcomer'


class Approval(str, Enum):
    """Which policies a maintainer has to approve before they enter the pool."""

    FIRST = 'first'    # of an owner without a policy that was approved or is in the pool
    ALL = 'all'
    NONE = 'none'


@dataclass(frozen=True)
class Weights:
    """How strongly each consideration counts."""

    evenness: float = 1.0
    no_credit: float = 0.1
    full_credit: int = 20
    paid: float = 3.0
    exploration: float = 0.1


@dataclass(frozen=True)
class Tls:
    """PEM files; with ``client_ca`` stations must show a certificate of that authority."""

    certificate: Path
    key: Path
    client_ca: Path | None = None


@dataclass(frozen=True)
class Credits:
    """
    Credits given each week: ``weekly_base`` to every owner, ``sponsors`` on top by name.

    A grant ends where the balance is ``weekly_cap``: who spends none gets none.
    """

    weekly_base: int = 20
    weekly_cap: int = 100
    sponsors: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class SignInProvider:
    """
    Who confirms to the site who somebody is.

    With ``discovery``, the address of its metadata, by OpenID Connect. Without it by OAuth 2 as
    GitHub has it: ``authorise`` and ``token`` are its addresses for that, ``user`` returns
    ``id`` and ``login``, ``emails`` the e-mail addresses (empty: none are asked for).
    ``client_id`` and the content of ``secret_file`` are what the provider gave this site;
    ``scope`` is what is asked for, empty: name and e-mail address. Everybody who signs in here
    is of ``institution``, where it is given.
    """

    name: str
    client_id: str
    secret_file: Path
    discovery: str = ''
    authorise: str = ''
    token: str = ''
    user: str = ''
    emails: str = ''
    scope: str = ''
    institution: str = ''

    def __post_init__(self) -> None:
        needed = [self.discovery] if self.discovery else [self.authorise, self.token, self.user]
        if not re.fullmatch('[a-z0-9-]{1,40}', self.name):
            raise ConfigError(f"a provider's name has a to z, 0 to 9 and -, found '{self.name}'")
        if not all(encrypted(url) for url in [*needed, self.emails or needed[0]]):
            raise ConfigError(f'{self.name} needs discovery, or authorise, token and user; each '
                              'begins with https://')
        if self.discovery and 'openid' not in self.scopes().split():
            raise ConfigError(f"the scope of {self.name} has 'openid'")

    def scopes(self) -> str:
        """Return what is asked for."""
        return self.scope or (
            'openid profile email' if self.discovery else 'read:user user:email')


@dataclass(frozen=True)
class SignIn:
    """
    Who may sign in on the site, which is at the public ``address``.

    An e-mail address that its provider verified belongs to the institution that
    ``email_institutions`` has for its domain. ``barred`` are persons, as the audit log names
    them (``github:1234``), who cannot sign in.
    """

    address: str
    providers: tuple[SignInProvider, ...]
    email_institutions: dict[str, str] = field(default_factory=dict)
    barred: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        names = [provider.name for provider in self.providers]
        if not names or len(names) != len(set(names)):
            raise ConfigError(f'sign_in needs providers with different names, found {names}')
        if not encrypted(self.address) or self.address.endswith('/'):
            raise ConfigError("sign_in: address is that of the site, begins with https:// and "
                              f"does not end with /, found '{self.address}'")


def encrypted(url: str) -> bool:
    """Tell whether an address is one of HTTPS, or of this machine."""
    return re.match('https://[^/]|http://(localhost|127[.]0[.]0[.]1)[:/]', url) is not None


@dataclass(frozen=True)
class ServerLimits:
    """
    Bounds on what one caller can ask for.

    ``unknown_tokens_per_s`` are the tokens of one address that are looked up because they were
    not shown before; a call with another one is refused without a look at the database.
    ``wrong_tokens_*`` are the calls with a wrong token from one address that are written to the
    audit log; further ones are refused and only counted. ``open_calls_per_s`` are the calls of
    one address that need no token. ``audit_*`` are a caller's lines in the audit log; a
    maintainer's successful calls are always written. ``calls_at_once`` and
    ``slot_calls_at_once`` bound the running calls of one token. ``handshake_s`` is how long a new
    connection may take until its first request, ``idle_s`` how long one without calls is kept;
    ``connections`` bounds them all, ``connections_per_address`` those of one address to the site.
    A station announces files of up to ``station_day_bytes`` a day (UTC). With less than
    ``reserve_bytes`` free on the disk of the data folder, files wait at the stations, and verdicts
    are taken.
    """

    calls_per_s: float = 50.0
    burst: int = 200
    relay_calls_per_s: float = 30.0
    unknown_tokens_per_s: float = 50.0
    wrong_tokens_per_s: float = 0.2
    wrong_tokens_burst: int = 20
    open_calls_per_s: float = 100.0
    audit_lines_per_s: float = 0.5
    audit_burst: int = 2000
    calls_at_once: int = 32
    slot_calls_at_once: int = 8
    handshake_s: float = 10.0
    idle_s: float = 900.0
    connections: int = 4000
    connections_per_address: int = 100
    message_bytes: int = 32 << 20
    file_bytes: int = 2 << 30
    session_bytes: int = 8 << 30
    station_day_bytes: int = 200 << 30
    reserve_bytes: int = 2 << 30


@dataclass(frozen=True)
class ServerConfig:
    """
    ``data`` is the folder of the database, the blobs and the spool unless URLs say otherwise.

    ``metrics_port`` serves metrics to this machine alone; -1: none.
    ``key_file`` opens what is sealed in the database, see :meth:`key_path`.
    Beyond this machine it listens with ``tls`` only, unless ``insecure`` says otherwise.
    ``allowed_networks`` are the non-public address ranges of policies and webhooks.
    ``conflicts`` are the rules of :mod:`arena_robot.server.base` that keep an
    evaluator from judging a policy. With ``evaluator_sign_in`` a pair is given only to an
    evaluator who signed in
    with a personal token. ``max_pace`` is how many times faster than the control rate a rollout
    may pass the relay and still count; 0: any, for stations in simulated time.
    ``redraws_per_day`` is how many sessions an evaluator may give up or mark as invalid in 24
    hours. ``evaluator_sessions_per_day`` and ``station_sessions_per_day`` bound the sessions of
    24 hours that count: a real one takes five minutes and more, so 100 are a long working day of
    a person, and 300 a day and a night of a station. ``photo_code_share``: share of sessions in
    which the start photograph has to show a code.
    ``approve_policies`` says which policies a maintainer has to approve before the pool.
    ``session_timeout_s`` is how long a silent station keeps its session. ``informative``
    lets the assignment look at the ranking; ``goal`` is what comparisons are for, ``top_k`` the
    k of ``topk``. ``audit`` names the judge that audits uploaded episodes in the background, such
    as ``local``; empty: none. ``report_every`` is how many new sessions of a policy lead to new
    reports, 0: none are made in the background. ``categorise_per_day`` is how many sessions a day
    the vision model of ARENA_MODEL_URL is shown, with their first pictures, to say their category;
    0: none leave the server. ``keep_files_days`` is after how many days the uploaded files of a
    session are deleted, 0: never; ``keep_files_days_of`` says otherwise for a station by its name.
    ``title``, ``contact`` (a mail or web address), ``terms`` (a web address) and ``logo`` (a
    picture) of the arena are on every page. ``sign_in`` lets people join on the site. ``seed``
    makes it reproducible, for tests.
    """

    data: Path = Path('arena-data')
    database: str = ''
    blobs: str = ''
    key_file: Path | None = None
    host: str = '127.0.0.1'
    port: int = 50061
    site_port: int = 8061
    metrics_port: int = -1
    tls: Tls | None = None
    insecure: bool = False
    allowed_networks: tuple[str, ...] = ('127.0.0.0/8', '::1/128')
    conflicts: tuple[str, ...] = ('owner', 'person', 'institution')
    evaluator_sign_in: bool = True
    max_pace: float = 1.25
    redraws_per_day: int = 6
    evaluator_sessions_per_day: int = 100
    station_sessions_per_day: int = 300
    photo_code_share: float = 0.05
    session_timeout_s: float = 1800.0
    probation_sessions: int = 3
    approve_policies: Approval = Approval.FIRST
    failures_to_suspend: int = 3
    probe_period_s: float = 60.0
    informative: bool = True
    goal: AssignmentGoal = AssignmentGoal.ORDER
    top_k: int = 3
    weights: Weights = field(default_factory=Weights)
    credits: Credits = field(default_factory=Credits)
    limits: ServerLimits = field(default_factory=ServerLimits)
    audit: str = ''
    report_every: int = 20
    categorise_per_day: int = 0
    keep_files_days: int = 0
    keep_files_days_of: dict[str, int] = field(default_factory=dict)
    title: str = 'arena'
    contact: str = ''
    terms: str = ''
    logo: Path | None = None
    sign_in: SignIn | None = None
    seed: int | None = None

    def __post_init__(self) -> None:
        wrong = [days for days in (self.keep_files_days, *self.keep_files_days_of.values())
                 if days < 0]
        if not 0.0 <= self.photo_code_share <= 1.0:
            raise ConfigError(f'photo_code_share is 0 to 1, found {self.photo_code_share}')
        if self.terms and not self.terms.startswith(WEB):
            raise ConfigError(f"terms is a web address, found '{self.terms}'; begin with https://")
        if self.contact and not self.contact.startswith(WEB) and '@' not in self.contact:
            raise ConfigError(f"contact is a mail or web address, found '{self.contact}'")
        if self.logo is not None and self.logo.suffix not in PICTURES:
            raise ConfigError(f"logo is one of {', '.join(PICTURES)}, found '{self.logo}'")
        if wrong:
            raise ConfigError(f'files are kept for 0 (for ever) or more days, found {wrong[0]}')

    def database_url(self) -> str:
        """Return the database's SQLAlchemy URL."""
        return self.database or f'sqlite:///{self.data}/arena.db'

    def key_path(self) -> Path:
        """Return the key file: of ARENA_KEY_FILE, of ``key_file``, or in the data folder."""
        named = os.environ.get('ARENA_KEY_FILE', '')
        return Path(named) if named else self.key_file or self.data / 'secrets.key'

    def blobs_url(self) -> str:
        """Return the blob store's fsspec URL."""
        return self.blobs or str(self.data / 'blobs')
