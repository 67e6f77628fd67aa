//! A control group with a memory limit, page cache included.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::RigError;
use super::cleanup_guard::CleanupGuard;

/// Version 2: a single hierarchy.
const ROOT_V2: &str = "/sys/fs/cgroup";
/// Version 1: one hierarchy per controller.
const ROOT_V1: &str = "/sys/fs/cgroup/memory";
const PATIENCE: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(20);

/// The cgroup interface of the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CgroupVersion {
    One,
    Two,
}

/// The available version, if memory can be limited.
pub(crate) fn version() -> Option<CgroupVersion> {
    if Path::new(ROOT_V1).join("memory.limit_in_bytes").exists() {
        return Some(CgroupVersion::One);
    }
    let controllers = fs::read_to_string(Path::new(ROOT_V2).join("cgroup.controllers"));
    let has_memory = controllers.is_ok_and(|text| text.split_whitespace().any(|c| c == "memory"));
    has_memory.then_some(CgroupVersion::Two)
}

/// Memory use of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub struct MemoryUse {
    /// Peak of total memory, in bytes.
    pub peak_bytes: u64,
    /// Page cache at sampling time.
    pub page_cache_bytes: u64,
    /// Part of it on the kernel's active list, which is reclaimed last.
    pub active_file_bytes: u64,
    /// Anonymous memory at sampling time.
    pub anonymous_bytes: u64,
}

/// A group; when dropped, its processes are killed and it is removed.
#[derive(Debug)]
pub(crate) struct ControlGroup {
    folder: PathBuf,
    version: CgroupVersion,
}

impl ControlGroup {
    /// Creates a group. The name must be unique on the machine.
    pub(crate) fn make(
        guard: &CleanupGuard,
        name: &str,
        limit: Option<u64>,
    ) -> Result<Self, RigError> {
        let lack = "memory cannot be limited: no memory controller below /sys/fs/cgroup; mount one";
        let version = version().ok_or_else(|| RigError::Machine(lack.to_owned()))?;
        let root = match version {
            CgroupVersion::One => ROOT_V1,
            CgroupVersion::Two => ROOT_V2,
        };
        let folder = Path::new(root).join(name);
        guard.note_group(&folder)?;
        if version == CgroupVersion::Two {
            // Already enabled, or not permitted: then writing the limit below fails.
            let _ = fs::write(Path::new(root).join("cgroup.subtree_control"), "+memory");
        }
        fs::create_dir(&folder).map_err(|error| RigError::io(folder.display(), error))?;
        let group = Self { folder, version };
        if let Some(limit) = limit {
            let file = match version {
                CgroupVersion::One => "memory.limit_in_bytes",
                CgroupVersion::Two => "memory.max",
            };
            let written = fs::write(group.folder.join(file), limit.to_string());
            written.map_err(|error| RigError::io(group.folder.join(file).display(), error))?;
        }
        Ok(group)
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Its processes.
    pub(crate) fn processes(&self) -> Vec<u32> {
        let text = fs::read_to_string(self.folder.join("cgroup.procs")).unwrap_or_default();
        text.lines().filter_map(|line| line.parse().ok()).collect()
    }

    pub(crate) fn memory(&self) -> MemoryUse {
        let (peak, cache, anonymous) = match self.version {
            CgroupVersion::One => ("memory.max_usage_in_bytes", "cache", "rss"),
            CgroupVersion::Two => ("memory.peak", "file", "anon"),
        };
        let text = |file: &str| fs::read_to_string(self.folder.join(file)).unwrap_or_default();
        let stat = text("memory.stat");
        let value = |name: &str| {
            let line = stat
                .lines()
                .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
            line.and_then(|number| number.trim().parse().ok())
                .unwrap_or(0)
        };
        MemoryUse {
            peak_bytes: text(peak).trim().parse().unwrap_or(0),
            page_cache_bytes: value(cache),
            active_file_bytes: value("active_file"),
            anonymous_bytes: value(anonymous),
        }
    }

    /// Kills its remaining processes and removes it.
    pub(crate) fn remove(&self) -> io::Result<()> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            for id in self.processes() {
                if let Some(pid) = i32::try_from(id).ok().and_then(Pid::from_raw) {
                    let _ = kill_process(pid, Signal::KILL);
                }
            }
            if self.version == CgroupVersion::One && self.processes().is_empty() {
                // Otherwise its page cache would stay in memory without an owner.
                let _ = fs::write(self.folder.join("memory.force_empty"), "0");
            }
            match fs::remove_dir(&self.folder) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
                Err(_) if Instant::now() < deadline => std::thread::sleep(POLL),
                other => return other,
            }
        }
    }
}

impl Drop for ControlGroup {
    fn drop(&mut self) {
        // The guardian retries.
        let _ = self.remove();
    }
}
