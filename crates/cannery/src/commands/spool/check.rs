//! placeholder
use crate::failure::{ExitCode, Failure};
pub(super) async fn run(_: &[&crate::config::spool::SpoolConfig], _: &crate::cli::StorageArg, _: &crate::config::Config, _: &super::Context) -> Result<ExitCode, Failure> { Ok(ExitCode::Ok) }
