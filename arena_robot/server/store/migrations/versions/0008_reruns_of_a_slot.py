"""How often the slot of an episode was run again."""

import sqlalchemy as sa
from alembic import op

revision = '0008'
down_revision = '0007'


def upgrade() -> None:
    """Apply."""
    op.add_column('episodes', sa.Column('reruns', sa.Integer(), nullable=False,
                                        server_default='0'))


def downgrade() -> None:
    """Take back."""
    op.drop_column('episodes', 'reruns')
