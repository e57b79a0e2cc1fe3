"""
Hidden texts of a session, where a policy comes from, webhooks and what waits for them.

An index finds the sessions of an institution in a category.
"""

import sqlalchemy as sa
from alembic import op

revision = '0002'
down_revision = '0001'


def upgrade() -> None:
    """Add both columns, empty, both tables, and the index."""
    op.create_index('ix_sessions_institution_category_created_ns_id', 'sessions',
                    ['institution', 'category', 'created_ns', 'id'])
    for table, column in (('sessions', 'hidden'), ('policies', 'provenance')):
        op.add_column(table, sa.Column(column, sa.Text, nullable=False, server_default=''))
    op.create_table(
        'webhooks',
        sa.Column('account_id', sa.Integer, sa.ForeignKey(
            'accounts.id', name='fk_webhooks_account_id_accounts'), nullable=False),
        sa.Column('url', sa.String(500), nullable=False),
        sa.Column('secret', sa.Text, nullable=False),
        sa.Column('created_ns', sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint('account_id', name='pk_webhooks'))
    op.create_table(
        'deliveries',
        sa.Column('id', sa.Integer, nullable=False, autoincrement=True),
        sa.Column('account_id', sa.Integer, sa.ForeignKey(
            'accounts.id', name='fk_deliveries_account_id_accounts'), nullable=False),
        sa.Column('event', sa.String(30), nullable=False),
        sa.Column('body', sa.Text, nullable=False),
        sa.Column('tries', sa.Integer, nullable=False),
        sa.Column('next_ns', sa.BigInteger, nullable=False),
        sa.Column('failure', sa.Text, nullable=False),
        sa.PrimaryKeyConstraint('id', name='pk_deliveries'))
    op.create_index('ix_deliveries_account_id', 'deliveries', ['account_id'])
