"""
A search for words reads an index instead of the sessions themselves.

On SQLite only: PostgreSQL has no room for a long prompt in an index, and scans in parallel.
"""

from alembic import op

revision = '0002'
down_revision = '0001'

SHORT = ('state', 'created_ns', 'id')
LONG = (*SHORT, 'prompt')


def upgrade() -> None:
    """Apply."""
    if op.get_bind().dialect.name == 'sqlite':
        _replace(SHORT, LONG)


def downgrade() -> None:
    """Take back."""
    if op.get_bind().dialect.name == 'sqlite':
        _replace(LONG, SHORT)


def _replace(before: tuple[str, ...], after: tuple[str, ...]) -> None:
    op.drop_index('_'.join(['ix_sessions', *before]), 'sessions')
    op.create_index('_'.join(['ix_sessions', *after]), 'sessions', list(after))
