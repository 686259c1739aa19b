//! `cannery collect` and what goes with it, judged by an auditor that shares no code with it.

mod both;
mod commands;
mod flush;
#[cfg(feature = "sim")]
mod kill;
pub(crate) mod node;
#[cfg(feature = "real-servers")]
mod page;
#[cfg(feature = "real-servers")]
mod servers;
mod trouble;
#[cfg(feature = "sim")]
mod weeks;
