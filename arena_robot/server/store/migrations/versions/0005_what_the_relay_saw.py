"""What the relay saw of each rollout, whose fault its end was, and which files it has."""

import sqlalchemy as sa
from alembic import op

revision = '0005'
down_revision = '0004'

COUNTS = ('queries', 'actions', 'failures', 'refusals', 'cuts', 'begun', 'last_step',
          'last_actions')


def upgrade() -> None:
    """Apply."""
    op.add_column('episodes', sa.Column('fault', sa.String(10), nullable=False,
                                        server_default=''))
    op.create_table(
        'relayed', sa.Column('id', sa.Integer(), primary_key=True, autoincrement=True),
        sa.Column('session_id', sa.String(36), sa.ForeignKey('sessions.id'), nullable=False),
        sa.Column('slot', sa.String(1), nullable=False),
        sa.Column('station_id', sa.Integer(), sa.ForeignKey('stations.id'), nullable=False),
        sa.Column('policy_id', sa.Integer(), sa.ForeignKey('policies.id'), nullable=False),
        *(sa.Column(name, sa.Integer(), nullable=False) for name in COUNTS),
        sa.Column('failure', sa.String(200), nullable=False),
        sa.Column('first_ns', sa.BigInteger(), nullable=False),
        sa.Column('last_ns', sa.BigInteger(), nullable=False),
        sa.Column('exact', sa.Text(), nullable=False),
        sa.UniqueConstraint('session_id', 'slot', name='uq_relayed_session_id_slot'))
    op.create_index('ix_relayed_policy_id_last_ns', 'relayed', ['policy_id', 'last_ns'])
    op.create_table(
        'manifests', sa.Column('id', sa.Integer(), primary_key=True, autoincrement=True),
        sa.Column('session_id', sa.String(36), sa.ForeignKey('sessions.id'), nullable=False),
        sa.Column('slot', sa.String(1), nullable=False),
        sa.Column('sha256', sa.String(64), nullable=False),
        sa.Column('content', sa.Text(), nullable=False),
        sa.Column('created_ns', sa.BigInteger(), nullable=False),
        sa.UniqueConstraint('session_id', 'slot', name='uq_manifests_session_id_slot'))


def downgrade() -> None:
    """Take back."""
    op.drop_table('manifests')
    op.drop_table('relayed')
    op.drop_column('episodes', 'fault')
