//! Settings that are valid and probably not meant. Those that need a look at the disks are for
//! `headlong check` alone: a running server must not wait for a disk here.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use headlong_net::ListenAddress;
use headlong_settings::one_line;
use headlong_telemetry::LogTarget;
use headlong_units::{Bytes, Duration, MIB, nearest};
use rustix::fs::statvfs;

use crate::path_rule::{PathRule, site_prefix};
use crate::settings::{Admin, Config};

/// Slowest client that a `send_bytes_min` may reasonably exclude, in bytes per second; mobile
/// networks are slower than this for seconds.
const SLOW_CLIENT: u64 = MIB;
/// Entries of a folder that are compared with a prefix.
const ENTRIES_MAX: usize = 100_000;
/// Folders of the system, which hold more than videos.
const SYSTEM: [&str; 10] = [
    "/", "/boot", "/dev", "/etc", "/proc", "/root", "/run", "/sys", "/usr", "/var",
];

impl Config {
    /// Warnings that are not mistakes, such as absent optional devices. Accesses no disk.
    pub fn warnings(&self, devices: &[(String, bool)]) -> Vec<String> {
        let away = self.absent(devices);
        away.map(|name| one_line(&format!("device.{name}: the optional device is absent")))
            .chain(self.memory_warning())
            .chain(self.pipe_warnings())
            .chain(self.admin_warning())
            .chain(self.slow_warning())
            .chain(self.send_warning())
            .chain(self.root_warnings())
            .collect()
    }

    /// Further warnings, for which folders are read.
    pub fn disk_warnings(&self) -> Vec<String> {
        let mut paths = self.path_warnings("path", "", (&self.roots, &self.path));
        for (name, site) in &self.site {
            let table = format!("site.{name}.path");
            let own = (&site.roots[..], &site.path);
            paths.extend(self.path_warnings(&table, &site_prefix(name), own));
        }
        let pulls = self.pulls().filter_map(|(table, _, rule)| {
            let bytes = Bytes(rule.bytes_max);
            let disk = disk_bytes(&rule.folder).filter(|disk| bytes > *disk)?;
            Some(format!(
                "{table}.bytes_max: {bytes} is more than the whole disk of {} has ({}); \
                    lower \
                 it, so that titles are evicted before the disk is full",
                rule.folder.display(),
                disk.rounded()
            ))
        });
        paths.into_iter().chain(pulls).collect()
    }

    /// Warns about an admin address that is reachable from other machines.
    fn admin_warning(&self) -> Option<String> {
        let Admin::Address(ListenAddress::Ip(address)) = &self.admin else {
            return None;
        };
        (!address.ip().to_canonical().is_loopback()).then(|| {
            format!(
                "admin: {address} is not loopback, and the operator's pages have no password: \
                 restrict access to operators who may see and purge everything, or put a proxy \
                 with a password in front"
            )
        })
    }

    /// Warns if slow replies are enabled but not written anywhere.
    fn slow_warning(&self) -> Option<String> {
        let log = &self.log;
        let is_wasted = log.slow_after > Duration::ZERO && log.slow == LogTarget::Off;
        is_wasted.then(|| {
            "log.slow_after: log.slow is \"off\", so slow replies are not logged; name a file \
                there"
                .to_owned()
        })
    }

    /// Warns about a minimum rate that excludes viewers of slow links.
    fn send_warning(&self) -> Option<String> {
        let limits = &self.limits;
        let rate = limits.send_bytes_per_second();
        (rate > SLOW_CLIENT).then(|| {
            format!(
                "limits.send_bytes_min: {} in {} are {} a second, and replies to slower \
                    clients are \
                 cut; lower it",
                Bytes(limits.send_bytes_min),
                limits.send_timeout,
                Bytes(rate).rounded()
            )
        })
    }

    /// Warns about roots that hold the system.
    fn root_warnings(&self) -> impl Iterator<Item = String> {
        let is_system = |root: &PathBuf| SYSTEM.iter().any(|of| root.as_path() == Path::new(of));
        let folders = self.served().into_iter().map(|root| root.folder);
        folders.filter(is_system).map(|root| {
            format!(
                "{}: {} is a folder of the system, and every file below it that the server \
                    may \
                 read is served; name the folder of the videos",
                self.key_of(&root),
                root.display()
            )
        })
    }

    /// Warns about rules of paths that no file has, so that they protect nothing.
    fn path_warnings(
        &self,
        table: &str,
        site: &str,
        (roots, rules): (&[PathBuf], &BTreeMap<String, PathRule>),
    ) -> Vec<String> {
        let aliases = rules.iter().filter(|(_, rule)| !rule.alias.is_empty());
        let aliases = aliases.map(|(prefix, _)| prefix.as_str());
        let pulls = self.pulls_of(site).map(|(prefix, _)| prefix);
        let others: Vec<&str> = pulls.chain(aliases).collect();
        let is_elsewhere = |prefix: &&String| {
            let is_of =
                |other: &&str| prefix.starts_with(*other) || other.starts_with(prefix.as_str());
            others.iter().any(is_of)
        };
        let of_roots = rules.keys().filter(|prefix| !is_elsewhere(prefix));
        let unmatched = of_roots.filter_map(|prefix| unmatched_path(table, roots, prefix));
        unmatched.map(|text| one_line(&text)).collect()
    }
}

