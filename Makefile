# Set-up, tests and demonstration of a fresh clone. `make help` lists the targets.
#
# make setup PYTHON=/path/to/python3.12    another Python (3.10 to 3.13)
# make test TESTS=test/policy ARGS='-x'    some tests, with more options for pytest
# make demo KEEP=1 ARGS='--sessions 4'     keep the site running, with more options for the demo

SHELL := /bin/sh
ARENA := .venv/bin/arena
PY := .venv/bin/python
TESTS ?= test
ARGS ?=

# Containers often set this variable; every test process would then compile all imports again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup test test-demo first-hours walks lerobot attack wheels install-check lint lock sbom demo bench
.PHONY: docs proto clean

help:  ## list the targets
	@sed -n 's/^\([a-z-]*\):.*##/  make \1\t/p' Makefile | expand -t 20

setup:  ## environment in .venv: ROS 2 from wheels, both packages built; only changed parts
	@.ci/setup

# Tests talk ROS on this machine only, in a domain that another run does not use. Many wait for
# processes, so there is one worker more than cores, up to 4. Those marked alone measure times and
# come last, one by one. (5 is pytest's word for: no such tests here.)
PYTEST := $(PY) -m pytest --durations=10 --timeout=300
WORKERS := $(shell cores=$$(nproc); echo $$((cores < 3 ? cores + 1 : 4)))
PARALLEL := -n $(WORKERS) --dist loadfile --no-loadscope-reorder
test:  ## run the tests
	@.ci/setup --test
	@export ROS_DOMAIN_ID=$${ROS_DOMAIN_ID:-$$(( $$$$ % 90 + 1 ))}; \
	export ROS_AUTOMATIC_DISCOVERY_RANGE=LOCALHOST MUJOCO_GL=egl; \
	$(PYTEST) $(PARALLEL) -m 'not alone' $(ARGS) $(TESTS); many=$$?; \
	[ $$many = 0 ] || [ $$many = 5 ] || exit 1; \
	$(PYTEST) -m alone $(ARGS) $(TESTS); alone=$$?; \
	[ $$alone = 0 ] || [ $$many$$alone = 05 ]

test-demo: setup  ## interrupt a demonstration five times and check that it still completes
	@ARENA_TEST_DEMO=1 MUJOCO_GL=egl ROS_AUTOMATIC_DISCOVERY_RANGE=LOCALHOST \
	$(PY) -m pytest --timeout=900 test/demo/test_demo.py

first-hours: setup  ## what a newcomer of each role does first, by the commands that the pages print
	@ARENA_TEST_WALKS=1 $(PY) -m pytest --timeout=600 -s -q $(ARGS) test/cli/test_walks.py

walks: first-hours  ## the same, and what is long in the tests
	@ARENA_TEST_WALKS=1 $(PY) -m pytest --timeout=600 $(ARGS) \
		test/web/test_console_faults.py test/drivers/test_franka.py \
		test/drivers/test_franka_faults.py test/drivers/test_franka_killed.py \
		test/drivers/test_franka_model.py test/nodes/test_station_emulated.py \
		test/nodes/test_station_droid.py test/nodes/test_station_franka.py \
		test/drivers/test_sim_tasks.py test/nodes/test_session_kills.py \
		test/server/test_server_process.py test/server/test_invariants.py \
		test/recording/test_export_import.py test/policy/test_example_trials.py \
		test/recording/test_labelled_videos.py \
		test/nodes/test_session_ended.py

lerobot: setup  ## with LeRobot in ARENA_LEROBOT's Python: exports, robots and policies, both ways
	@test -x "$$ARENA_LEROBOT" || { echo 'set ARENA_LEROBOT: CONTRIBUTING.md'; exit 2; }
	@MUJOCO_GL=egl $(PY) -m pytest --timeout=900 -v -rs $(ARGS) -k 'lerobot and not TestLeRobot' \
		test/recording/test_export_readers.py test/drivers/test_lerobot_robot.py \
		test/blind/test_blind_verb.py

attack: setup  ## odd inputs, damaged bags, shams, a server leaned on, kills, full disks; B and C: 10 minutes
	@$(PY) test/attack/campaign.py $(ARGS)

wheels: setup  ## what is published, in dist/: the package and the ROS messages
	@$(PY) .ci/wheels.py

install-check: setup  ## build the wheels, install each extra alone, run its role's first command
	@ARENA_TEST_WHEELS=1 $(PY) -m pytest --timeout=1800 -s $(ARGS) test/test_wheels.py

# Two processes of mypy can lose each other on a busy machine; one process then has the last word.
lint: setup  ## check style, types, and that generated code matches its sources
	@.venv/bin/ruff check --output-format concise .
	@.venv/bin/mypy || .venv/bin/mypy -n 0
	@$(PY) .ci/proto.py --check
	@$(PY) .ci/supply_chain.py --check

lock: setup  ## lock file with hashes of all run-time packages, after a change of requirements
	@$(PY) .ci/supply_chain.py --lock --sbom --check

sbom: setup  ## list of what is shipped (CycloneDX) and of its licences, from the lock file
	@$(PY) .ci/supply_chain.py --sbom --check

demo: setup  ## a tournament of policies on a simulated station; KEEP=1 keeps the site running
	@$(ARENA) demo $(if $(KEEP),--keep) $(ARGS)

docs:  ## the documentation as a site, in build/docs; warnings and broken links are errors
	@.ci/setup --docs
	@$(PY) -m mkdocs build --strict

bench:  ## run the benchmarks, with comparisons to other libraries
	@.ci/setup --bench
	@for file in bench/bench_*.py; do \
		[ -e "$$file" ] || continue; \
		printf '\n== %s\n' "$$file"; \
		MUJOCO_GL=egl ROS_AUTOMATIC_DISCOVERY_RANGE=LOCALHOST $(PY) "$$file" || exit 1; \
	done

proto: setup  ## generate code from the .proto files
	@$(PY) .ci/proto.py

clean:  ## remove the files that the other targets made
	rm -rf .venv build install log out dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
