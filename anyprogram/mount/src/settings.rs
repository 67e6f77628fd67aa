//! Settings of a mount: its own rows, and those of the server's disks.

use std::path::{Path, PathBuf};

use headlong_config::{
    Config, DeviceOverride, LogLevel, device_rows, disk_rows, memory_available, page_of, time_scale,
};
use headlong_engine::Admission;
use headlong_settings::{
    Document, Mistakes, Rows, Tier, Value, ValueLocation, document, flag, named, size, text, time,
};
use headlong_units::{Bytes, Duration, KIB, MIB};

use crate::check::{self, MountPaths};
use crate::io_mode::PageCacheUse;

/// The page that lists all settings.
const MANUAL: &str = "/usr/share/doc/headlong/mount-settings.md";
/// If this much cannot be left to the page cache, half of the memory is.
const PAGES_BYTES_MIN: u64 = 1024 * MIB;
/// Sent bytes are often requested again soon: by a program that reopens the file and starts within
/// pages that the kernel has dropped, or by a close follower that found the last range in the page
/// cache. Each evicted piece costs a seek for 64 KiB.
const SENT_STAYS: Duration = Duration::from_secs(30);
/// A reader does not request bytes that the kernel has above the mount; a prefetch is a few
/// megabytes.
const SKIP_BYTES: u64 = 4 * MIB;

/// All settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The tree.
    pub directory: PathBuf,
    /// Where it is mounted.
    pub mount_point: PathBuf,
    /// Whether users other than the one who mounts may use it.
    pub allow_other: bool,
    /// Whether the kernel caches pages of files above the mount.
    pub page_cache: bool,
    /// Bytes behind programs that stay in the page cache; `None` derives it from free memory.
    pub page_cache_max: Option<u64>,
    /// The kernel's readahead of a program above the mount.
    pub read_ahead_bytes: u64,
    /// Whether the next small files are read ahead for programs that walk through a tree.
    pub small_files_ahead: bool,
    /// Whether numbered files are read as one title.
    pub chunk_files_ahead: bool,
    /// Settings of the disks, and of `revalidate`; the others are unused here.
    pub disks: Config,
}

impl Default for Settings {
    fn default() -> Self {
        let mut disks = Config::default();
        // A refused program fails and cannot retry; a waiting one continues.
        disks.engine.admission = Admission::Accept;
        disks.engine.read_timeout = Duration::from_secs(60);
        disks.engine.wait_timeout = Duration::from_secs(120);
        disks.engine.sent_stays = SENT_STAYS;
        // A mount hands its data to the kernel, not to sockets of its own.
        disks.copies = false;
        Self {
            directory: PathBuf::new(),
            mount_point: PathBuf::new(),
            allow_other: true,
            page_cache: true,
            page_cache_max: None,
            // Each open file may have twice this in the page cache, which is scarce with many
            // viewers; refilling it from the mount's memory is fast.
            read_ahead_bytes: 64 * KIB,
            small_files_ahead: true,
            chunk_files_ahead: true,
            disks,
        }
    }
}

/// Command-line options; each overrides the key of its name in the file.
#[derive(Debug, Clone, Default, PartialEq, Eq, clap::Args)]
pub struct Flags {
    /// Folder whose tree is mounted
    #[arg(value_name = "DIR")]
    pub directory: Option<PathBuf>,
    /// Empty folder at which it is mounted
    #[arg(value_name = "MOUNTPOINT")]
    pub mount_point: Option<PathBuf>,
    /// Memory for read data, all disks together, such as 4GiB
    #[arg(long, value_name = "SIZE")]
    pub memory: Option<String>,
    /// Rule for the size of a prefetch, as for serve
    #[arg(long, value_name = "NAME")]
    pub policy: Option<String>,
    /// The policy's reference size, such as 8MiB, or how it is found: auto, auto-paper
    #[arg(long, value_name = "SIZE|auto")]
    pub prefetch: Option<String>,
    /// For experiments: how many times faster the engine's clocks run
    #[arg(long, value_name = "N", hide = true)]
    pub time_scale: Option<String>,
}

