"""The first schema."""

import sqlalchemy as sa
from alembic import op

revision = '0001'
down_revision = None


def upgrade() -> None:
    """Apply."""
    op.create_table('accounts',
    sa.Column('id', sa.Integer(), autoincrement=True, nullable=False),
    sa.Column('name', sa.String(length=200), nullable=False),
    sa.Column('institution', sa.String(length=200), nullable=False),
    sa.Column('roles', sa.String(length=200), nullable=False),
    sa.Column('created_ns', sa.BigInteger(), nullable=False),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_accounts')),
    sa.UniqueConstraint('name', name=op.f('uq_accounts_name'))
    )
    op.create_table('audit',
    sa.Column('id', sa.Integer(), autoincrement=True, nullable=False),
    sa.Column('created_ns', sa.BigInteger(), nullable=False),
    sa.Column('actor', sa.String(length=210), nullable=False),
    sa.Column('call', sa.String(length=100), nullable=False),
    sa.Column('target', sa.String(length=210), nullable=False),
    sa.Column('outcome', sa.String(length=50), nullable=False),
    sa.Column('detail', sa.Text(), nullable=False),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_audit'))
    )
    op.create_table('balances',
    sa.Column('holder', sa.String(length=210), nullable=False),
    sa.Column('amount', sa.BigInteger(), nullable=False),
    sa.Column('may_be_negative', sa.Boolean(), nullable=False),
    sa.CheckConstraint('may_be_negative OR amount >= 0', name=op.f('ck_balances_not_negative')),
    sa.PrimaryKeyConstraint('holder', name=op.f('pk_balances'))
    )
    op.create_table('stations',
    sa.Column('id', sa.Integer(), autoincrement=True, nullable=False),
    sa.Column('name', sa.String(length=200), nullable=False),
    sa.Column('institution', sa.String(length=200), nullable=False),
    sa.Column('robot', sa.String(length=50), nullable=False),
    sa.Column('external_cameras', sa.Integer(), nullable=False),
    sa.Column('wrist_camera', sa.Boolean(), nullable=False),
    sa.Column('stereo', sa.Boolean(), nullable=False),
    sa.Column('test_driver', sa.Boolean(), nullable=False),
    sa.Column('created_ns', sa.BigInteger(), nullable=False),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_stations')),
    sa.UniqueConstraint('name', name=op.f('uq_stations_name'))
    )
    op.create_table('entries',
    sa.Column('id', sa.Integer(), autoincrement=True, nullable=False),
    sa.Column('transfer', sa.String(length=100), nullable=False),
    sa.Column('holder', sa.String(length=210), nullable=False),
    sa.Column('amount', sa.BigInteger(), nullable=False),
    sa.Column('reason', sa.String(length=100), nullable=False),
    sa.Column('created_ns', sa.BigInteger(), nullable=False),
    sa.ForeignKeyConstraint(['holder'], ['balances.holder'], name=op.f('fk_entries_holder_balances')),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_entries')),
    sa.UniqueConstraint('transfer', 'holder', name=op.f('uq_entries_transfer_holder'))
    )
    with op.batch_alter_table('entries', schema=None) as batch_op:
        batch_op.create_index(batch_op.f('ix_entries_holder'), ['holder'], unique=False)

    op.create_table('policies',
    sa.Column('id', sa.Integer(), autoincrement=True, nullable=False),
    sa.Column('name', sa.String(length=200), nullable=False),
    sa.Column('owner_id', sa.Integer(), nullable=False),
    sa.Column('address', sa.String(length=500), nullable=False),
    sa.Column('open_source', sa.Boolean(), nullable=False),
    sa.Column('description', sa.Text(), nullable=False),
    sa.Column('robot', sa.String(length=50), nullable=False),
    sa.Column('action_space', sa.String(length=50), nullable=False),
    sa.Column('external_cameras', sa.Integer(), nullable=False),
    sa.Column('wrist_camera', sa.Boolean(), nullable=False),
    sa.Column('stereo', sa.Boolean(), nullable=False),
    sa.Column('state', sa.String(length=20), nullable=False),
    sa.Column('reason', sa.Text(), nullable=False),
    sa.Column('failures', sa.Integer(), nullable=False),
    sa.Column('requested', sa.Integer(), nullable=False),
    sa.Column('healthy', sa.Boolean(), nullable=False),
    sa.Column('checked_ns', sa.BigInteger(), nullable=False),
    sa.Column('created_ns', sa.BigInteger(), nullable=False),
    sa.Column('updated_ns', sa.BigInteger(), nullable=False),
    sa.ForeignKeyConstraint(['owner_id'], ['accounts.id'], name=op.f('fk_policies_owner_id_accounts')),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_policies')),
    sa.UniqueConstraint('name', name=op.f('uq_policies_name'))
    )
    with op.batch_alter_table('policies', schema=None) as batch_op:
        batch_op.create_index(batch_op.f('ix_policies_owner_id'), ['owner_id'], unique=False)
        batch_op.create_index(batch_op.f('ix_policies_state'), ['state'], unique=False)

    op.create_table('tokens',
    sa.Column('id', sa.Integer(), autoincrement=True, nullable=False),
    sa.Column('digest', sa.String(length=64), nullable=False),
    sa.Column('account_id', sa.Integer(), nullable=True),
    sa.Column('station_id', sa.Integer(), nullable=True),
    sa.Column('created_ns', sa.BigInteger(), nullable=False),
    sa.Column('expires_ns', sa.BigInteger(), nullable=True),
    sa.Column('revoked_ns', sa.BigInteger(), nullable=True),
    sa.CheckConstraint('(account_id IS NULL) <> (station_id IS NULL)', name=op.f('ck_tokens_one_holder')),
    sa.ForeignKeyConstraint(['account_id'], ['accounts.id'], name=op.f('fk_tokens_account_id_accounts')),
    sa.ForeignKeyConstraint(['station_id'], ['stations.id'], name=op.f('fk_tokens_station_id_stations')),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_tokens')),
    sa.UniqueConstraint('digest', name=op.f('uq_tokens_digest'))
    )
    op.create_table('sessions',
    sa.Column('id', sa.String(length=36), nullable=False),
    sa.Column('request', sa.String(length=64), nullable=False),
    sa.Column('station_id', sa.Integer(), nullable=False),
    sa.Column('evaluator_id', sa.Integer(), nullable=False),
    sa.Column('institution', sa.String(length=200), nullable=False),
    sa.Column('prompt', sa.Text(), nullable=False),
    sa.Column('category', sa.String(length=100), nullable=False),
    sa.Column('state', sa.String(length=20), nullable=False),
    sa.Column('policy_a_id', sa.Integer(), nullable=False),
    sa.Column('policy_b_id', sa.Integer(), nullable=False),
    sa.Column('probation', sa.Boolean(), nullable=False),
    sa.Column('nonce', sa.String(length=64), nullable=False),
    sa.Column('commitment', sa.String(length=64), nullable=False),
    sa.Column('token_a', sa.String(length=64), nullable=False),
    sa.Column('token_b', sa.String(length=64), nullable=False),
    sa.Column('created_ns', sa.BigInteger(), nullable=False),
    sa.Column('seen_ns', sa.BigInteger(), nullable=False),
    sa.Column('ended_ns', sa.BigInteger(), nullable=True),
    sa.Column('revealed_ns', sa.BigInteger(), nullable=True),
    sa.Column('rollouts', sa.Integer(), nullable=False),
    sa.Column('valid', sa.Boolean(), nullable=True),
    sa.Column('preference', sa.String(length=3), nullable=True),
    sa.Column('progress_a', sa.Float(), nullable=True),
    sa.Column('progress_b', sa.Float(), nullable=True),
    sa.Column('explanation', sa.Text(), nullable=False),
    sa.Column('invalid_reason', sa.Text(), nullable=False),
    sa.Column('notes', sa.Text(), nullable=False),
    sa.Column('imported', sa.Boolean(), nullable=False),
    sa.ForeignKeyConstraint(['evaluator_id'], ['accounts.id'], name=op.f('fk_sessions_evaluator_id_accounts')),
    sa.ForeignKeyConstraint(['policy_a_id'], ['policies.id'], name=op.f('fk_sessions_policy_a_id_policies')),
    sa.ForeignKeyConstraint(['policy_b_id'], ['policies.id'], name=op.f('fk_sessions_policy_b_id_policies')),
    sa.ForeignKeyConstraint(['station_id'], ['stations.id'], name=op.f('fk_sessions_station_id_stations')),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_sessions')),
    sa.UniqueConstraint('request', name=op.f('uq_sessions_request')),
    sa.UniqueConstraint('token_a', name=op.f('uq_sessions_token_a')),
    sa.UniqueConstraint('token_b', name=op.f('uq_sessions_token_b'))
    )
    with op.batch_alter_table('sessions', schema=None) as batch_op:
        batch_op.create_index('ix_sessions_category_created_ns_id', ['category', 'created_ns', 'id'], unique=False)
        batch_op.create_index('ix_sessions_state_created_ns_id', ['state', 'created_ns', 'id'], unique=False)
        batch_op.create_index(batch_op.f('ix_sessions_evaluator_id'), ['evaluator_id'], unique=False)
        batch_op.create_index('ix_sessions_institution_created_ns_id', ['institution', 'created_ns', 'id'], unique=False)
        batch_op.create_index('ix_sessions_policy_a_id_created_ns_id', ['policy_a_id', 'created_ns', 'id'], unique=False)
        batch_op.create_index('ix_sessions_policy_b_id_created_ns_id', ['policy_b_id', 'created_ns', 'id'], unique=False)
        batch_op.create_index('ix_sessions_preference_created_ns_id', ['preference', 'created_ns', 'id'], unique=False)
        batch_op.create_index('ix_sessions_state_seen_ns', ['state', 'seen_ns'], unique=False)

    op.create_table('episodes',
    sa.Column('id', sa.Integer(), autoincrement=True, nullable=False),
    sa.Column('session_id', sa.String(length=36), nullable=False),
    sa.Column('slot', sa.String(length=1), nullable=True),
    sa.Column('policy_id', sa.Integer(), nullable=False),
    sa.Column('prompt', sa.Text(), nullable=False),
    sa.Column('steps', sa.Integer(), nullable=False),
    sa.Column('end_reason', sa.String(length=30), nullable=False),
    sa.Column('detail', sa.Text(), nullable=False),
    sa.Column('progress', sa.Float(), nullable=True),
    sa.Column('started_ns', sa.BigInteger(), nullable=False),
    sa.Column('ended_ns', sa.BigInteger(), nullable=False),
    sa.ForeignKeyConstraint(['policy_id'], ['policies.id'], name=op.f('fk_episodes_policy_id_policies')),
    sa.ForeignKeyConstraint(['session_id'], ['sessions.id'], name=op.f('fk_episodes_session_id_sessions')),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_episodes'))
    )
    with op.batch_alter_table('episodes', schema=None) as batch_op:
        batch_op.create_index(batch_op.f('ix_episodes_policy_id'), ['policy_id'], unique=False)
        batch_op.create_index('ix_episodes_session_id_slot', ['session_id', 'slot'], unique=False)

    op.create_table('files',
    sa.Column('id', sa.Integer(), autoincrement=True, nullable=False),
    sa.Column('session_id', sa.String(length=36), nullable=False),
    sa.Column('slot', sa.String(length=1), nullable=False),
    sa.Column('path', sa.String(length=300), nullable=False),
    sa.Column('size', sa.BigInteger(), nullable=False),
    sa.Column('sha256', sa.String(length=64), nullable=False),
    sa.Column('received', sa.BigInteger(), nullable=False),
    sa.Column('complete', sa.Boolean(), nullable=False),
    sa.Column('updated_ns', sa.BigInteger(), nullable=False),
    sa.ForeignKeyConstraint(['session_id'], ['sessions.id'], name=op.f('fk_files_session_id_sessions')),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_files')),
    sa.UniqueConstraint('session_id', 'slot', 'path', name=op.f('uq_files_session_id_slot_path'))
    )
    append_only('audit')
    append_only('entries')


