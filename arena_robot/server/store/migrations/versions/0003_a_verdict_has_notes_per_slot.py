"""The notes on a rollout stand in columns of their own, no longer inside the notes on the pair."""

import sqlalchemy as sa
from alembic import op

revision = '0003'
down_revision = '0002'

NEW = ('notes_a', 'notes_b')


def upgrade() -> None:
    """Apply."""
    for name in NEW:
        op.add_column('sessions', sa.Column(name, sa.Text(), nullable=False, server_default=''))


def downgrade() -> None:
    """Take back."""
    for name in NEW:
        op.drop_column('sessions', name)
