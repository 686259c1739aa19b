//! SIGTERM and SIGINT as requests to stop, SIGHUP as requests to reload.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Requests to stop this process. From the moment it exists, the process no longer dies of them.
#[derive(Debug)]
pub struct StopRequests {
    terminate: Signal,
    interrupt: Signal,
}

impl StopRequests {
    /// Listens for SIGTERM and SIGINT.
    ///
    /// # Errors
    /// When the signal handlers cannot be installed.
    pub fn listen() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    /// Waits for the next one and names it.
    pub async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}

/// Every SIGHUP from now on.
///
/// # Errors
/// When the signal handler cannot be installed.
pub fn reload_requests() -> io::Result<Signal> {
    signal(SignalKind::hangup())
}
