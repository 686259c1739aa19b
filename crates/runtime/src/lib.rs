//! The one door to time, chance, tasks and the local disk.
//!
//! Everything above asks this crate for the time, for randomness, for background tasks and for durable files, so that a
//! test can live a week in a second, a failure has a seed, and every write can be made to fail.

pub mod clock;
pub mod disk;
pub mod folder_lock;
pub mod rng;
pub mod secret;
pub mod shutdown;
mod sys;
pub mod tasks;
pub mod workspace;

pub use clock::Clock;
pub use disk::{Disk, RealDisk};
pub use rng::Rng;
pub use secret::{PrivateUrl, Secret};
pub use tasks::Tasks;
