//! Starts the real programs. `cargo xtask setup` installs them; `--features real-servers` runs these tests, and
//! `--features long-servers` also those of the servers that only the long run has.
#![cfg(feature = "real-servers")]

#[cfg(test)]
mod browser;
#[cfg(all(test, feature = "long-servers"))]
mod long_stores;
#[cfg(test)]
mod postgres;
#[cfg(test)]
mod stores;
