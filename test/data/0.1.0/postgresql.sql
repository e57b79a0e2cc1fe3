CREATE TABLE alembic_version (version_num VARCHAR(32) PRIMARY KEY);

INSERT INTO alembic_version VALUES ('0001');

CREATE TABLE accounts (
	id SERIAL NOT NULL,
	name VARCHAR(200) NOT NULL,
	institution VARCHAR(200) NOT NULL,
	roles VARCHAR(200) NOT NULL,
	person VARCHAR(200) NOT NULL,
	created_ns BIGINT NOT NULL,
	CONSTRAINT pk_accounts PRIMARY KEY (id),
	CONSTRAINT uq_accounts_name UNIQUE (name)
);

CREATE TABLE stations (
	id SERIAL NOT NULL,
	name VARCHAR(200) NOT NULL,
	institution VARCHAR(200) NOT NULL,
	robot VARCHAR(50) NOT NULL,
	external_cameras INTEGER NOT NULL,
	wrist_camera BOOLEAN NOT NULL,
	stereo BOOLEAN NOT NULL,
	test_driver BOOLEAN NOT NULL,
	created_ns BIGINT NOT NULL,
	CONSTRAINT pk_stations PRIMARY KEY (id),
	CONSTRAINT uq_stations_name UNIQUE (name)
);

CREATE TABLE relay_notes (
	journal VARCHAR(32) NOT NULL,
	session_id VARCHAR(100) NOT NULL,
	slot VARCHAR(10) NOT NULL,
	notes INTEGER NOT NULL,
	written_ns BIGINT NOT NULL,
	CONSTRAINT pk_relay_notes PRIMARY KEY (journal, session_id, slot)
);

CREATE TABLE balances (
	holder VARCHAR(210) NOT NULL,
	amount BIGINT NOT NULL,
	may_be_negative BOOLEAN NOT NULL,
	CONSTRAINT pk_balances PRIMARY KEY (holder),
	CONSTRAINT ck_balances_not_negative CHECK (may_be_negative OR amount >= 0)
);

CREATE TABLE audit (
	id SERIAL NOT NULL,
	created_ns BIGINT NOT NULL,
	actor VARCHAR(210) NOT NULL,
	call VARCHAR(100) NOT NULL,
	target VARCHAR(210) NOT NULL,
	outcome VARCHAR(50) NOT NULL,
	detail TEXT NOT NULL,
	CONSTRAINT pk_audit PRIMARY KEY (id)
);

CREATE FUNCTION audit_refuse() RETURNS trigger AS $$
            BEGIN RAISE EXCEPTION 'audit is append-only'; END $$ LANGUAGE plpgsql;

CREATE TRIGGER audit_append_only
            BEFORE UPDATE OR DELETE ON audit
            FOR EACH ROW EXECUTE FUNCTION audit_refuse();

CREATE TABLE log (
	number INTEGER NOT NULL,
	session_id VARCHAR(36) NOT NULL,
	body TEXT NOT NULL,
	created_ns BIGINT NOT NULL,
	CONSTRAINT pk_log PRIMARY KEY (number)
);

CREATE INDEX ix_log_session_id ON log (session_id);

CREATE FUNCTION log_refuse() RETURNS trigger AS $$
            BEGIN RAISE EXCEPTION 'log is append-only'; END $$ LANGUAGE plpgsql;

CREATE TRIGGER log_append_only
            BEFORE UPDATE OR DELETE ON log
            FOR EACH ROW EXECUTE FUNCTION log_refuse();

CREATE TABLE reports (
	id SERIAL NOT NULL,
	policy VARCHAR(200) NOT NULL,
	number INTEGER NOT NULL,
	sessions INTEGER NOT NULL,
	method VARCHAR(300) NOT NULL,
	content TEXT NOT NULL,
	created_ns BIGINT NOT NULL,
	CONSTRAINT pk_reports PRIMARY KEY (id),
	CONSTRAINT uq_reports_policy_number UNIQUE (policy, number)
);

