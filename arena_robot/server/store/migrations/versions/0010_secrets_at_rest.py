"""
Secrets at rest: digests of slot tokens, a sealed nonce, the token that the relay shows to a policy.

Slot tokens that are stored as they are become digests. The nonces of sessions that are not
revealed are sealed when the server starts, because only the server has the key.
"""

import hashlib

import sqlalchemy as sa
from alembic import op

revision = '0010'
down_revision = '0009'

sessions = sa.table('sessions', sa.column('id', sa.String), sa.column('token_a', sa.String),
                    sa.column('token_b', sa.String))


def upgrade() -> None:
    """Apply."""
    for table, column in (('sessions', 'sealed_nonce'), ('policies', 'token')):
        op.add_column(table, sa.Column(column, sa.Text(), nullable=False, server_default=''))
    connection = op.get_bind()
    rows = connection.execute(sa.select(sessions)).all()
    if rows:
        connection.execute(
            sa.update(sessions).where(sessions.c.id == sa.bindparam('which')).values(
                token_a=sa.bindparam('a'), token_b=sa.bindparam('b')),
            [{'which': row.id, 'a': _digest(row.token_a), 'b': _digest(row.token_b)}
             for row in rows])


def downgrade() -> None:
    """Take back; digests stay digests."""
    op.drop_column('policies', 'token')
    op.drop_column('sessions', 'sealed_nonce')


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