def append_only(table: str) -> None:
    """Make the database itself refuse to change or delete a row."""
    words = f'{table} is append-only'
    if op.get_bind().dialect.name == 'postgresql':
        op.execute(f"""CREATE FUNCTION {table}_refuse() RETURNS trigger AS $$
            BEGIN RAISE EXCEPTION '{words}'; END $$ LANGUAGE plpgsql""")
        op.execute(f"""CREATE TRIGGER {table}_append_only BEFORE UPDATE OR DELETE ON {table}
            FOR EACH ROW EXECUTE FUNCTION {table}_refuse()""")
        return
    for verb in ('UPDATE', 'DELETE'):
        op.execute(f"""CREATE TRIGGER {table}_no_{verb.lower()} BEFORE {verb} ON {table}
            BEGIN SELECT RAISE(ABORT, '{words}'); END""")


def downgrade() -> None:
    """Take back."""
    op.drop_table('files')
    with op.batch_alter_table('episodes', schema=None) as batch_op:
        batch_op.drop_index('ix_episodes_session_id_slot')
        batch_op.drop_index(batch_op.f('ix_episodes_policy_id'))

    op.drop_table('episodes')
    with op.batch_alter_table('sessions', schema=None) as batch_op:
        batch_op.drop_index('ix_sessions_state_seen_ns')
        batch_op.drop_index('ix_sessions_preference_created_ns_id')
        batch_op.drop_index('ix_sessions_policy_b_id_created_ns_id')
        batch_op.drop_index('ix_sessions_policy_a_id_created_ns_id')
        batch_op.drop_index('ix_sessions_institution_created_ns_id')
        batch_op.drop_index(batch_op.f('ix_sessions_evaluator_id'))
        batch_op.drop_index('ix_sessions_state_created_ns_id')
        batch_op.drop_index('ix_sessions_category_created_ns_id')

    op.drop_table('sessions')
    op.drop_table('tokens')
    with op.batch_alter_table('policies', schema=None) as batch_op:
        batch_op.drop_index(batch_op.f('ix_policies_state'))
        batch_op.drop_index(batch_op.f('ix_policies_owner_id'))

    op.drop_table('policies')
    with op.batch_alter_table('entries', schema=None) as batch_op:
        batch_op.drop_index(batch_op.f('ix_entries_holder'))

    op.drop_table('entries')
    op.drop_table('stations')
    op.drop_table('balances')
    op.drop_table('audit')
    op.drop_table('accounts')
