//! Resource limits of the process: descriptors and locked memory.

use std::fs;

use headlong_units::Bytes;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::settings::Settings;
use headlong_report::say;

/// Raises the limits of descriptors and locked memory as far as permitted, and reports a shortage.
/// Up to `files` descriptors may be needed.
pub(crate) fn raise_limits(settings: &Settings, files: u64) {
    if let Some(limit) = raise(Resource::Nofile).filter(|limit| *limit < files) {
        say!(
            "headlong: only {limit} descriptors may be open, {files} may be needed; raise LimitNOFILE, or \
             lower streams_max"
        );
    }
    let memory = Bytes(settings.engine.memory_bytes);
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let limit = raise(Resource::Memlock).filter(|limit| *limit < memory.0);
    if let Some(limit) = limit.filter(|_| !may_lock_any(&status)) {
        say!("headlong: {}", too_little_locked(Bytes(limit), memory));
    }
}

/// Root without the capability, as in most containers, is limited like any other user.
fn too_little_locked(limit: Bytes, memory: Bytes) -> String {
    format!(
        "only {limit} of memory = {memory} may be locked: the kernel may evict prefetched pages \
         before they are read; grant CAP_IPC_LOCK, which root in a container often lacks, or raise \
         LimitMEMLOCK (`ulimit -l`)"
    )
}

/// Whether `/proc/self/status` shows CAP_IPC_LOCK, which lifts the limit.
fn may_lock_any(status: &str) -> bool {
    const CAP_IPC_LOCK: u32 = 14;
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let effective = effective.and_then(|text| u64::from_str_radix(text.trim(), 16).ok());
    effective.is_some_and(|bits| bits >> CAP_IPC_LOCK & 1 == 1)
}

/// Raises a limit as far as permitted, and returns it; `None` for no limit.
fn raise(resource: Resource) -> Option<u64> {
    let none = Rlimit {
        current: None,
        maximum: None,
    };
    if resource == Resource::Memlock && setrlimit(resource, none).is_ok() {
        return None;
    }
    let own = getrlimit(resource);
    let highest = Rlimit {
        current: own.maximum,
        maximum: own.maximum,
    };
    let _ = setrlimit(resource, highest);
    getrlimit(resource).current
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_lock_warning_names_the_capability() {
        let told = too_little_locked(Bytes(8 << 20), Bytes(1 << 30));
        assert!(
            told.contains("CAP_IPC_LOCK") && told.contains("ulimit -l"),
            "{told}"
        );
        assert!(!told.contains("as root"), "{told}");
    }

    #[test]
    fn root_without_the_capability_may_not_lock_any_memory() {
        // The usual set in a container, and the full set.
        let status = |set: &str| format!("Uid:\t0\t0\t0\t0\nCapPrm:\t{set}\nCapEff:\t{set}\n");
        assert!(!may_lock_any(&status("00000000a80425fb")));
        assert!(may_lock_any(&status("000001ffffffffff")));
        assert!(!may_lock_any(""));
    }
}