CREATE TABLE citation_checks (
	id SERIAL NOT NULL,
	policy VARCHAR(200) NOT NULL,
	number INTEGER NOT NULL,
	place VARCHAR(40) NOT NULL,
	holds BOOLEAN NOT NULL,
	actor VARCHAR(200) NOT NULL,
	created_ns BIGINT NOT NULL,
	CONSTRAINT pk_citation_checks PRIMARY KEY (id)
);

CREATE INDEX ix_citation_checks_policy_number ON citation_checks (policy, number);

CREATE TABLE rate_counts (
	kind VARCHAR(20) NOT NULL,
	caller VARCHAR(32) NOT NULL,
	period BIGINT NOT NULL,
	count BIGINT NOT NULL,
	CONSTRAINT pk_rate_counts PRIMARY KEY (kind, caller, period)
);

CREATE TABLE tokens (
	id SERIAL NOT NULL,
	digest VARCHAR(64) NOT NULL,
	account_id INTEGER,
	station_id INTEGER,
	created_ns BIGINT NOT NULL,
	expires_ns BIGINT,
	revoked_ns BIGINT,
	CONSTRAINT pk_tokens PRIMARY KEY (id),
	CONSTRAINT ck_tokens_one_holder CHECK ((account_id IS NULL) <> (station_id IS NULL)),
	CONSTRAINT uq_tokens_digest UNIQUE (digest),
	CONSTRAINT fk_tokens_account_id_accounts FOREIGN KEY(account_id) REFERENCES accounts (id),
	CONSTRAINT fk_tokens_station_id_stations FOREIGN KEY(station_id) REFERENCES stations (id)
);

CREATE TABLE policies (
	id SERIAL NOT NULL,
	name VARCHAR(200) NOT NULL,
	owner_id INTEGER NOT NULL,
	address VARCHAR(500) NOT NULL,
	open_source BOOLEAN NOT NULL,
	description TEXT NOT NULL,
	robot VARCHAR(50) NOT NULL,
	action_space VARCHAR(50) NOT NULL,
	external_cameras INTEGER NOT NULL,
	wrist_camera BOOLEAN NOT NULL,
	stereo BOOLEAN NOT NULL,
	state VARCHAR(20) NOT NULL,
	reason TEXT NOT NULL,
	failures INTEGER NOT NULL,
	requested INTEGER NOT NULL,
	healthy BOOLEAN NOT NULL,
	checked_ns BIGINT NOT NULL,
	created_ns BIGINT NOT NULL,
	updated_ns BIGINT NOT NULL,
	token TEXT DEFAULT '' NOT NULL,
	tls_ca TEXT DEFAULT '' NOT NULL,
	stated TEXT DEFAULT '' NOT NULL,
	spec TEXT DEFAULT '' NOT NULL,
	approved BOOLEAN DEFAULT false NOT NULL,
	appeal TEXT DEFAULT '' NOT NULL,
	CONSTRAINT pk_policies PRIMARY KEY (id),
	CONSTRAINT uq_policies_name UNIQUE (name),
	CONSTRAINT fk_policies_owner_id_accounts FOREIGN KEY(owner_id) REFERENCES accounts (id)
);

CREATE INDEX ix_policies_state ON policies (state);

CREATE INDEX ix_policies_owner_id ON policies (owner_id);

CREATE TABLE upload_days (
	station_id INTEGER NOT NULL,
	day INTEGER NOT NULL,
	bytes BIGINT NOT NULL,
	CONSTRAINT pk_upload_days PRIMARY KEY (station_id, day),
	CONSTRAINT fk_upload_days_station_id_stations FOREIGN KEY(station_id) REFERENCES stations (id)
);