/// The settings of a mount alone.
#[rustfmt::skip]
fn own_rows() -> Rows<Settings> {
    let path = || text().map(PathBuf::from, |path: &PathBuf| path.display().to_string());
    let mut rows = Rows::<Settings>::default();
    rows.add("directory", path(), |s| &mut s.directory,
        "The folder whose tree is mounted, including file systems mounted below it. A folder on the command line replaces it.");
    rows.add("mount_point", path(), |s| &mut s.mount_point,
        "The empty folder at which the tree is mounted. A folder on the command line replaces it. Neither folder may contain the other.");
    rows.add("allow_other", flag(), |s| &mut s.allow_other,
        "Whether users other than the one who mounts may access the mount, each with the permissions it has in the tree. An ordinary user may enable this only if /etc/fuse.conf contains user_allow_other.");
    rows.add("page_cache", flag(), |s| &mut s.page_cache,
        "Whether the kernel may cache what programs read in its page cache, above the mount's own memory. If off, each read of a program is a request to the mount. If on, programs for which direct I/O is cheaper read large files without the page cache, unless `page_cache_max` is more than `memory`.");
    rows.add("page_cache_max", size().optional(), |s| &mut s.page_cache_max,
        "How many bytes behind the programs' read positions, in files read by the engine, stay in the page cache above the mount; beyond that the oldest are dropped. Three quarters of it are reserved for readahead beyond programs that closed the file, because most of them continue there. The default is half of what `memory` leaves of the memory of this machine, or of the control group.");
    rows.add("read_ahead", size().at_most(64 * MIB), |s| &mut s.read_ahead_bytes,
        "How far the kernel reads ahead of a sequential reader above the mount. This reads from the mount's memory; the engine decides the sizes of disk reads. Each open file that is read sequentially has up to twice as much in the page cache. Only root may set it; otherwise the kernel's default of 128KiB applies.");
    rows.add("small_files_ahead", flag(), |s| &mut s.small_files_ahead,
        "Whether the next files of a folder are read ahead in one sweep of the disk for a program that reads many small files in order, such as a copy, a search or a diff.");
    rows.add("chunk_files_ahead", flag(), |s| &mut s.chunk_files_ahead,
        "Whether files of one folder whose names differ only in a number, each at most 32 MiB, are read ahead as one title in numeric order, like the chunk files of HLS and DASH, if programs continue from one to the next. Only files with the owner, group and permissions of the file being read are included.");
    rows.add("revalidate", time(), |s| &mut s.disks.revalidate,
        "How long names, attributes and the version of an open file are cached before they are checked again: a change in the tree becomes visible after at most this time.");
    rows.add("log_level", named(LogLevel::ALL, LogLevel::name), |s| &mut s.disks.log.level,
        "The lowest severity of the mount's log messages, which go to standard error.");
    rows.restart();
    rows
}

/// All settings.
fn rows() -> Rows<Settings> {
    let mut rows = own_rows();
    rows.include(disk_rows(), |s| &mut s.disks);
    rows.restart();
    rows
}

impl Settings {
    /// Reads the file, if there is one, and the options, and checks them against this machine.
    /// Unmounts a dead mount of ours at the mount point; changes nothing else.
    ///
    /// # Errors
    /// All mistakes in them.
    pub fn load(file: Option<&Path>, flags: &Flags) -> Result<Self, Mistakes> {
        let text = match file.map(std::fs::read_to_string) {
            None => String::new(),
            Some(Ok(text)) => text,
            Some(Err(error)) => {
                let place =
                    ValueLocation::File(file.unwrap_or(Path::new("")).display().to_string());
                let text = format!("cannot be read: {error}; name a file with --config");
                return Err(Mistakes::at(&place, [text]));
            }
        };
        let (mut document, mut settings) = read(file.unwrap_or(Path::new("")), &text, flags);
        // If the default would leave too little, use the most that leaves enough.
        if !document.is_written("memory")
            && let Some(there) = memory_available()
        {
            let memory = &mut settings.disks.engine.memory_bytes;
            *memory = (*memory).min(memory_most(there));
        }
        let mut ends = MountPaths {
            directory: settings.directory,
            mount_point: settings.mount_point,
        };
        check::machine(&mut document, &mut ends, &settings.disks);
        (settings.directory, settings.mount_point) = (ends.directory, ends.mount_point);
        document.finish(settings)
    }

