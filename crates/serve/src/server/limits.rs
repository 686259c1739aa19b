//! How many connections a listener holds.

/// As many as any machine needs that serves people and programs.
const CONNECTIONS_MAX: usize = 4096;
/// A connection out of so many is kept from the API.
const RESERVED_SHARE: usize = 8;

/// The limits of one listener: a crowd on one cannot lock out the other. Further clients wait in the backlog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ConnectionLimits {
    /// All.
    pub(crate) connections: usize,
    /// Those that have asked for anything of the API: the others are left for the dashboard and for who watches over it.
    pub(crate) api_connections: usize,
}

impl ConnectionLimits {
    /// At most half of the file descriptors that the process may have: the lake, the journal and the disk need some, too.
    pub(crate) fn of_this_process() -> Self {
        let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
        let descriptors = limit.map_or(usize::MAX, |limit| {
            usize::try_from(limit).unwrap_or(usize::MAX)
        });
        Self::within(descriptors)
    }

    fn within(descriptors: usize) -> Self {
        let connections = (descriptors / 2).clamp(16, CONNECTIONS_MAX);
        Self {
            connections,
            api_connections: connections - connections / RESERVED_SHARE,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_kept_from_the_api() {
        for (descriptors, connections, api_connections) in
            [(usize::MAX, 4096, 3584), (1024, 512, 448), (0, 16, 14)]
        {
            let expected = ConnectionLimits {
                connections,
                api_connections,
            };
            assert_eq!(ConnectionLimits::within(descriptors), expected);
        }
    }
}