CREATE TABLE entries (
	id SERIAL NOT NULL,
	transfer VARCHAR(100) NOT NULL,
	holder VARCHAR(210) NOT NULL,
	amount BIGINT NOT NULL,
	reason VARCHAR(100) NOT NULL,
	created_ns BIGINT NOT NULL,
	CONSTRAINT pk_entries PRIMARY KEY (id),
	CONSTRAINT uq_entries_transfer_holder UNIQUE (transfer, holder),
	CONSTRAINT fk_entries_holder_balances FOREIGN KEY(holder) REFERENCES balances (holder)
);

CREATE INDEX ix_entries_holder ON entries (holder);

CREATE FUNCTION entries_refuse() RETURNS trigger AS $$
            BEGIN RAISE EXCEPTION 'entries is append-only'; END $$ LANGUAGE plpgsql;

CREATE TRIGGER entries_append_only
            BEFORE UPDATE OR DELETE ON entries
            FOR EACH ROW EXECUTE FUNCTION entries_refuse();

CREATE TABLE sessions (
	id VARCHAR(36) NOT NULL,
	request VARCHAR(64) NOT NULL,
	station_id INTEGER NOT NULL,
	evaluator_id INTEGER NOT NULL,
	institution VARCHAR(200) NOT NULL,
	prompt TEXT NOT NULL,
	category VARCHAR(100) NOT NULL,
	state VARCHAR(20) NOT NULL,
	policy_a_id INTEGER,
	policy_b_id INTEGER,
	probation BOOLEAN NOT NULL,
	nonce VARCHAR(64) NOT NULL,
	commitment VARCHAR(64) NOT NULL,
	token_a VARCHAR(64) NOT NULL,
	token_b VARCHAR(64) NOT NULL,
	created_ns BIGINT NOT NULL,
	seen_ns BIGINT NOT NULL,
	ended_ns BIGINT,
	revealed_ns BIGINT,
	rollouts INTEGER NOT NULL,
	progress_a FLOAT,
	progress_b FLOAT,
	notes_a TEXT NOT NULL,
	notes_b TEXT NOT NULL,
	unsafe_a BOOLEAN,
	unsafe_b BOOLEAN,
	success_a VARCHAR(3),
	success_b VARCHAR(3),
	stage_a TEXT NOT NULL,
	stage_b TEXT NOT NULL,
	failure_tags_a TEXT NOT NULL,
	failure_tags_b TEXT NOT NULL,
	time_to_success_s_a FLOAT,
	time_to_success_s_b FLOAT,
	interventions_a FLOAT,
	interventions_b FLOAT,
	intervention_s_a FLOAT,
	intervention_s_b FLOAT,
	preference VARCHAR(3),
	explanation TEXT NOT NULL,
	notes TEXT NOT NULL,
	lighting VARCHAR(6),
	clutter VARCHAR(8),
	valid BOOLEAN,
	invalid_reason TEXT NOT NULL,
	imported BOOLEAN NOT NULL,
	accepted_ns BIGINT,
	incomplete TEXT NOT NULL,
	conflict VARCHAR(20) NOT NULL,
	withdrawn_ns BIGINT,
	repeats VARCHAR(36),
	sealed_nonce TEXT DEFAULT '' NOT NULL,
	final BOOLEAN DEFAULT false NOT NULL,
	equal_latency_s FLOAT,
	sealed_pair TEXT DEFAULT '' NOT NULL,
	third_person VARCHAR(5) DEFAULT '' NOT NULL,
	photo_code VARCHAR(8) DEFAULT '' NOT NULL,
	chosen BOOLEAN,
	study TEXT DEFAULT '' NOT NULL,
	study_sha256 VARCHAR(64) DEFAULT '' NOT NULL,
	CONSTRAINT pk_sessions PRIMARY KEY (id),
	CONSTRAINT uq_sessions_request UNIQUE (request),
	CONSTRAINT fk_sessions_station_id_stations FOREIGN KEY(station_id) REFERENCES stations (id),
	CONSTRAINT fk_sessions_evaluator_id_accounts FOREIGN KEY(evaluator_id) REFERENCES accounts (id),
	CONSTRAINT fk_sessions_policy_a_id_policies FOREIGN KEY(policy_a_id) REFERENCES policies (id),
	CONSTRAINT fk_sessions_policy_b_id_policies FOREIGN KEY(policy_b_id) REFERENCES policies (id),
	CONSTRAINT uq_sessions_token_a UNIQUE (token_a),
	CONSTRAINT uq_sessions_token_b UNIQUE (token_b)
);

