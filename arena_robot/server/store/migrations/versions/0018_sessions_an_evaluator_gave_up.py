"""
An index of the sessions that an evaluator gave up or marked as invalid.

An assignment looks for them, and read all sessions of its evaluator.
"""

import sqlalchemy as sa
from alembic import op

revision = '0018'
down_revision = '0017'

BEFORE = ('evaluator_id',)
AFTER = ('evaluator_id', 'valid', 'created_ns')


def upgrade() -> None:
    """Apply."""
    sessions = sa.table('sessions', sa.column('state', sa.String()),
                        sa.column('valid', sa.Boolean()))
    op.execute(sa.update(sessions).where(
        sessions.c.state.in_(('aborted', 'cancelled')), sessions.c.valid.is_(None)).values(
        valid=False))
    _replace(BEFORE, AFTER)


def downgrade() -> None:
    """Take back."""
    _replace(AFTER, BEFORE)


def _replace(before: tuple[str, ...], after: tuple[str, ...]) -> None:
    op.drop_index('_'.join(['ix_sessions', *before]), 'sessions')
    op.create_index('_'.join(['ix_sessions', *after]), 'sessions', list(after))
