//! Memory available to this process: the machine's memory, or the limit of a control group (a
//! container, `MemoryMax=` of a unit) if lower. The kernel kills a server that exceeds it.

use std::fs;
use std::path::Path;

/// A memory limit and its owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MemoryLimit {
    pub(crate) bytes: u64,
    /// Used in messages of the form "than … has".
    pub(crate) owner: &'static str,
}

/// Memory available to this process in bytes; `None` if unknown.
pub fn memory_available() -> Option<u64> {
    available().map(|available| available.bytes)
}

/// Memory available to this process; `None` if unknown.
pub(crate) fn available() -> Option<MemoryLimit> {
    let info = rustix::system::sysinfo();
    let machine = (info.totalram as u64).saturating_mul(u64::from(info.mem_unit));
    let machine = Some(machine).filter(|bytes| *bytes > 0);
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    least(
        machine,
        limit_of_groups(Path::new("/sys/fs/cgroup"), &groups),
    )
}

fn least(machine: Option<u64>, group: Option<u64>) -> Option<MemoryLimit> {
    let machine = machine.map(|bytes| (bytes, "this machine"));
    let group = group.map(|bytes| (bytes, "the control group of this process"));
    let least = machine
        .into_iter()
        .chain(group)
        .min_by_key(|(bytes, _)| *bytes);
    least.map(|(bytes, owner)| MemoryLimit { bytes, owner })
}

/// The lowest limit of the groups in `text` (in the format of `/proc/self/cgroup`, cgroups(7)) and
/// of their parents; `mounted` is the mount point of cgroups. A container sees its own group as the
/// root.
fn limit_of_groups(mounted: &Path, text: &str) -> Option<u64> {
    let limits = text.lines().filter_map(|line| {
        let mut fields = line.splitn(3, ':');
        let (_, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
        let (top, file) = match controllers {
            "" => (mounted.to_path_buf(), "memory.max"),
            "memory" => (mounted.join("memory"), "memory.limit_in_bytes"),
            _ => return None,
        };
        let own = top.join(path.trim_start_matches('/'));
        let around = own
            .ancestors()
            .take_while(|folder| folder.starts_with(&top));
        // Without a limit the file holds `max`, or a number larger than any memory.
        let limit = |folder: &Path| {
            fs::read_to_string(folder.join(file))
                .ok()?
                .trim()
                .parse()
                .ok()
        };
        around.filter_map(limit).min()
    });
    limits.min()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a folder");
        for (path, text) in files {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            fs::write(path, text).expect("written");
        }
        folder
    }

    #[test]
    fn limits_of_group_and_parents_apply_in_both_versions() {
        let second = with(&[
            ("a.slice/memory.max", "3000000\n"),
            ("a.slice/b.service/memory.max", "max\n"),
        ]);
        let limit = |text: &str| limit_of_groups(second.path(), text);
        assert_eq!(limit("0::/a.slice/b.service\n"), Some(3_000_000));
        assert_eq!(limit("0::/c.slice\n"), None);
        let first = with(&[
            ("memory/memory.limit_in_bytes", "9223372036854771712\n"),
            ("memory/x/memory.limit_in_bytes", "5000000\n"),
        ]);
        let text = "5:devices:/x\n4:memory:/x/y\n0::/\n";
        assert_eq!(limit_of_groups(first.path(), text), Some(5_000_000));
    }

    #[test]
    fn lower_limit_applies_and_names_its_owner() {
        let owner = |machine, group| least(machine, group).map(|least| least.owner);
        assert_eq!(owner(Some(10), None), Some("this machine"));
        assert_eq!(owner(Some(10), Some(u64::MAX)), Some("this machine"));
        let group = Some("the control group of this process");
        assert_eq!(owner(Some(10), Some(9)), group);
        assert_eq!(owner(None, None), None);
    }
}