CREATE INDEX ix_sessions_station_id_state ON sessions (station_id, state);

CREATE INDEX ix_sessions_preference_created_ns_id ON sessions (preference, created_ns, id);

CREATE INDEX ix_sessions_policy_a_id_created_ns_id ON sessions (policy_a_id, created_ns, id);

CREATE INDEX ix_sessions_category_created_ns_id ON sessions (category, created_ns, id);

CREATE UNIQUE INDEX ix_sessions_repeats ON sessions (repeats);

CREATE INDEX ix_sessions_state_seen_ns ON sessions (state, seen_ns);

CREATE INDEX ix_sessions_policy_b_id_created_ns_id ON sessions (policy_b_id, created_ns, id);

CREATE INDEX ix_sessions_evaluator_id_accepted_ns_created_ns ON sessions (evaluator_id, accepted_ns, created_ns);

CREATE INDEX ix_sessions_institution_created_ns_id ON sessions (institution, created_ns, id);

CREATE INDEX ix_sessions_evaluator_id_created_ns ON sessions (evaluator_id, created_ns);

CREATE INDEX ix_sessions_state_created_ns_id ON sessions (state, created_ns, id);

CREATE INDEX ix_sessions_station_id_created_ns ON sessions (station_id, created_ns);

CREATE TABLE unsafe_reports (
	id SERIAL NOT NULL,
	session_id VARCHAR(36) NOT NULL,
	slot VARCHAR(1) NOT NULL,
	created_ns BIGINT NOT NULL,
	cleared_ns BIGINT,
	cleared_by VARCHAR(200) DEFAULT '' NOT NULL,
	cleared_why TEXT DEFAULT '' NOT NULL,
	CONSTRAINT pk_unsafe_reports PRIMARY KEY (id),
	CONSTRAINT uq_unsafe_reports_session_id_slot UNIQUE (session_id, slot),
	CONSTRAINT fk_unsafe_reports_session_id_sessions FOREIGN KEY(session_id) REFERENCES sessions (id)
);

CREATE INDEX ix_unsafe_reports_cleared_ns ON unsafe_reports (cleared_ns);

CREATE TABLE episodes (
	id SERIAL NOT NULL,
	session_id VARCHAR(36) NOT NULL,
	slot VARCHAR(1),
	policy_id INTEGER,
	prompt TEXT NOT NULL,
	steps INTEGER NOT NULL,
	end_reason VARCHAR(30) NOT NULL,
	detail TEXT NOT NULL,
	progress FLOAT,
	started_ns BIGINT NOT NULL,
	ended_ns BIGINT NOT NULL,
	fault VARCHAR(10) NOT NULL,
	reruns INTEGER DEFAULT '0' NOT NULL,
	waited FLOAT,
	CONSTRAINT pk_episodes PRIMARY KEY (id),
	CONSTRAINT fk_episodes_session_id_sessions FOREIGN KEY(session_id) REFERENCES sessions (id),
	CONSTRAINT fk_episodes_policy_id_policies FOREIGN KEY(policy_id) REFERENCES policies (id)
);

CREATE INDEX ix_episodes_session_id_slot ON episodes (session_id, slot);

CREATE INDEX ix_episodes_policy_id ON episodes (policy_id);

