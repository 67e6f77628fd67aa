//! How many files and sockets the process may have open, and who gets them.
//!
//! The one idea: connections may not take what disks need. Whatever the limit, some descriptors are
//! kept for what is opened beside files and sockets, and the rest is shared out at the start.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Kept for listeners, logs, certificates, the operator's connections and folders being scanned.
const RESERVE: u64 = 64;
/// Kept for each device: its ring, its wake-ups, its roots, and files being opened or waiting for
/// their stream to be registered.
const RESERVE_PER_DEVICE: u64 = 48;
/// The least files that a device may keep open.
const FILES_MIN: u64 = 8;

/// What is kept open at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shares {
    /// Connections of viewers.
    pub connections_max: usize,
    /// Files of each device, beside those that replies run on.
    pub open_files_max: usize,
}

/// Raises the limit of the process as far as it may; the limit in force.
pub fn raise_limit() -> u64 {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current == maximum {
        return current.unwrap_or(u64::MAX);
    }
    let raised = Rlimit {
        current: maximum,
        maximum,
    };
    match setrlimit(Resource::Nofile, raised) {
        Ok(()) => maximum.unwrap_or(u64::MAX),
        Err(error) => {
            tracing::debug!(%error, "the limit of open files cannot be raised");
            current.unwrap_or(u64::MAX)
        }
    }
}

/// What is wanted if it fits under the limit of open files, else less of both, and a warning. Every
/// connection may have a reply running on a file of its own.
pub fn share_out(limit: u64, wanted: Shares, devices: usize) -> Shares {
    let devices = (devices as u64).max(1);
    let (connections, files) = (wanted.connections_max as u64, wanted.open_files_max as u64);
    let left = limit.saturating_sub(RESERVE + RESERVE_PER_DEVICE * devices);
    if connections
        .saturating_mul(2)
        .saturating_add(files.saturating_mul(devices))
        <= left
    {
        return wanted;
    }
    let files = files.min((left / 4 / devices).max(FILES_MIN));
    let connections = connections.min((left.saturating_sub(files * devices) / 2).max(1));
    let number = |value: u64| usize::try_from(value).unwrap_or(usize::MAX);
    let shares = Shares {
        connections_max: number(connections),
        open_files_max: number(files),
    };
    tracing::warn!(
        limit,
        connections_max = shares.connections_max,
        open_files_max = shares.open_files_max,
        "the limit of open files is too low for connections_max and open_files_max, so both are \
         lower; raise LimitNOFILE (ulimit -n)"
    );
    shares
}

#[cfg(test)]
mod tests {
    use super::*;

    const WANTED: Shares = Shares {
        connections_max: 16_384,
        open_files_max: 1024,
    };

    #[test]
    fn what_fits_is_given_and_what_does_not_is_shared_with_some_left_over() {
        assert_eq!(share_out(1 << 20, WANTED, 4), WANTED);
        for (limit, devices) in [(256, 1), (1024, 1), (1024, 4), (4096, 2)] {
            let shares = share_out(limit, WANTED, devices);
            let used = 2 * shares.connections_max + devices * shares.open_files_max;
            let reserve = limit as usize - used;
            assert!(reserve >= 64, "{limit} {devices}: {shares:?}");
            assert!(
                shares.connections_max >= 16,
                "{limit} {devices}: {shares:?}"
            );
        }
    }

    #[test]
    fn any_limit_leaves_something_of_each() {
        let shares = share_out(0, WANTED, 3);
        assert!(shares.connections_max >= 1 && shares.open_files_max >= 1);
    }
}
