"""How long both policies of a session take at least, where its station asked for that."""

import sqlalchemy as sa
from alembic import op

revision = '0016'
down_revision = '0015'


def upgrade() -> None:
    """Apply."""
    op.add_column('sessions', sa.Column('equal_latency_s', sa.Float(), nullable=True))


def downgrade() -> None:
    """Take back."""
    op.drop_column('sessions', 'equal_latency_s')
