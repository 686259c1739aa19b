//! The binary as a person or a script uses it.

#[cfg(feature = "real-servers")]
mod browser;
mod errors;
mod lake;
mod program;
mod secrets;
#[cfg(feature = "real-servers")]
mod storage;
mod up;
