//! Starts the real programs. `cargo xtask setup` installs them; `--features real-servers` runs these tests.
#![cfg(feature = "real-servers")]

mod browser;
mod long_stores;
mod postgres;
mod stores;
