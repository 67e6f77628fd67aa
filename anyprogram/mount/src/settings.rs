//! What an operator may say of a mount: a few rows of its own, and those of the server's disks.

use std::path::{Path, PathBuf};

use headlong_engine::Admission;
use headlong_serve::config::{
    Config, DeviceOverride, LogLevel, device_rows, disk_rows, memory_available,
};
use headlong_settings::{
    Document, Mistakes, Place, Rows, Value, flag, named, size, text, time, whole,
};
use headlong_units::{Bytes, Duration, KIB, MIB};

use crate::check::{self, Ends};
use crate::manner::Pages;

/// The page that lists all settings.
const MANUAL: &str = "docs/operate/mount-settings.md";
/// Where this much cannot be left to the page cache, half is.
const PAGES_BYTES_MIN: u64 = 1024 * MIB;
/// What was read is soon asked for once more: by who opens the file anew and begins in what the kernel
/// dropped of it, and by who comes a little behind and found the last part in the page cache. Each
/// piece that has gone is a move of the disk's arm for 64 KiB.
const SENT_STAYS: Duration = Duration::from_secs(30);
/// What the kernel had above the mount a reader does not ask for; a prefetch is of some megabytes.
const SKIP_BYTES: u64 = 4 * MIB;

/// Everything that an operator may choose.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The tree.
    pub directory: PathBuf,
    /// Where it is mounted.
    pub mount_point: PathBuf,
    /// Whether other users than the mount's own may use it.
    pub allow_other: bool,
    /// Whether the kernel keeps pages of files above the mount.
    pub page_cache: bool,
    /// How much stays there of what programs have gone past; `None` for what memory leaves room for.
    pub page_cache_max: Option<u64>,
    /// How far the kernel reads ahead of a program above the mount.
    pub read_ahead_bytes: u64,
    /// Whether programs that go through small files have the next ones read ahead.
    pub small_files_ahead: bool,
    /// Whether files whose names differ in a number are read as one title.
    pub chunk_files_ahead: bool,
    /// The settings of disks, and how long attributes are believed; its others mean nothing here.
    pub disks: Config,
}

impl Default for Settings {
    fn default() -> Self {
        let mut disks = Config::default();
        // A program that is refused fails, and one that waits goes on: nobody here can ask again.
        disks.engine.admission = Admission::Accept;
        disks.engine.read_timeout = Duration::from_secs(60);
        disks.engine.wait_timeout = Duration::from_secs(120);
        disks.engine.sent_stays = SENT_STAYS;
        // What a mount hands over goes to the kernel, and to no socket of its own.
        disks.copies = false;
        Self {
            directory: PathBuf::new(),
            mount_point: PathBuf::new(),
            allow_other: true,
            page_cache: true,
            page_cache_max: None,
            // Of each open file twice as much may be in the page cache, which is what memory is lacking
            // for with many viewers; from the mount's memory it is soon there.
            read_ahead_bytes: 64 * KIB,
            small_files_ahead: true,
            chunk_files_ahead: true,
            disks,
        }
    }
}

/// What the command line says; each overrides the file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Flags {
    /// The tree, instead of `directory`.
    pub directory: Option<PathBuf>,
    /// Where it is mounted, instead of `mount_point`.
    pub mount_point: Option<PathBuf>,
    /// `--memory`.
    pub memory: Option<String>,
    /// `--policy`.
    pub policy: Option<String>,
    /// `--prefetch`.
    pub prefetch: Option<String>,
    /// `--time-scale`.
    pub time_scale: Option<String>,
}

