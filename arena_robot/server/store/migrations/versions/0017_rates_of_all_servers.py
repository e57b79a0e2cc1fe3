"""What callers took from their rates in the last seconds, at all servers of the database."""

import sqlalchemy as sa
from alembic import op

revision = '0017'
down_revision = '0016'


def upgrade() -> None:
    """Apply."""
    op.create_table(
        'rate_counts',
        sa.Column('kind', sa.String(20), primary_key=True),
        sa.Column('caller', sa.String(32), primary_key=True),
        sa.Column('period', sa.BigInteger(), primary_key=True, autoincrement=False),
        sa.Column('count', sa.BigInteger(), nullable=False))


def downgrade() -> None:
    """Take back."""
    op.drop_table('rate_counts')
