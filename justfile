# Short names for long commands. Nothing needs `just`: each recipe is one line that can be typed as it stands.

# What there is.
default:
    @just --list

# Everything that CI runs.
ci:
    .ci/run

# All tests of the workspace.
test:
    scripts/test tests

# Formats Rust and Python.
fmt:
    cargo fmt --all
    target/tools/bin/ruff format

# Formatting, house rules, clippy, each feature alone.
lint:
    scripts/test fmt house tools python clippy features

# The API's documentation, broken links denied.
docs:
    scripts/test docs

# Licences, sources, duplicates and the arrows between crates.
deny:
    scripts/test tools deny

# Known vulnerabilities; fetches the advisory database from GitHub.
advisories:
    cargo deny check advisories

# Breaks the protocol, one line at a time; a named test must notice each.
mutants-protocol *names:
    scripts/mutants-protocol {{names}}

# Random histories of every store, many more than a push waits for.
histories count='10000':
    ONCEGATE_HISTORIES={{count}} cargo test --package oncegate-core --package oncegate-store --all-features random_histories

# kill -9 at each named point of the flow, 20 times each; prints what was in flight.
crash kills='20':
    ONCEGATE_KILLS={{kills}} cargo test --package oncegate --features crash-points --test crash -- --nocapture

# The Django example, stormed with 100 keys x 300 repeats, directly and through the gate; a worker is killed 20 times.
storm-drf:
    ONCEGATE_STORM_FULL=1 ONCEGATE_KILLS=20 cargo test --package oncegate --test drf_payments -- --nocapture

# The Python package, with a worker killed 20 times at each step and storms of 100 keys x 300 repeats.
client-full versions='pinned':
    ONCEGATE_KILLS=20 ONCEGATE_STORM_FULL=1 scripts/python-client {{versions}}

# Cycles per second of a store: PostgreSQL against the plain recipe, SQLite against one commit per verb.
bench-store *options:
    cargo run --release -- bench store {{options}}

# Requests per second of a DRF view: guarded, and not (needs wrk, and scripts/python-client once).
bench-django *options:
    target/python-client-pinned/bin/python scripts/bench-django {{options}}

# CPU and latency of the gateway, against a bare proxy and nginx (needs wrk and nginx).
bench-gateway *options:
    cargo run --release -- bench gateway {{options}}

# Time of a fingerprint.
bench-fingerprint:
    cargo bench --package oncegate-core --bench fingerprint
