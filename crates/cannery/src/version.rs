//! Which version this is.

/// The version in `cannery.json` and in rows.
pub(crate) const NAME: &str = concat!("cannery ", env!("CARGO_PKG_VERSION"));

/// The version alone.
pub(crate) const SHORT: &str = env!("CARGO_PKG_VERSION");

/// The commit it was built from, or `unknown` outside a repository.
pub(crate) const COMMIT: &str = env!("CANNERY_COMMIT");

/// What `--version` prints.
pub(crate) const LONG: &str = concat!(env!("CARGO_PKG_VERSION"), " (", env!("CANNERY_COMMIT"), ")");