    /// How many bytes behind programs may stay in the page cache above the mount.
    pub(crate) fn passed_bytes_max(&self) -> u64 {
        let memory = self.disks.engine.memory_bytes;
        let left = memory_available().map_or(u64::MAX, |there| there.saturating_sub(memory));
        self.page_cache_max.unwrap_or(left / 2)
    }

    /// Which files are opened with pages.
    pub(crate) fn pages(&self) -> PageCacheUse {
        match self.page_cache {
            false => PageCacheUse::Never,
            // With more page cache than memory of the mount, repeated reads hit the page cache.
            true if self.passed_bytes_max() > self.disks.engine.memory_bytes => {
                PageCacheUse::Always
            }
            true => PageCacheUse::ForSmallReads,
        }
    }

    /// A warning if `memory` leaves too little of the available memory, and less than three
    /// eighths.
    pub(crate) fn memory_warning(&self) -> Option<String> {
        let (memory, there) = (self.disks.engine.memory_bytes, memory_available()?);
        (memory > memory_most(there).max(there / 8 * 5)).then(|| {
            format!(
                "memory: {} of {} leaves too little for the kernel's page cache above the mount, \
                 where the sockets of a web server hold a MiB or two for each viewer, so that \
                 readahead is evicted and read again; leave a quarter free, and at least 1GiB or \
                 half",
                Bytes(memory),
                Bytes(there - there % MIB),
            )
        })
    }

    /// Reads the keys of a text, without checks of this machine.
    ///
    /// # Errors
    /// All mistakes in it.
    pub fn from_text(name: &str, text: &str) -> Result<Self, Mistakes> {
        let (document, settings) = read(Path::new(name), text, &Flags::default());
        document.finish(settings)
    }
}

/// Most of the available memory that a mount should take: the page cache above it needs space in
/// proportion to the bytes sent, which is a large share of a small memory.
fn memory_most(there: u64) -> u64 {
    let left = (there / 4).max(PAGES_BYTES_MIN);
    there.saturating_sub(left).max(there / 2)
}

fn read(file: &Path, text: &str, flags: &Flags) -> (Document, Settings) {
    let mut document = Document::new(&file.display().to_string(), MANUAL, text);
    for (flag, key, word) in [
        ("--memory", "memory", &flags.memory),
        ("--policy", "policy", &flags.policy),
        ("--prefetch", "prefetch", &flags.prefetch),
    ] {
        if let Some(word) = word {
            document.set(flag, key, Value::of_word(word));
        }
    }
    let mut settings = Settings::default();
    settings.disks.time_scale = time_scale(&mut document, flags.time_scale.as_deref());
    rows().read(&mut document, "", &mut settings);
    // The kernel holds up to two readahead windows of each open file, and may drop them unused.
    settings.disks.engine.reread_bytes = 2 * settings.read_ahead_bytes;
    settings.disks.engine.skip_bytes = SKIP_BYTES;
    for name in document.children("device") {
        let mut device = DeviceOverride::default();
        device_rows().read(&mut document, &format!("device.{name}"), &mut device);
        settings.disks.device.insert(name, device);
    }
    let folder = file.parent().unwrap_or(Path::new(""));
    let named = [
        (
            "DIR",
            "directory",
            &flags.directory,
            &mut settings.directory,
        ),
        (
            "MOUNTPOINT",
            "mount_point",
            &flags.mount_point,
            &mut settings.mount_point,
        ),
    ];
    for (word, key, flag, path) in named {
        match flag {
            // Taken verbatim: a path need not be UTF-8.
            Some(flag) => {
                path.clone_from(flag);
                document.set(word, key, Value::Text(String::new()));
                document.take(key);
            }
            None if path.as_os_str().is_empty() => {}
            None => *path = folder.join(&path),
        }
    }
    (document, settings)
}

const HEAD: &str = "\
# Settings of a mount

This page is generated from the table of settings in the source (`UPDATE=1 cargo test -p
headlong-mount manual` updates it). [mount.md](mount.md) explains what a mount is for.

