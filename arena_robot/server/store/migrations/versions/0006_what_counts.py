"""
Whether a session counts and why not, and which person an account belongs to.

Sessions that counted before go on counting, although the relay kept no record of them then.
"""

import sqlalchemy as sa
from alembic import op

revision = '0006'
down_revision = '0005'


def upgrade() -> None:
    """Apply."""
    op.add_column('accounts', sa.Column('person', sa.String(200), nullable=False,
                                        server_default=''))
    op.execute('UPDATE accounts SET person = name')
    for column in (sa.Column('accepted_ns', sa.BigInteger(), nullable=True),
                   sa.Column('incomplete', sa.Text(), nullable=False, server_default=''),
                   sa.Column('conflict', sa.String(20), nullable=False, server_default=''),
                   sa.Column('withdrawn_ns', sa.BigInteger(), nullable=True),
                   sa.Column('repeats', sa.String(36), nullable=True)):
        op.add_column('sessions', column)
    op.create_index('ix_sessions_repeats', 'sessions', ['repeats'], unique=True)
    op.execute("UPDATE sessions SET accepted_ns = ended_ns WHERE state = 'done' AND valid")


def downgrade() -> None:
    """Take back."""
    op.drop_index('ix_sessions_repeats', 'sessions')
    for name in ('repeats', 'withdrawn_ns', 'conflict', 'incomplete', 'accepted_ns'):
        op.drop_column('sessions', name)
    op.drop_column('accounts', 'person')