#[rustfmt::skip]
fn rows() -> Rows<Settings> {
    let path = || text().map(PathBuf::from, |path: &PathBuf| path.display().to_string());
    let mut rows = Rows::<Settings>::default();
    rows.add("directory", path(), |s| &mut s.directory,
        "The folder whose tree is mounted, with what is mounted below it; one named on the command line replaces it.");
    rows.add("mount_point", path(), |s| &mut s.mount_point,
        "The empty folder at which it is mounted; one named on the command line replaces it. Neither may lie in the other.");
    rows.add("allow_other", flag(), |s| &mut s.allow_other,
        "Whether users other than the one who mounts may use it; each has the rights that it has in the tree. An ordinary user may say so only if /etc/fuse.conf has user_allow_other.");
    rows.add("page_cache", flag(), |s| &mut s.page_cache,
        "Whether the kernel may keep what programs read in its page cache, above the mount's own memory. Without it, each read of a program is a question to the mount. With it, large files are read past it by programs for which that costs less, unless `page_cache_max` is more than `memory`.");
    rows.add("page_cache_max", size().optional(), |s| &mut s.page_cache_max,
        "How much of what programs have gone past in files of the engine stays in the page cache above the mount; the oldest of more is dropped there. Three quarters of it are for what was read ahead of programs that closed the file, for they mostly go on there. Without it, half of what `memory` leaves of this machine's memory, or of the control group's.");
    rows.add("read_ahead", size().at_most(64 * MIB), |s| &mut s.read_ahead_bytes,
        "How far the kernel reads ahead of a program that reads in sequence, above the mount. It takes bytes that the mount has in memory; the disk is read in the sizes of the engine. Each open file that is read in sequence has up to twice as much in the page cache. Only root may set it; else it is the kernel's own, 128KiB.");
    rows.add("small_files_ahead", flag(), |s| &mut s.small_files_ahead,
        "Whether a program that waits for one small file after another, as a copy, a search or diff does, has the next files of the folder read in one sweep of the disk.");
    rows.add("chunk_files_ahead", flag(), |s| &mut s.chunk_files_ahead,
        "Whether files of one folder whose names differ in a number alone, of 32 MiB at most, are read as one title in the order of their numbers, as the chunk files of HLS and DASH are, if programs go on from one to the next. Only files with the owner, group and rights of the one that a program reads are among them.");
    rows.add("revalidate", time(), |s| &mut s.disks.revalidate,
        "How long names, attributes and the version of an open file are believed before they are looked at again: a change in the tree is seen that much later at most.");
    rows.add("log_level", named(LogLevel::ALL, LogLevel::name), |s| &mut s.disks.log.level,
        "The least severe of the mount's own messages, which go to standard error.");
    rows.add("time_scale", whole().at_least(1), |s| &mut s.disks.time_scale,
        "For experiments on an emulated drive: the engine's clocks run this many times faster, so that every duration in this file is model time. Anything but 1 is wrong for real programs.");
    rows.include(disk_rows(), |s| &mut s.disks);
    rows.restart();
    rows
}

impl Settings {
    /// Reads the file, if there is one, and the flags, and looks whether this machine has what they
    /// name. A mount whose daemon is gone is taken off the mount point; nothing else is changed.
    ///
    /// # Errors
    /// Everything that is wrong with them.
    pub fn load(file: Option<&Path>, flags: &Flags) -> Result<Self, Mistakes> {
        let text = match file.map(std::fs::read_to_string) {
            None => String::new(),
            Some(Ok(text)) => text,
            Some(Err(error)) => {
                let place = Place::File(file.unwrap_or(Path::new("")).display().to_string());
                let text = format!("cannot be read: {error}; name a file with --config");
                return Err(Mistakes::at(&place, [text]));
            }
        };
        let (mut document, mut settings) = read(file.unwrap_or(Path::new("")), &text, flags);
        // Where too little of it would be left, the most that leaves enough is the default.
        if !document.is_written("memory")
            && let Some(there) = memory_available()
        {
            let memory = &mut settings.disks.engine.memory_bytes;
            *memory = (*memory).min(memory_most(there));
        }
        let mut ends = Ends {
            directory: settings.directory,
            mount_point: settings.mount_point,
        };
        check::machine(&mut document, &mut ends, &settings.disks);
        (settings.directory, settings.mount_point) = (ends.directory, ends.mount_point);
        document.finish(settings)
    }

