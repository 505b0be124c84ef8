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
