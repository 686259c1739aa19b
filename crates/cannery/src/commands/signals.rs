//! Requests to stop a command that would go on by itself.

use std::time::Duration;

use cannery_runtime::Clock;
use cannery_runtime::shutdown::StopRequests;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use crate::failure::{ExitCode, Failure};

/// Requests so close to each other are one.
const SAME_REQUEST: Duration = Duration::from_millis(500);

/// The first request cancels `stop`; the second ends the process at once, for the person who does not want to wait.
pub(super) fn follow(stop: CancellationToken) -> Result<AbortOnDropHandle<()>, Failure> {
    follow_with(stop, || {})
}

/// The same, with what must be done even when the process ends at once.
pub(super) fn follow_with(
    stop: CancellationToken,
    at_last: impl FnOnce() + Send + 'static,
) -> Result<AbortOnDropHandle<()>, Failure> {
    let mut requests = StopRequests::listen().map_err(|error| {
        Failure::new(
            ExitCode::Error,
            "signals",
            format!("cannot listen for signals: {error}"),
            "check the limits of this process",
        )
    })?;
    Ok(AbortOnDropHandle::new(tokio::spawn(async move {
        let signal = requests.next().await;
        tracing::info!(signal, "stopping; once more to stop at once");
        stop.cancel();
        let clock = Clock::real();
        let first = clock.elapsed();
        // Some programs send one request twice, to the process and to its group.
        while clock.since(first) < SAME_REQUEST {
            requests.next().await;
        }
        at_last();
        #[allow(clippy::exit, reason = "the person asked twice")]
        std::process::exit(130);
    })))
}
