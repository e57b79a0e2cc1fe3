"""
The error classes of the package.

A message says what was requested, what was found and what to do; the cause is kept with ``from``.

::

    ArenaError                       code = 'internal'
    ├── ConfigError                  'config'             a file, key or parameter is wrong
    ├── DataError                    'data'               recorded or imported data is wrong
    │   └── CodeRefused              'code_refused'       generated code may not, or cannot, run
    ├── RankingError                 'ranking'            the data do not determine a ranking
    │   ├── UnknownMethod            'unknown_method'
    │   └── NotConverged             'not_converged'
    ├── SafetyError                  'safety'             a command or state is not acceptable
    │   └── LateCommand              'late_command'       the command before it stays in force
    ├── DriverError                  'driver'             a robot part failed
    │   ├── NotConnected             'not_connected'
    │   ├── StaleData                'stale'              newest reading is too old
    │   └── ReadTimeout              'read_timeout'
    ├── PolicyError                  'policy'             a policy or its server failed
    │   ├── PolicyUnavailable        'policy_unavailable'
    │   │   └── PolicyEnded          'policy_ended'       the line to its host works
    │   ├── PolicyTimeout            'policy_timeout'
    │   ├── PolicyRefused            'policy_refused'     the server said no, with a reason
    │   └── BadReply                 'policy_bad_reply'   wrong shape, NaN, wrong protocol
    ├── ModelError                   'model'              a model's server failed
    │   ├── ModelUnavailable         'model_unavailable'  no usable answer after all attempts
    │   ├── ModelBadReply            'model_bad_reply'    an answer that does not fit the protocol
    │   └── BudgetSpent              'budget_spent'       one more call could exceed the budget
    ├── SessionError                 'session'            a step that the protocol does not allow
    ├── RecordingError               'recording'          a bag cannot be written or read
    ├── OutOfSteps                   'out_of_steps'       a simulated subtask's budget is spent
    ├── ProcessFailed                'process_failed'     a program did not start, or ended
    └── ServerError                  'server'             the arena server refused or failed
        ├── Unauthorised             'unauthorised'
        ├── Conflict                 'conflict'
        │   └── NotRevealed          'not_revealed'       the session does not count
        ├── NotComputed              'not_computed'       a result that is being computed
        └── ServerUnavailable        'server_unavailable'
"""


class ArenaError(Exception):
    """Base of every error that the package raises."""

    code = 'internal'


class ConfigError(ArenaError):
    """A file, key or parameter is wrong."""

    code = 'config'


class DataError(ArenaError):
    """Recorded or imported data is wrong."""

    code = 'data'


class CodeRefused(DataError):
    """Generated code has something that is not allowed, or its run gave no valid result."""

    code = 'code_refused'


class RankingError(ArenaError):
    """The comparisons do not determine the requested ranking."""

    code = 'ranking'


class UnknownMethod(RankingError):
    """No ranking method or voting rule has that name, or it does not take that option."""

    code = 'unknown_method'


class NotConverged(RankingError):
    """An iteration ended before its tolerance was reached."""

    code = 'not_converged'


class SafetyError(ArenaError):
    """A command or a state is not acceptable."""

    code = 'safety'


class LateCommand(SafetyError):
    """A command came too late, or not at all, to be carried out; the one before stays in force."""

    code = 'late_command'


class DriverError(ArenaError):
    """A robot part failed."""

    code = 'driver'


class NotConnected(DriverError):
    """The part is not open."""

    code = 'not_connected'


class StaleData(DriverError):
    """The newest reading is older than the caller accepts."""

    code = 'stale'


class ReadTimeout(DriverError):
    """No new reading arrived in time."""

    code = 'read_timeout'


class PolicyError(ArenaError):
    """A policy or its server failed."""

    code = 'policy'


class PolicyUnavailable(PolicyError):
    """No server answers at the policy's address."""

    code = 'policy_unavailable'


class PolicyEnded(PolicyUnavailable):
    """No server answers at the policy's address, and the network is not why."""

    code = 'policy_ended'


class PolicyTimeout(PolicyError):
    """The policy did not answer before the deadline."""

    code = 'policy_timeout'


class PolicyRefused(PolicyError):
    """The policy server refused the request, with a reason."""

    code = 'policy_refused'


class BadReply(PolicyError):
    """The reply does not match the protocol or the policy's own spec."""

    code = 'policy_bad_reply'


class ModelError(ArenaError):
    """A model's server failed."""

    code = 'model'


class ModelUnavailable(ModelError):
    """No usable answer came after all attempts."""

    code = 'model_unavailable'


class ModelBadReply(ModelError):
    """The answer does not fit the protocol, or what was asked for."""

    code = 'model_bad_reply'


class BudgetSpent(ModelError):
    """One more call could cost more than the budget has left."""

    code = 'budget_spent'


class SessionError(ArenaError):
    """The protocol does not allow this step now."""

    code = 'session'


class RecordingError(ArenaError):
    """A bag or a derived file cannot be written or read."""

    code = 'recording'


class OutOfSteps(ArenaError):
    """The simulated steps that a subtask may take are used up."""

    code = 'out_of_steps'


class ProcessFailed(ArenaError):
    """A program in the background did not start, or ended by itself."""

    code = 'process_failed'


class ServerError(ArenaError):
    """The arena server refused or failed."""

    code = 'server'


class Unauthorised(ServerError):
    """The token is missing, unknown, expired or lacks the role."""

    code = 'unauthorised'


class Conflict(ServerError):
    """The call was already made, or comes out of order."""

    code = 'conflict'


class NotRevealed(Conflict):
    """The session is over, does not count, and its policies stay secret."""

    code = 'not_revealed'


class NotComputed(ServerError):
    """A result that takes long was not computed before; it is being computed now."""

    code = 'not_computed'


class ServerUnavailable(ServerError):
    """The arena server cannot be reached."""

    code = 'server_unavailable'
