//! Allocation of file descriptors between connections and disks.
//!
//! Connections must not take the descriptors that disks need. Whatever the limit, some descriptors
//! are reserved for other purposes, and the rest is divided at start-up.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Reserved for listeners, logs, certificates, operators' connections and scans.
const RESERVE: u64 = 64;
/// Reserved per device: its ring, events, roots, and files being opened or waiting for the
/// registration of their stream.
const RESERVE_PER_DEVICE: u64 = 48;
/// Minimum number of files per device.
const FILES_MIN: u64 = 8;

/// Limits of open descriptors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DescriptorLimits {
    /// Limit of viewers' connections.
    pub connections_max: usize,
    /// Limit of files per device, besides those with a running reply.
    pub open_files_max: usize,
    /// Whether an operator chose one of them.
    pub are_chosen: bool,
}

/// Fewer connections are worth a warning, even if no other number was chosen.
const CONNECTIONS_FEW: usize = 1024;

/// Raises the limit of the process as far as permitted; returns the limit in force.
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
            tracing::debug!(%error, "cannot raise the limit of open files");
            current.unwrap_or(u64::MAX)
        }
    }
}

/// Returns `wanted` if it fits within the limit of open files, otherwise smaller limits, with a
/// warning if that is not expected. Each connection may have a running reply with a file of its own.
pub fn share_out(limit: u64, wanted: DescriptorLimits, devices: usize) -> DescriptorLimits {
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
    let shares = DescriptorLimits {
        connections_max: number(connections),
        open_files_max: number(files),
        ..wanted
    };
    let (connections_max, open_files_max) = (shares.connections_max, shares.open_files_max);
    match wanted.are_chosen || connections_max < CONNECTIONS_FEW {
        true => tracing::warn!(
            limit,
            connections_max,
            open_files_max,
            "the limit of open files is too low for connections_max and open_files_max, so both \
             were lowered; raise LimitNOFILE (ulimit -n)"
        ),
        false => tracing::info!(
            limit,
            connections_max,
            open_files_max,
            "connections_max and open_files_max follow the limit of open files"
        ),
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::*;

    const WANTED: DescriptorLimits = DescriptorLimits {
        connections_max: 16_384,
        open_files_max: 1024,
        are_chosen: false,
    };

    #[test]
    fn limits_are_kept_if_they_fit_and_divided_otherwise() {
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
    fn every_limit_leaves_some_connections_and_files() {
        let shares = share_out(0, WANTED, 3);
        assert!(shares.connections_max >= 1 && shares.open_files_max >= 1);
    }
}
