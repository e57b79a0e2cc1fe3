"""The schema of version 0.1.0."""

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
        sa.Column('person', sa.String(length=200), nullable=False),
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
        sa.CheckConstraint('may_be_negative OR amount >= 0',
            name=op.f('ck_balances_not_negative')),
        sa.PrimaryKeyConstraint('holder', name=op.f('pk_balances'))
    )
    op.create_table('citation_checks',
        sa.Column('id', sa.Integer(), autoincrement=True, nullable=False),
        sa.Column('policy', sa.String(length=200), nullable=False),
        sa.Column('number', sa.Integer(), nullable=False),
        sa.Column('place', sa.String(length=40), nullable=False),
        sa.Column('holds', sa.Boolean(), nullable=False),
        sa.Column('actor', sa.String(length=200), nullable=False),
        sa.Column('created_ns', sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint('id', name=op.f('pk_citation_checks'))
    )
    op.create_index('ix_citation_checks_policy_number', 'citation_checks', ['policy', 'number'],
        unique=False)
    op.create_table('log',
        sa.Column('number', sa.Integer(), autoincrement=False, nullable=False),
        sa.Column('session_id', sa.String(length=36), nullable=False),
        sa.Column('body', sa.Text(), nullable=False),
        sa.Column('created_ns', sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint('number', name=op.f('pk_log'))
    )
    op.create_index(op.f('ix_log_session_id'), 'log', ['session_id'], unique=False)
    op.create_table('rate_counts',
        sa.Column('kind', sa.String(length=20), nullable=False),
        sa.Column('caller', sa.String(length=32), nullable=False),
        sa.Column('period', sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column('count', sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint('kind', 'caller', 'period', name=op.f('pk_rate_counts'))
    )
    op.create_table('relay_notes',
        sa.Column('journal', sa.String(length=32), nullable=False),
        sa.Column('session_id', sa.String(length=100), nullable=False),
        sa.Column('slot', sa.String(length=10), nullable=False),
        sa.Column('notes', sa.Integer(), nullable=False),
        sa.Column('written_ns', sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint('journal', 'session_id', 'slot', name=op.f('pk_relay_notes'))
    )
    op.create_table('reports',
        sa.Column('id', sa.Integer(), autoincrement=True, nullable=False),
        sa.Column('policy', sa.String(length=200), nullable=False),
        sa.Column('number', sa.Integer(), nullable=False),
        sa.Column('sessions', sa.Integer(), nullable=False),
        sa.Column('method', sa.String(length=300), nullable=False),
        sa.Column('content', sa.Text(), nullable=False),
        sa.Column('created_ns', sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint('id', name=op.f('pk_reports')),
        sa.UniqueConstraint('policy', 'number', name=op.f('uq_reports_policy_number'))
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
    op.create_table('upload_days',
        sa.Column('station_id', sa.Integer(), nullable=False),
        sa.Column('day', sa.Integer(), autoincrement=False, nullable=False),
        sa.Column('bytes', sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(['station_id'], ['stations.id'],
            name=op.f('fk_upload_days_station_id_stations')),
        sa.PrimaryKeyConstraint('station_id', 'day', name=op.f('pk_upload_days'))
    )
    op.create_table('entries',
        sa.Column('id', sa.Integer(), autoincrement=True, nullable=False),
        sa.Column('transfer', sa.String(length=100), nullable=False),
        sa.Column('holder', sa.String(length=210), nullable=False),
        sa.Column('amount', sa.BigInteger(), nullable=False),
        sa.Column('reason', sa.String(length=100), nullable=False),
        sa.Column('created_ns', sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(['holder'], ['balances.holder'],
            name=op.f('fk_entries_holder_balances')),
        sa.PrimaryKeyConstraint('id', name=op.f('pk_entries')),
        sa.UniqueConstraint('transfer', 'holder', name=op.f('uq_entries_transfer_holder'))
    )
    op.create_index(op.f('ix_entries_holder'), 'entries', ['holder'], unique=False)
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
        sa.Column('token', sa.Text(), server_default='', nullable=False),
        sa.Column('tls_ca', sa.Text(), server_default='', nullable=False),
        sa.Column('stated', sa.Text(), server_default='', nullable=False),
        sa.Column('spec', sa.Text(), server_default='', nullable=False),
        sa.Column('approved', sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column('appeal', sa.Text(), server_default='', nullable=False),
        sa.ForeignKeyConstraint(['owner_id'], ['accounts.id'],
            name=op.f('fk_policies_owner_id_accounts')),
        sa.PrimaryKeyConstraint('id', name=op.f('pk_policies')),
        sa.UniqueConstraint('name', name=op.f('uq_policies_name'))
    )
    op.create_index(op.f('ix_policies_owner_id'), 'policies', ['owner_id'], unique=False)
    op.create_index(op.f('ix_policies_state'), 'policies', ['state'], unique=False)
    op.create_table('tokens',
        sa.Column('id', sa.Integer(), autoincrement=True, nullable=False),
        sa.Column('digest', sa.String(length=64), nullable=False),
        sa.Column('account_id', sa.Integer(), nullable=True),
        sa.Column('station_id', sa.Integer(), nullable=True),
        sa.Column('created_ns', sa.BigInteger(), nullable=False),
        sa.Column('expires_ns', sa.BigInteger(), nullable=True),
        sa.Column('revoked_ns', sa.BigInteger(), nullable=True),
        sa.CheckConstraint('(account_id IS NULL) <> (station_id IS NULL)',
            name=op.f('ck_tokens_one_holder')),
        sa.ForeignKeyConstraint(['account_id'], ['accounts.id'],
            name=op.f('fk_tokens_account_id_accounts')),
        sa.ForeignKeyConstraint(['station_id'], ['stations.id'],
            name=op.f('fk_tokens_station_id_stations')),
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
        sa.Column('policy_a_id', sa.Integer(), nullable=True),
        sa.Column('policy_b_id', sa.Integer(), nullable=True),
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
        sa.Column('progress_a', sa.Float(), nullable=True),
        sa.Column('progress_b', sa.Float(), nullable=True),
        sa.Column('notes_a', sa.Text(), nullable=False),
        sa.Column('notes_b', sa.Text(), nullable=False),
        sa.Column('unsafe_a', sa.Boolean(), nullable=True),
        sa.Column('unsafe_b', sa.Boolean(), nullable=True),
        sa.Column('preference', sa.String(length=3), nullable=True),
        sa.Column('explanation', sa.Text(), nullable=False),
        sa.Column('notes', sa.Text(), nullable=False),
        sa.Column('lighting', sa.String(length=6), nullable=True),
        sa.Column('clutter', sa.String(length=8), nullable=True),
        sa.Column('valid', sa.Boolean(), nullable=True),
        sa.Column('invalid_reason', sa.Text(), nullable=False),
        sa.Column('imported', sa.Boolean(), nullable=False),
        sa.Column('accepted_ns', sa.BigInteger(), nullable=True),
        sa.Column('incomplete', sa.Text(), nullable=False),
        sa.Column('conflict', sa.String(length=20), nullable=False),
        sa.Column('withdrawn_ns', sa.BigInteger(), nullable=True),
        sa.Column('repeats', sa.String(length=36), nullable=True),
        sa.Column('sealed_nonce', sa.Text(), server_default='', nullable=False),
        sa.Column('final', sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column('equal_latency_s', sa.Float(), nullable=True),
        sa.Column('sealed_pair', sa.Text(), server_default='', nullable=False),
        sa.Column('third_person', sa.String(length=5), server_default='', nullable=False),
        sa.Column('photo_code', sa.String(length=8), server_default='', nullable=False),
        sa.Column('chosen', sa.Boolean(), nullable=True),
        sa.ForeignKeyConstraint(['evaluator_id'], ['accounts.id'],
            name=op.f('fk_sessions_evaluator_id_accounts')),
        sa.ForeignKeyConstraint(['policy_a_id'], ['policies.id'],
            name=op.f('fk_sessions_policy_a_id_policies')),
        sa.ForeignKeyConstraint(['policy_b_id'], ['policies.id'],
            name=op.f('fk_sessions_policy_b_id_policies')),
        sa.ForeignKeyConstraint(['station_id'], ['stations.id'],
            name=op.f('fk_sessions_station_id_stations')),
        sa.PrimaryKeyConstraint('id', name=op.f('pk_sessions')),
        sa.UniqueConstraint('request', name=op.f('uq_sessions_request')),
        sa.UniqueConstraint('token_a', name=op.f('uq_sessions_token_a')),
        sa.UniqueConstraint('token_b', name=op.f('uq_sessions_token_b'))
    )
    op.create_index('ix_sessions_category_created_ns_id', 'sessions', ['category', 'created_ns',
        'id'], unique=False)
    op.create_index('ix_sessions_evaluator_id_accepted_ns_created_ns', 'sessions', ['evaluator_id',
        'accepted_ns', 'created_ns'], unique=False)
    op.create_index('ix_sessions_evaluator_id_created_ns', 'sessions', ['evaluator_id',
        'created_ns'], unique=False)
    op.create_index('ix_sessions_station_id_created_ns', 'sessions', ['station_id', 'created_ns'],
        unique=False)
    op.create_index('ix_sessions_station_id_state', 'sessions', ['station_id', 'state'],
        unique=False)
    op.create_index('ix_sessions_institution_created_ns_id', 'sessions', ['institution',
        'created_ns', 'id'], unique=False)
    op.create_index('ix_sessions_policy_a_id_created_ns_id', 'sessions', ['policy_a_id',
        'created_ns', 'id'], unique=False)
    op.create_index('ix_sessions_policy_b_id_created_ns_id', 'sessions', ['policy_b_id',
        'created_ns', 'id'], unique=False)
    op.create_index('ix_sessions_preference_created_ns_id', 'sessions', ['preference',
        'created_ns', 'id'], unique=False)
    op.create_index('ix_sessions_repeats', 'sessions', ['repeats'], unique=True)
    op.create_index('ix_sessions_state_seen_ns', 'sessions', ['state', 'seen_ns'], unique=False)
    op.create_table('categories',
        sa.Column('id', sa.Integer(), autoincrement=True, nullable=False),
        sa.Column('session_id', sa.String(length=36), nullable=False),
        sa.Column('category', sa.String(length=100), nullable=False),
        sa.Column('method', sa.String(length=20), nullable=False),
        sa.Column('model', sa.String(length=200), nullable=False),
        sa.Column('prompt_version', sa.String(length=20), nullable=False),
        sa.Column('confidence', sa.Float(), nullable=True),
        sa.Column('scene', sa.Text(), nullable=False),
        sa.Column('actor', sa.String(length=200), nullable=False),
        sa.Column('created_ns', sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(['session_id'], ['sessions.id'],
            name=op.f('fk_categories_session_id_sessions')),
        sa.PrimaryKeyConstraint('id', name=op.f('pk_categories'))
    )
    op.create_index(op.f('ix_categories_session_id'), 'categories', ['session_id'], unique=False)
    op.create_table('episodes',
        sa.Column('id', sa.Integer(), autoincrement=True, nullable=False),
        sa.Column('session_id', sa.String(length=36), nullable=False),
        sa.Column('slot', sa.String(length=1), nullable=True),
        sa.Column('policy_id', sa.Integer(), nullable=True),
        sa.Column('prompt', sa.Text(), nullable=False),
        sa.Column('steps', sa.Integer(), nullable=False),
        sa.Column('end_reason', sa.String(length=30), nullable=False),
        sa.Column('detail', sa.Text(), nullable=False),
        sa.Column('progress', sa.Float(), nullable=True),
        sa.Column('started_ns', sa.BigInteger(), nullable=False),
        sa.Column('ended_ns', sa.BigInteger(), nullable=False),
        sa.Column('fault', sa.String(length=10), nullable=False),
        sa.Column('reruns', sa.Integer(), server_default='0', nullable=False),
        sa.Column('waited', sa.Float(), nullable=True),
        sa.ForeignKeyConstraint(['policy_id'], ['policies.id'],
            name=op.f('fk_episodes_policy_id_policies')),
        sa.ForeignKeyConstraint(['session_id'], ['sessions.id'],
            name=op.f('fk_episodes_session_id_sessions')),
        sa.PrimaryKeyConstraint('id', name=op.f('pk_episodes'))
    )
    op.create_index(op.f('ix_episodes_policy_id'), 'episodes', ['policy_id'], unique=False)
    op.create_index('ix_episodes_session_id_slot', 'episodes', ['session_id', 'slot'],
        unique=False)
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
        sa.Column('erased_ns', sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(['session_id'], ['sessions.id'],
            name=op.f('fk_files_session_id_sessions')),
        sa.PrimaryKeyConstraint('id', name=op.f('pk_files')),
        sa.UniqueConstraint('session_id', 'slot', 'path',
            name=op.f('uq_files_session_id_slot_path'))
    )
    op.create_table('manifests',
        sa.Column('id', sa.Integer(), autoincrement=True, nullable=False),
        sa.Column('session_id', sa.String(length=36), nullable=False),
        sa.Column('slot', sa.String(length=1), nullable=False),
        sa.Column('sha256', sa.String(length=64), nullable=False),
        sa.Column('content', sa.Text(), nullable=False),
        sa.Column('created_ns', sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(['session_id'], ['sessions.id'],
            name=op.f('fk_manifests_session_id_sessions')),
        sa.PrimaryKeyConstraint('id', name=op.f('pk_manifests')),
        sa.UniqueConstraint('session_id', 'slot', name=op.f('uq_manifests_session_id_slot'))
    )
    op.create_table('recording_checks',
        sa.Column('session_id', sa.String(length=36), nullable=False),
        sa.Column('seen', sa.String(length=64), nullable=False),
        sa.Column('why', sa.Text(), nullable=False),
        sa.Column('created_ns', sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(['session_id'], ['sessions.id'],
            name=op.f('fk_recording_checks_session_id_sessions')),
        sa.PrimaryKeyConstraint('session_id', name=op.f('pk_recording_checks'))
    )
    op.create_table('unsafe_reports',
        sa.Column('id', sa.Integer(), autoincrement=True, nullable=False),
        sa.Column('session_id', sa.String(length=36), nullable=False),
        sa.Column('slot', sa.String(length=1), nullable=False),
        sa.Column('created_ns', sa.BigInteger(), nullable=False),
        sa.Column('cleared_ns', sa.BigInteger(), nullable=True),
        sa.Column('cleared_by', sa.String(length=200), server_default='', nullable=False),
        sa.Column('cleared_why', sa.Text(), server_default='', nullable=False),
        sa.ForeignKeyConstraint(['session_id'], ['sessions.id'],
            name=op.f('fk_unsafe_reports_session_id_sessions')),
        sa.PrimaryKeyConstraint('id', name=op.f('pk_unsafe_reports')),
        sa.UniqueConstraint('session_id', 'slot', name=op.f('uq_unsafe_reports_session_id_slot'))
    )
    op.create_index(op.f('ix_unsafe_reports_cleared_ns'), 'unsafe_reports', ['cleared_ns'],
        unique=False)
    op.create_table('relayed',
        sa.Column('id', sa.Integer(), autoincrement=True, nullable=False),
        sa.Column('session_id', sa.String(length=36), nullable=False),
        sa.Column('slot', sa.String(length=1), nullable=False),
        sa.Column('station_id', sa.Integer(), nullable=False),
        sa.Column('policy_id', sa.Integer(), nullable=True),
        sa.Column('queries', sa.Integer(), nullable=False),
        sa.Column('actions', sa.Integer(), nullable=False),
        sa.Column('failures', sa.Integer(), nullable=False),
        sa.Column('failure', sa.String(length=200), nullable=False),
        sa.Column('refusals', sa.Integer(), nullable=False),
        sa.Column('cuts', sa.Integer(), nullable=False),
        sa.Column('begun', sa.Integer(), nullable=False),
        sa.Column('first_ns', sa.BigInteger(), nullable=False),
        sa.Column('last_ns', sa.BigInteger(), nullable=False),
        sa.Column('last_step', sa.Integer(), nullable=False),
        sa.Column('last_actions', sa.Integer(), nullable=False),
        sa.Column('exact', sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(['policy_id'], ['policies.id'],
            name=op.f('fk_relayed_policy_id_policies')),
        sa.ForeignKeyConstraint(['session_id'], ['sessions.id'],
            name=op.f('fk_relayed_session_id_sessions')),
        sa.ForeignKeyConstraint(['station_id'], ['stations.id'],
            name=op.f('fk_relayed_station_id_stations')),
        sa.PrimaryKeyConstraint('id', name=op.f('pk_relayed')),
        sa.UniqueConstraint('session_id', 'slot', name=op.f('uq_relayed_session_id_slot'))
    )
    op.create_index('ix_relayed_policy_id_last_ns', 'relayed', ['policy_id', 'last_ns'],
        unique=False)
    newest = ['state', 'created_ns', 'id']
    if op.get_bind().dialect.name == 'sqlite':
        newest += ['prompt']    # a search reads the prompts in the index
    op.create_index('_'.join(['ix_sessions', *newest]), 'sessions', newest)
    for table in ('audit', 'entries', 'log'):
        append_only(table)


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
