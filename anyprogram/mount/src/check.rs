//! Checks whether a mount can be made: the tree, the mount point, the disks, and `/dev/fuse`.

use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use headlong_config::Config;
use headlong_library::{MountedRoot, inspect_roots};
use headlong_settings::Document;

use crate::point::{self, RecoveryResult};

/// The tree and the mount point.
pub(crate) struct MountPaths {
    pub(crate) directory: PathBuf,
    pub(crate) mount_point: PathBuf,
}

/// Records what this machine lacks, and makes both paths absolute and free of symbolic links.
pub(crate) fn machine(document: &mut Document, ends: &mut MountPaths, disks: &Config) {
    let directory = match tree(&ends.directory) {
        Ok(directory) => Some(directory),
        Err(text) => {
            document.wrong_too("directory", text);
            None
        }
    };
    let mount_point = match mount_point(&ends.mount_point) {
        Ok(mount_point) => Some(mount_point),
        Err(text) => {
            document.wrong_too("mount_point", text);
            None
        }
    };
    if let Some(mount_point) = &mount_point {
        let around = directory.as_deref();
        let overlap = around.and_then(|directory| overlap(directory, mount_point));
        // An overlap is reported first: a folder that holds the tree is never empty.
        if let Some(text) = overlap.or_else(|| conflict(mount_point)) {
            document.wrong_too("mount_point", text);
        }
    }
    if let Some(directory) = directory {
        match inspect_roots(&[MountedRoot::at("", &directory)], 0) {
            Ok(seen) => disks.check_disks(&seen.devices, document),
            Err(errors) => errors
                .iter()
                .for_each(|error| document.wrong_too("directory", error.to_string())),
        }
        ends.directory = directory;
    }
    if let Some(mount_point) = mount_point {
        ends.mount_point = mount_point;
    }
    if let Err(text) = kernel() {
        document.wrong_too("mount_point", text);
    }
}

/// The path of the tree without symbolic links.
fn tree(path: &Path) -> Result<PathBuf, String> {
    if path.as_os_str().is_empty() {
        return Err("no folder given; usage: headlong mount DIR MOUNTPOINT".to_owned());
    }
    let name = path.display();
    let real = fs::canonicalize(path).map_err(|error| match error.kind() {
        ErrorKind::NotFound => format!("{name}: no such folder; give the folder to mount"),
        _ => format!("cannot open {name}: {error}; grant this user read and search permission"),
    })?;
    match real.is_dir() {
        true => Ok(real),
        false => Err(format!("{name} is not a folder; give the folder to mount")),
    }
}

/// The path of the mount point without symbolic links.
fn mount_point(path: &Path) -> Result<PathBuf, String> {
    if path.as_os_str().is_empty() {
        return Err("no mount point given; usage: headlong mount DIR MOUNTPOINT".to_owned());
    }
    let name = path.display();
    if let RecoveryResult::Not(why) = point::recover(path) {
        return Err(format!(
            "{name}: {why}; unmount it (umount -l), or choose another folder"
        ));
    }
    let real = fs::canonicalize(path).map_err(|error| match error.kind() {
        ErrorKind::NotFound => format!("{name}: no such folder; create it (mkdir)"),
        _ => format!("cannot open {name}: {error}; choose another folder"),
    })?;
    match real.is_dir() {
        true => Ok(real),
        false => Err(format!("{name} is not a folder; choose one that is empty")),
    }
}

/// Why a folder cannot be a mount point; `None` if it can.
fn conflict(point: &Path) -> Option<String> {
    let name = point.display();
    if let Some(kind) = point::kind_mounted(point) {
        return Some(format!(
            "{name}: a file system ({kind}) is mounted there already; unmount it, or use another \
             folder"
        ));
    }
    match is_empty(point) {
        Ok(true) => None,
        Ok(false) => Some(format!(
            "{name} is not empty, and its contents would be hidden; choose an empty folder"
        )),
        Err(error) => Some(format!(
            "cannot read {name}: {error}; choose another folder"
        )),
    }
}

fn is_empty(path: &Path) -> io::Result<bool> {
    Ok(fs::read_dir(path)?.next().is_none())
}

/// Reports if one folder lies in the other: the tree would contain itself, or be hidden by the
/// mount.
fn overlap(directory: &Path, mount_point: &Path) -> Option<String> {
    let (tree, point) = (directory.display(), mount_point.display());
    if directory == mount_point {
        Some(format!(
            "{point} is the tree itself; choose a folder outside it"
        ))
    } else if mount_point.starts_with(directory) {
        Some(format!(
            "{point} lies in the tree {tree}, which would then contain itself; choose a \
             folder outside it"
        ))
    } else if directory.starts_with(mount_point) {
        Some(format!(
            "the tree {tree} lies in {point}, which would hide it; choose a folder that does not \
             contain the tree"
        ))
    } else {
        None
    }
}

/// Whether this process can create FUSE file systems.
fn kernel() -> Result<(), String> {
    let device = "/dev/fuse";
    match OpenOptions::new().read(true).write(true).open(device) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == ErrorKind::NotFound => Err(format!(
            "{device} does not exist; load the module (modprobe fuse), or pass the device to the \
             container (--device {device})"
        )),
        Err(error) => Err(format!(
            "cannot open {device}: {error}; grant this user read and write permission"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlapping_tree_and_mount_point_are_rejected() {
        let text = |tree: &str, point: &str| overlap(Path::new(tree), Path::new(point));
        assert_eq!(text("/srv/films", "/mnt/films"), None);
        assert_eq!(text("/srv/films", "/srv/films2"), None);
        for (tree, point) in [("/srv", "/srv/mnt"), ("/srv/films", "/srv"), ("/a", "/a")] {
            let text = text(tree, point).expect("refused");
            assert!(text.contains(point) && text.contains("choose"), "{text}");
        }
    }

    #[test]
    fn mount_point_must_be_an_empty_folder_and_not_mounted() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        fs::create_dir(path("empty")).expect("made");
        fs::create_dir(path("full")).expect("made");
        fs::write(path("full/file"), "x").expect("written");
        assert!(mount_point(&path("empty")).is_ok());
        assert_eq!(conflict(&path("empty")), None);
        for (path, word) in [(path("full"), "not empty"), ("/proc".into(), "(proc)")] {
            let text = conflict(&path).expect("refused");
            assert!(text.contains(word), "{text}");
        }
        for (path, word) in [
            (path("full/file"), "not a folder"),
            (path("none"), "mkdir"),
            (PathBuf::new(), "MOUNTPOINT"),
        ] {
            let text = mount_point(&path).expect_err("refused");
            assert!(text.contains(word), "{text}");
        }
    }

    #[test]
    fn tree_must_be_an_existing_folder() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        for (path, word) in [
            (file.path(), "not a folder"),
            (Path::new("/none/such"), "no such folder"),
            (Path::new(""), "DIR"),
        ] {
            let text = tree(path).expect_err("refused");
            assert!(text.contains(word), "{text}");
        }
    }
}
