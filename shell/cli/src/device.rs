//! Which device a folder lies on, as the kernel tells it.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use anyhow::Context as _;

/// A device as far as sysfs shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Device {
    /// Kernel name of the whole device (`sda`), or `none` with its number where there is no
    /// block device (network and stacked file systems).
    pub(crate) name: String,
    /// Whether the kernel says it rotates; a device it does not know counts as not rotating.
    pub(crate) rotational: bool,
}

/// The device under `folder`.
pub(crate) fn of(folder: &Path) -> anyhow::Result<Device> {
    let metadata =
        fs::metadata(folder).with_context(|| format!("cannot look at {}", folder.display()))?;
    let (major, minor) = (
        rustix::fs::major(metadata.dev()),
        rustix::fs::minor(metadata.dev()),
    );
    let number = format!("{major}:{minor}");
    Ok(in_sysfs(Path::new("/sys"), &number).unwrap_or(Device {
        name: format!("none-{number}"),
        rotational: false,
    }))
}

/// Looks the number up. A partition has no queue of its own: its parent folder has.
fn in_sysfs(sys: &Path, number: &str) -> Option<Device> {
    let entry = fs::canonicalize(sys.join("dev/block").join(number)).ok()?;
    let whole = [entry.as_path(), entry.parent()?]
        .into_iter()
        .find(|folder| folder.join("queue/rotational").exists())?;
    let rotational = fs::read_to_string(whole.join("queue/rotational")).ok()?;
    Some(Device {
        name: whole.file_name()?.to_str()?.to_string(),
        rotational: rotational.trim() == "1",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_is_read_through_its_whole_device() {
        let sys = tempfile::tempdir().expect("a folder");
        let whole = sys.path().join("devices/pci0/block/sda");
        fs::create_dir_all(whole.join("queue")).expect("made");
        fs::create_dir_all(whole.join("sda1")).expect("made");
        fs::write(whole.join("queue/rotational"), "1\n").expect("written");
        fs::create_dir_all(sys.path().join("dev/block")).expect("made");
        for (number, target) in [("8:0", whole.clone()), ("8:1", whole.join("sda1"))] {
            let link = sys.path().join("dev/block").join(number);
            std::os::unix::fs::symlink(target, link).expect("linked");
        }
        let sda = Some(Device {
            name: "sda".into(),
            rotational: true,
        });
        assert_eq!(in_sysfs(sys.path(), "8:0"), sda);
        assert_eq!(in_sysfs(sys.path(), "8:1"), sda);
        assert_eq!(in_sysfs(sys.path(), "9:9"), None);
    }
}