`headlong mount --config FILE` reads one TOML file. Flags and folders on the command line override
the file; paths in it are relative to its folder. Sizes are written as `\"2MiB\"`, times as `\"5s\"`.
All mistakes are reported at once, before anything is mounted. Every setting needs a restart.

## Of a mount alone
";

const SHARED: &str = "
## Shared with the server

These settings are explained on the pages of the server. A table
[`[device.\"NAME\"]`](configuration.md#devicename) has settings of one device.

";

/// The manual's page, as `docs/operate/mount-settings.md` holds it.
pub fn manual() -> String {
    let mut page = HEAD.to_owned();
    let default = Settings::default();
    document(&mut page, &own_rows().entries(&default, &[Tier::Normal]));
    page.push_str(SHARED);
    disk_rows().refer(&mut page, page_of, (&default.disks, &Config::default()));
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mistakes(text: &str, flags: &Flags) -> Mistakes {
        let (document, settings) = read(Path::new("/etc/mount.toml"), text, flags);
        document.finish(settings).expect_err("wrong")
    }

    #[test]
    fn flags_override_file_and_its_paths_are_relative() {
        let text = "directory = \"films\"\nmount_point = \"/mnt/films\"\nmemory = \"1GiB\"\n\
                    read_ahead = \"4MiB\"\n[device.\"sda\"]\nprefetch = \"2MiB\"\n";
        let mut flags = Flags {
            memory: Some("2GiB".into()),
            ..Flags::default()
        };
        let file = Path::new("/etc/headlong/mount.toml");
        let (document, settings) = read(file, text, &flags);
        let settings = document.finish(settings).expect("right");
        assert_eq!(settings.directory, Path::new("/etc/headlong/films"));
        assert_eq!(settings.mount_point, Path::new("/mnt/films"));
        assert_eq!(settings.disks.engine.memory_bytes, 2048 * MIB);
        assert_eq!(settings.read_ahead_bytes, 4 * MIB);
        assert!(settings.disks.device("sda").prefetch.is_some());
        flags.directory = Some("other".into());
        let (document, settings) = read(file, text, &flags);
        let settings = document.finish(settings).expect("right");
        assert_eq!(settings.directory, Path::new("other"));
    }

    #[test]
    fn page_cache_gets_half_of_the_remaining_memory() {
        let Some(there) = memory_available() else {
            return;
        };
        let with = |memory_bytes| {
            let mut settings = Settings::default();
            settings.disks.engine.memory_bytes = memory_bytes;
            settings
        };
        let half = with(there / 2);
        assert_eq!(half.memory_warning(), None);
        assert_eq!(half.passed_bytes_max(), (there - there / 2) / 2);
        assert_eq!(half.pages(), PageCacheUse::ForSmallReads);
        assert_eq!(with(there / 8).pages(), PageCacheUse::Always);
        let most = with(there / 16 * 15);
        let warning = most.memory_warning().expect("a warning");
        assert!(warning.contains("page cache"), "{warning}");
        assert_eq!(with(u64::MAX).passed_bytes_max(), 0);
        let mut chosen = half;
        chosen.page_cache_max = Some(5 * MIB);
        assert_eq!(chosen.passed_bytes_max(), 5 * MIB);
    }

    #[test]
    fn all_mistakes_are_reported_and_server_keys_unknown() {
        let flags = Flags {
            policy: Some("none".into()),
            ..Flags::default()
        };
        let text = "listen = [\"127.0.0.1:80\"]\nallow_other = 3\n";
        let mistakes = mistakes(text, &flags);
        for key in ["policy", "listen", "allow_other"] {
            assert!(mistakes.is_about(key), "{key}: {mistakes}");
        }
    }

    #[test]
    fn manual_is_up_to_date() {
        let path = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../docs/operate/mount-settings.md"
        );
        if std::env::var_os("UPDATE").is_some() {
            std::fs::write(path, manual()).expect("written");
        }
        let page = std::fs::read_to_string(path).unwrap_or_default();
        assert!(page == manual(), "renew {path} with UPDATE=1");
    }
}