CREATE TABLE relayed (
	id SERIAL NOT NULL,
	session_id VARCHAR(36) NOT NULL,
	slot VARCHAR(1) NOT NULL,
	station_id INTEGER NOT NULL,
	policy_id INTEGER,
	queries INTEGER NOT NULL,
	actions INTEGER NOT NULL,
	failures INTEGER NOT NULL,
	failure VARCHAR(200) NOT NULL,
	refusals INTEGER NOT NULL,
	cuts INTEGER NOT NULL,
	begun INTEGER NOT NULL,
	first_ns BIGINT NOT NULL,
	last_ns BIGINT NOT NULL,
	last_step INTEGER NOT NULL,
	last_actions INTEGER NOT NULL,
	exact TEXT NOT NULL,
	CONSTRAINT pk_relayed PRIMARY KEY (id),
	CONSTRAINT uq_relayed_session_id_slot UNIQUE (session_id, slot),
	CONSTRAINT fk_relayed_session_id_sessions FOREIGN KEY(session_id) REFERENCES sessions (id),
	CONSTRAINT fk_relayed_station_id_stations FOREIGN KEY(station_id) REFERENCES stations (id),
	CONSTRAINT fk_relayed_policy_id_policies FOREIGN KEY(policy_id) REFERENCES policies (id)
);

CREATE INDEX ix_relayed_policy_id_last_ns ON relayed (policy_id, last_ns);

CREATE TABLE manifests (
	id SERIAL NOT NULL,
	session_id VARCHAR(36) NOT NULL,
	slot VARCHAR(1) NOT NULL,
	sha256 VARCHAR(64) NOT NULL,
	content TEXT NOT NULL,
	created_ns BIGINT NOT NULL,
	CONSTRAINT pk_manifests PRIMARY KEY (id),
	CONSTRAINT uq_manifests_session_id_slot UNIQUE (session_id, slot),
	CONSTRAINT fk_manifests_session_id_sessions FOREIGN KEY(session_id) REFERENCES sessions (id)
);

CREATE TABLE recording_checks (
	session_id VARCHAR(36) NOT NULL,
	seen VARCHAR(64) NOT NULL,
	why TEXT NOT NULL,
	created_ns BIGINT NOT NULL,
	CONSTRAINT pk_recording_checks PRIMARY KEY (session_id),
	CONSTRAINT fk_recording_checks_session_id_sessions FOREIGN KEY(session_id) REFERENCES sessions (id)
);

CREATE TABLE files (
	id SERIAL NOT NULL,
	session_id VARCHAR(36) NOT NULL,
	slot VARCHAR(1) NOT NULL,
	path VARCHAR(300) NOT NULL,
	size BIGINT NOT NULL,
	sha256 VARCHAR(64) NOT NULL,
	received BIGINT NOT NULL,
	complete BOOLEAN NOT NULL,
	updated_ns BIGINT NOT NULL,
	erased_ns BIGINT,
	CONSTRAINT pk_files PRIMARY KEY (id),
	CONSTRAINT uq_files_session_id_slot_path UNIQUE (session_id, slot, path),
	CONSTRAINT fk_files_session_id_sessions FOREIGN KEY(session_id) REFERENCES sessions (id)
);

CREATE TABLE categories (
	id SERIAL NOT NULL,
	session_id VARCHAR(36) NOT NULL,
	category VARCHAR(100) NOT NULL,
	method VARCHAR(20) NOT NULL,
	model VARCHAR(200) NOT NULL,
	prompt_version VARCHAR(20) NOT NULL,
	confidence FLOAT,
	scene TEXT NOT NULL,
	actor VARCHAR(200) NOT NULL,
	created_ns BIGINT NOT NULL,
	CONSTRAINT pk_categories PRIMARY KEY (id),
	CONSTRAINT fk_categories_session_id_sessions FOREIGN KEY(session_id) REFERENCES sessions (id)
);

CREATE INDEX ix_categories_session_id ON categories (session_id);