/// The warning about a path that no file of the roots has.
fn unmatched_path(table: &str, roots: &[PathBuf], prefix: &str) -> Option<String> {
    let (folder, begin) = prefix
        .trim_start_matches('/')
        .rsplit_once('/')
        .unwrap_or(("", ""));
    let begin = match prefix.ends_with('/') {
        true => "",
        false => prefix.rsplit('/').next().unwrap_or(begin),
    };
    let mut beside = Vec::new();
    for root in roots {
        // A missing root may have it.
        if !root.is_dir() || has_entry(&root.join(folder), begin) {
            return None;
        }
        beside.extend(folders_beside(&root.join(folder)));
    }
    let name = Path::new(folder).file_name().and_then(|name| name.to_str());
    let meant = nearest(name.unwrap_or_default(), beside.iter().map(String::as_str));
    let meant = meant.map_or_else(String::new, |meant| format!(" (did you mean `{meant}`?)"));
    Some(format!(
        "{table}.{prefix}: no folder or file of the roots has this path{meant}, so its settings \
             apply to nothing; correct it, or remove it"
    ))
}

/// Whether a folder has an entry whose name begins so; an empty beginning needs the folder alone.
fn has_entry(folder: &Path, begin: &str) -> bool {
    if begin.is_empty() {
        return folder.is_dir();
    }
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut entries = entries.take(ENTRIES_MAX);
    entries.any(|entry| entry.file_name().as_bytes().starts_with(begin.as_bytes()))
}

/// Names of the folders beside one that does not exist.
fn folders_beside(folder: &Path) -> Vec<String> {
    let entries = folder.parent().and_then(|above| fs::read_dir(above).ok());
    let entries = entries.into_iter().flatten().flatten().take(ENTRIES_MAX);
    let entries = entries.filter(|entry| entry.path().is_dir());
    entries
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect()
}

/// The size of the file system that has, or will have, this folder.
fn disk_bytes(folder: &Path) -> Option<Bytes> {
    let there = folder.ancestors().find(|folder| folder.exists())?;
    let found = statvfs(there).ok()?;
    Some(Bytes(found.f_blocks.saturating_mul(found.f_frsize)))
}

#[cfg(test)]
mod tests {
    use super::super::load::Flags;
    use super::*;

    fn of(root: &Path, text: &str) -> Config {
        let flags = Flags {
            roots: vec![root.to_path_buf()],
            ..Flags::default()
        };
        Config::from_text(Path::new("h.toml"), text, &flags).expect(text)
    }

    #[test]
    fn path_without_files_is_named_with_the_nearest_folder() {
        let root = tempfile::tempdir().expect("a folder");
        fs::create_dir_all(root.path().join("films/new")).expect("made");
        fs::write(root.path().join("films/a.mp4"), "x").expect("written");
        let warnings = |prefix: &str| {
            let text = format!("[path.\"{prefix}\"]\naccess = \"closed\"\n");
            of(root.path(), &text).disk_warnings()
        };
        for fits in [
            "/",
            "/films/",
            "/films",
            "/fi",
            "/films/new/",
            "/films/a.mp4",
        ] {
            assert_eq!(warnings(fits), Vec::<String>::new(), "{fits}");
        }
        for (wrong, said) in [
            ("/flims/", "(did you mean `films`?)"),
            ("/films/old/", "path./films/old/: no folder or file"),
            ("/films/b", "path./films/b: no folder or file"),
        ] {
            let warnings = warnings(wrong);
            assert_eq!(warnings.len(), 1, "{wrong}");
            assert!(warnings[0].contains(said), "{warnings:?}");
        }
    }

    #[test]
    fn path_of_origin_or_missing_root_is_not_warned_about() {
        let root = tempfile::tempdir().expect("a folder");
        let text = "[path.\"/vod/a/\"]\naccess = \"closed\"\n\
            [pull.\"/vod/\"]\norigin = \"http://a/\"\nfolder = \"/tmp\"\nbytes_max = \"1GiB\"\n";
        assert_eq!(of(root.path(), text).disk_warnings(), Vec::<String>::new());
        let missing = root.path().join("missing");
        let text = "[path.\"/a/\"]\naccess = \"closed\"\n";
        assert_eq!(of(&missing, text).disk_warnings(), Vec::<String>::new());
    }

    #[test]
    fn bound_larger_than_disk_is_named() {
        let root = tempfile::tempdir().expect("a folder");
        let folder = root.path().join("not/yet");
        let text = format!(
            "[pull.\"/a/\"]\norigin = \"http://a/\"\nfolder = \"{}\"\nbytes_max = \
                \"1000000TiB\"\n",
            folder.display()
        );
        let warnings = of(root.path(), &text).disk_warnings();
        assert!(
            warnings[0].starts_with("pull./a/.bytes_max: 1000000TiB is more"),
            "{warnings:?}"
        );
    }

    #[test]
    fn system_folder_and_fast_minimum_are_named() {
        let text = "[limits]\nsend_bytes_min = \"300MiB\"\n";
        let warnings = of(Path::new("/"), text).warnings(&[]);
        let has = |begin: &str| warnings.iter().any(|warning| warning.starts_with(begin));
        assert!(has("roots: / is a folder of the system"), "{warnings:?}");
        assert!(
            has("limits.send_bytes_min: 300MiB in 30s are 10MiB a second"),
            "{warnings:?}"
        );
        let usual = of(Path::new("/srv/videos"), "").warnings(&[]);
        assert_eq!(usual, Vec::<String>::new());
    }
}