    /// How much may stay above the mount of what programs have gone past.
    pub(crate) fn passed_bytes_max(&self) -> u64 {
        let memory = self.disks.engine.memory_bytes;
        let left = memory_available().map_or(u64::MAX, |there| there.saturating_sub(memory));
        self.page_cache_max.unwrap_or(left / 2)
    }

    /// Which files are opened with pages.
    pub(crate) fn pages(&self) -> Pages {
        match self.page_cache {
            false => Pages::Never,
            // Where more stays in the page cache than the mount has itself, a file is read again there.
            true if self.passed_bytes_max() > self.disks.engine.memory_bytes => Pages::Always,
            true => Pages::ForSmallReads,
        }
    }

    /// A sentence if `memory` leaves too little of what there is, and less than three eighths.
    pub(crate) fn memory_warning(&self) -> Option<String> {
        let (memory, there) = (self.disks.engine.memory_bytes, memory_available()?);
        (memory > memory_most(there).max(there / 8 * 5)).then(|| {
            format!(
                "memory: {} of {} leave too little to the kernel's page cache above the mount, \
                 where a web server's sockets hold a MiB or two for each viewer: what was read \
                 ahead there is then read again; keep a quarter of it free, and 1GiB at least or \
                 half of it",
                Bytes(memory),
                Bytes(there - there % MIB),
            )
        })
    }

    /// Reads the keys of a text, and looks at nothing of this machine.
    ///
    /// # Errors
    /// Everything that is wrong with them.
    pub fn from_text(name: &str, text: &str) -> Result<Self, Mistakes> {
        let (document, settings) = read(Path::new(name), text, &Flags::default());
        document.finish(settings)
    }
}

/// How much of what there is a mount should have: what the page cache above it needs grows with what is
/// sent, and is much of little.
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
        ("--time-scale", "time_scale", &flags.time_scale),
    ] {
        if let Some(word) = word {
            document.set(flag, key, Value::of_word(word));
        }
    }
    let mut settings = Settings::default();
    rows().read(&mut document, "", &mut settings);
    // The kernel has up to two windows of each open file, and may drop them unused.
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
            // Taken as it is: a path need not be a text.
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

This page is written from the table of keys in the source (`UPDATE=1 cargo test -p headlong-mount
manual` renews it), so it names every key there is, with the default in force. [mount.md](mount.md)
says what a mount is for.

`headlong mount --config FILE` reads one TOML file. Flags and folders on the command line override
the file; paths in it are relative to its folder. Sizes are written as `\"2MiB\"`, times as `\"5s\"`.
All mistakes are reported at once, before anything is mounted. The keys from `memory` on are the
server's, as in [configuration.md](configuration.md), some with other defaults.

## At the top
";

const DEVICES: &str = "
## One device: `[device.\"sda\"]`

What may differ for the device of that kernel name.
";

/// The manual's page, as `docs/operate/mount-settings.md` holds it.
pub fn manual() -> String {
    let mut page = HEAD.to_owned();
    rows().document(&mut page, &Settings::default());
    page.push_str(DEVICES);
    device_rows().document(&mut page, &DeviceOverride::default());
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
    fn flags_and_folders_override_the_file_and_paths_in_it_are_relative_to_it() {
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
    fn what_memory_leaves_is_shared_with_the_page_cache_above_and_too_little_is_warned_of() {
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
        assert_eq!(half.pages(), Pages::ForSmallReads);
        assert_eq!(with(there / 8).pages(), Pages::Always);
        let most = with(there / 16 * 15);
        let warning = most.memory_warning().expect("a warning");
        assert!(warning.contains("page cache"), "{warning}");
        assert_eq!(with(u64::MAX).passed_bytes_max(), 0);
        let mut chosen = half;
        chosen.page_cache_max = Some(5 * MIB);
        assert_eq!(chosen.passed_bytes_max(), 5 * MIB);
    }

    #[test]
    fn all_mistakes_are_told_and_keys_of_the_server_alone_are_unknown() {
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
    fn the_manual_is_up_to_date() {
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
