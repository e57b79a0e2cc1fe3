"""The share of a rollout in which the arm waited for its policy, where the relay saw it."""

import sqlalchemy as sa
from alembic import op

revision = '0014'
down_revision = '0013'


def upgrade() -> None:
    """Apply."""
    op.add_column('episodes', sa.Column('waited', sa.Float(), nullable=True))


def downgrade() -> None:
    """Take back."""
    op.drop_column('episodes', 'waited')
