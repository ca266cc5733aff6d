//! From PgBouncer's files to `corun.toml`.

mod keys;

pub(super) use keys::advice;
