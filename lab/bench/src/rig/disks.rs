//! Identical drives of an experiment, and the folder that a server serves.
//!
//! Each of several drives holds all titles. The served folder contains a link for each file that
//! points to one of them, so that no title is read from two drives or cached twice (libception
//! section 7).

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;

use headlong_report::say;
use headlong_workload::{Catalogue, Title, TitleForm};
use serde_json::{Value, json};

use super::block_drive::{BlockDrive, titles_label};
use super::cleanup_guard::CleanupGuard;
use super::emulated_drive::EmulatedDrive;
use super::process::{ChildProcess, ReadOnlyMount, StderrHandling, read_metadata};
use super::queue::{self, QueueSettings};
use super::store::titles_hash;
use super::{DriveStore, RigError, make_folder, pool};
use crate::disk_trace::DiskPattern;
use crate::experiment::{BlockQueueSettings, ExperimentDrive, FileSet};
use crate::servers::{CommandBuilder, PoolDevices};

/// Folder of the links, below the bench's own.
const LINKED: &str = "linked";

/// Running drives; at least one.
#[derive(Debug)]
pub(crate) struct RunningDisks {
    first: RunningDisk,
    others: Vec<RunningDisk>,
    /// The served folder.
    root: PathBuf,
}

impl RunningDisks {
    /// Starts the configured number of drives, and fills those with empty stores.
    pub(crate) fn start(guard: &CleanupGuard, setup: &DiskSetup<'_>) -> Result<Self, RigError> {
        let start = |number| RunningDisk::start(guard, &DiskSetup { number, ..*setup });
        let first = start(0)?;
        let others: Vec<RunningDisk> = (1..setup.drive.drives())
            .map(start)
            .collect::<Result<_, _>>()?;
        let mut root = first.root().to_path_buf();
        if !others.is_empty() {
            let catalogue = setup.files.catalogue().map_err(|errors| RigError::Failed {
                what: "reading the catalogue".into(),
                words: errors.join("; "),
            })?;
            root = guard.folder().join(LINKED);
            let drives = std::iter::once(&first).chain(&others);
            let drives: Vec<&Path> = drives.map(RunningDisk::root).collect();
            let linked = link(&root, &drives, &catalogue);
            linked.map_err(|error| RigError::io(root.display(), error))?;
        }
        Ok(Self {
            first,
            others,
            root,
        })
    }

    /// Folder of the titles.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    fn all(&self) -> impl Iterator<Item = &RunningDisk> {
        std::iter::once(&self.first).chain(&self.others)
    }

    fn each<T>(
        &mut self,
        does: impl FnMut(&mut RunningDisk) -> Result<T, RigError>,
    ) -> Result<Vec<T>, RigError> {
        let all = std::iter::once(&mut self.first).chain(&mut self.others);
        all.map(does).collect()
    }

    /// The commands that started them.
    pub(crate) fn commands(&self) -> Vec<String> {
        self.all().map(|disk| disk.command.join(" ")).collect()
    }

    /// See [`RunningDisk::pool_of`].
    pub(crate) fn pool_of(&self, ssd: Option<&Path>) -> Option<PoolDevices> {
        self.first.pool_of(ssd)
    }

    /// Process ids of the emulators.
    pub(crate) fn processes(&self) -> Vec<u32> {
        self.all().filter_map(RunningDisk::process).collect()
    }

    /// Requests of the first drive from `from` to `until` of the run; of an emulated drive by the
    /// trace that [`RunningDisks::begin`] started, which has ended.
    pub(crate) fn pattern(
        &self,
        trace: &Path,
        from: headlong_units::Duration,
        until: headlong_units::Duration,
    ) -> Result<DiskPattern, RigError> {
        match &self.first.drive {
            MeasuredDrive::Emulated { .. } => {
                DiskPattern::read(trace, from, until).map_err(|error| RigError::Failed {
                    what: "reading the drive's trace".into(),
                    words: error.to_string(),
                })
            }
            MeasuredDrive::Block(drive) => drive.pattern(),
        }
    }

    /// See [`RunningDisk::prepare`].
    pub(crate) fn prepare(
        &mut self,
        kernel: &BlockQueueSettings,
        warm_metadata: bool,
    ) -> Result<Vec<QueueSettings>, RigError> {
        self.each(|disk| disk.prepare(kernel, warm_metadata))
    }

    /// See [`RunningDisk::begin`]; each has its own trace, the first at the given path.
    pub(crate) fn begin(&mut self, trace: &Path) -> Result<(), RigError> {
        let mut number = 0;
        let begin = |disk: &mut RunningDisk| {
            number += 1;
            match number {
                1 => disk.begin(trace),
                _ => disk.begin(&trace.with_extension(number.to_string())),
            }
        };
        self.each(begin).map(drop)
    }

    /// Their current counters.
    pub(crate) fn counters(&mut self) -> Result<Vec<Value>, RigError> {
        self.each(RunningDisk::counters)
    }

    /// The steady state begins: the work before it does not count.
    pub(crate) fn begin_steady(&mut self) -> Result<(), RigError> {
        self.each(RunningDisk::begin_steady).map(drop)
    }

    /// Ends the measurement that [`RunningDisks::begin`] started, and returns the counters.
    pub(crate) fn end(&mut self) -> Result<Vec<Value>, RigError> {
        self.each(RunningDisk::end)
    }

    /// See [`RunningDisk::queue`].
    pub(crate) fn queues(&self) -> Result<Vec<QueueSettings>, RigError> {
        self.all().map(RunningDisk::queue).collect()
    }
}

/// Creates a link for each file of the titles, assigned to the drives in turn: popular and long
/// titles are spread evenly.
fn link(root: &Path, drives: &[&Path], catalogue: &Catalogue) -> std::io::Result<()> {
    if root.exists() {
        fs::remove_dir_all(root)?;
    }
    for (title, drive) in catalogue.titles.iter().zip(drives.iter().cycle()) {
        for file in catalogue.files(title) {
            let path = root.join(&file.path);
            if let Some(folder) = path.parent() {
                fs::create_dir_all(folder)?;
            }
            symlink(drive.join(&file.path), path)?;
        }
    }
    Ok(())
}

/// Inodes for folders and the file system's own files.
const INODES_SPARE: u64 = 20_000;
/// Timeout for creating a file system on a large drive, with timing off.
const FILL_PATIENCE: Duration = Duration::from_secs(3600);

/// Timeout for writing all titles to a block device: a drive of 20 TB takes a day and a half.
const WRITE_PATIENCE: Duration = Duration::from_secs(72 * 3600);
/// Mount point of a block device's titles, below the bench's folder; the guardian unmounts what is
/// mounted at such a place.
const DEVICE_MOUNT: &str = "device/mounted";

/// What the titles are on.
#[derive(Debug)]
enum MeasuredDrive {
    Emulated {
        drive: Box<EmulatedDrive>,
        /// Locked until the drive has ended.
        _store: Box<DriveStore>,
    },
    Block(BlockDrive),
}

/// A running drive; it is terminated when dropped.
#[derive(Debug)]
pub(crate) struct RunningDisk {
    drive: MeasuredDrive,
    /// `None` with a ZFS pool, which each run imports and exports.
    mount: Option<ReadOnlyMount>,
    point: PathBuf,
    /// The command that started it.
    pub(crate) command: Vec<String>,
}

/// Parameters of a drive.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DiskSetup<'a> {
    pub(crate) headlong: &'a Path,
    pub(crate) drive: &'a ExperimentDrive,
    pub(crate) files: &'a FileSet,
    pub(crate) store_root: &'a Path,
    pub(crate) time_scale: u32,
    /// Index among identical drives, from 0.
    pub(crate) number: u32,
}

impl DiskSetup<'_> {
    /// A file name unique to this drive.
    fn named(&self, name: &str, ending: &str) -> String {
        match self.number {
            0 => format!("{name}{ending}"),
            number => format!("{name}-{}{ending}", number + 1),
        }
    }

    /// Paths of its mount point and its control socket.
    fn places(&self, folder: &Path) -> (PathBuf, PathBuf) {
        (
            folder.join(self.named("titles", "")),
            folder.join(self.named("drive", ".sock")),
        )
    }

    /// Chunk files need many more inodes than a file system of this size usually has.
    fn inodes(&self) -> u64 {
        self.files.count() / 8 * 9 + INODES_SPARE
    }

    /// The command that starts the drive.
    pub(crate) fn words(&self, store: &Path, point: &Path, socket: &Path) -> Vec<String> {
        let words = CommandBuilder::of(self.headlong, "disk emulate")
            .word(self.drive.word(&described(socket)))
            .option("--time-scale", self.time_scale)
            .option("--store", store.display())
            .option("--control", socket.display())
            .plain("--json")
            .maybe("--size", self.drive.size_bytes);
        if self.files.is_pool() {
            return words.plain("--file-system none").0;
        }
        let inodes = self.inodes();
        words
            .option("--mount", point.display())
            .option("--file-system", &self.files.file_system)
            .option("--inodes", inodes)
            .0
    }
}

/// Path of a custom drive description, next to the socket.
fn described(socket: &Path) -> String {
    socket.with_file_name("drive.toml").display().to_string()
}

impl RunningDisk {
    /// Starts the drive, and fills it if it does not have the titles.
    pub(crate) fn start(guard: &CleanupGuard, setup: &DiskSetup<'_>) -> Result<Self, RigError> {
        match &setup.drive.device {
            Some(device) => Self::start_block(guard, setup, device),
            None => Self::start_emulated(guard, setup),
        }
    }

    fn start_emulated(guard: &CleanupGuard, setup: &DiskSetup<'_>) -> Result<Self, RigError> {
        let store = DriveStore::open(setup.store_root, setup.drive, setup.files, setup.number)?;
        let (point, socket) = setup.places(guard.folder());
        make_folder(&point)?;
        if let Some(text) = setup.drive.description() {
            let written = text
                .map_err(std::io::Error::other)
                .and_then(|text| fs::write(described(&socket), text));
            written.map_err(|error| RigError::io(described(&socket), error))?;
        }
        let command = setup.words(&store.disk(), &point, &socket);
        let mut drive = EmulatedDrive::start(guard, &command, &socket)?;
        let mount = (!setup.files.is_pool())
            .then(|| ReadOnlyMount::new(guard, &drive.device, &point, &setup.files.file_system));
        if !store.is_filled() {
            say!(
                "filling the drive, once; it is kept in {}",
                setup.store_root.display()
            );
            fill(guard, setup, &mut drive, mount.as_ref(), &point)?;
            store.set_filled()?;
        }
        Ok(Self {
            drive: MeasuredDrive::Emulated {
                drive: Box::new(drive),
                _store: Box::new(store),
            },
            mount,
            point,
            command,
        })
    }

    fn start_block(
        guard: &CleanupGuard,
        setup: &DiskSetup<'_>,
        device: &str,
    ) -> Result<Self, RigError> {
        let files = setup.files;
        let point = guard.folder().join(DEVICE_MOUNT);
        make_folder(&point)?;
        let drive = BlockDrive::open(device, &point)?;
        let label = titles_label(titles_hash(files));
        if !(drive.content()?).has(&label, device, setup.drive.overwrite)? {
            say!("writing all titles to {device}, once; on a large drive this takes hours");
            drive.format(guard, &files.file_system, setup.inodes())?;
            fill_folder(guard, setup, &point, WRITE_PATIENCE)?;
            drive.complete(guard, &files.file_system, &label)?;
        }
        drive.mount_titles(guard, &files.file_system)?;
        let mount = ReadOnlyMount::new(guard, &drive.name, &point, &files.file_system);
        Ok(Self {
            command: vec![format!("mount {device} {}", point.display())],
            drive: MeasuredDrive::Block(drive),
            mount: Some(mount),
            point,
        })
    }

    /// Folder of the titles.
    pub(crate) fn root(&self) -> &Path {
        &self.point
    }

    fn device(&self) -> &str {
        match &self.drive {
            MeasuredDrive::Emulated { drive, .. } => &drive.device,
            MeasuredDrive::Block(drive) => &drive.name,
        }
    }

    /// The pool on it, if there is one, with this cache device.
    pub(crate) fn pool_of(&self, ssd: Option<&Path>) -> Option<PoolDevices> {
        self.mount.is_none().then(|| PoolDevices {
            device: Path::new("/dev").join(self.device()),
            ssd: ssd.map(Path::to_path_buf),
        })
    }

    /// Process id of the emulator, if it is emulated.
    pub(crate) fn process(&self) -> Option<u32> {
        match &self.drive {
            MeasuredDrive::Emulated { drive, .. } => Some(drive.process()),
            MeasuredDrive::Block(_) => None,
        }
    }

    /// The command that fills it, for a plan.
    fn fill_command(headlong: &Path, files: &FileSet, root: &Path) -> Vec<String> {
        CommandBuilder::of(headlong, "workload fill")
            .word(root.display())
            .option("--spec", &files.catalogue)
            .changes(&files.changes())
            .0
    }

    /// Drops everything of the drive from memory, reads the metadata again if configured, and sets
    /// the queue. The timing of an emulated drive is off afterwards.
    pub(crate) fn prepare(
        &mut self,
        kernel: &BlockQueueSettings,
        warm_metadata: bool,
    ) -> Result<QueueSettings, RigError> {
        if let MeasuredDrive::Emulated { drive, .. } = &mut self.drive {
            drive.control.timing(false)?;
        }
        if let Some(mount) = &self.mount {
            mount.make_cold()?;
            if warm_metadata {
                read_metadata(&self.point)?;
            }
        }
        queue::set(self.device(), kernel)
    }

    /// Resets the counters; of an emulated drive, turns timing on, and starts a trace at `trace`.
    pub(crate) fn begin(&mut self, trace: &Path) -> Result<(), RigError> {
        let drive = match &mut self.drive {
            MeasuredDrive::Block(drive) => return drive.reset_counters(),
            MeasuredDrive::Emulated { drive, .. } => drive,
        };
        drive.reset_counters()?;
        let trace = json!({ "do": "trace_start", "path": trace });
        drive.control.ask(&trace)?;
        drive.control.timing(true)
    }

    /// Its current counters.
    pub(crate) fn counters(&mut self) -> Result<Value, RigError> {
        match &mut self.drive {
            MeasuredDrive::Emulated { drive, .. } => drive.counters(),
            MeasuredDrive::Block(drive) => drive.counters(),
        }
    }

    /// The steady state begins: lateness and requests before it do not count.
    pub(crate) fn begin_steady(&mut self) -> Result<(), RigError> {
        match &mut self.drive {
            MeasuredDrive::Emulated { drive, .. } => drive.control.forget_lateness(),
            MeasuredDrive::Block(drive) => drive.begin_steady(),
        }
    }

    /// Ends the measurement that [`RunningDisk::begin`] started, and returns the drive's counters.
    pub(crate) fn end(&mut self) -> Result<Value, RigError> {
        let counters = self.counters()?;
        if let MeasuredDrive::Emulated { drive, .. } = &mut self.drive {
            drive.control.ask(&json!({ "do": "trace_stop" }))?;
            drive.control.timing(false)?;
        }
        Ok(counters)
    }

    /// Current settings of the queue; a run in which they changed is invalid.
    pub(crate) fn queue(&self) -> Result<QueueSettings, RigError> {
        queue::look(self.device())
    }
}

/// Fills an emulated drive without timing.
fn fill(
    guard: &CleanupGuard,
    setup: &DiskSetup<'_>,
    drive: &mut EmulatedDrive,
    mount: Option<&ReadOnlyMount>,
    point: &Path,
) -> Result<(), RigError> {
    drive.control.timing(false)?;
    match mount {
        Some(mount) => {
            fill_folder(guard, setup, point, FILL_PATIENCE)?;
            // Unmounting flushes the file system; the drive then syncs its own store.
            mount.make_cold()?;
        }
        None => {
            let device = Path::new("/dev").join(&drive.device);
            pool::with_new(guard, &device, |folder| {
                fill_folder(guard, setup, folder, FILL_PATIENCE)
            })?;
        }
    }
    drive.control.ask(&json!({ "do": "sync" })).map(drop)
}

fn fill_folder(
    guard: &CleanupGuard,
    setup: &DiskSetup<'_>,
    folder: &Path,
    patience: Duration,
) -> Result<(), RigError> {
    let words = RunningDisk::fill_command(setup.headlong, setup.files, folder);
    ChildProcess::complete(guard, &words, StderrHandling::Shown, patience)?;
    // A catalogue that cannot be read has been reported earlier.
    match setup.files.catalogue() {
        Ok(catalogue) => write_playlists(folder, &catalogue),
        Err(_) => Ok(()),
    }
}

/// Its file name, in the title's folder.
const NAME: &str = "index.m3u8";

/// Writes the playlists of `catalogue` below `root`.
fn write_playlists(root: &Path, catalogue: &Catalogue) -> Result<(), RigError> {
    if !catalogue.form.is_split() {
        return Ok(());
    }
    for title in &catalogue.titles {
        let first = catalogue.files(title).next();
        let folder = first.and_then(|file| Some(root.join(file.path).parent()?.join(NAME)));
        if let Some(path) = folder {
            let text = playlist(catalogue, title);
            fs::write(&path, text).map_err(|error| RigError::io(path.display(), error))?;
        }
    }
    Ok(())
}

/// The header file before the segments, if there is one, then every file with its duration.
fn playlist(catalogue: &Catalogue, title: &Title) -> String {
    let (mut lines, mut longest_s) = (String::new(), 0.0_f64);
    for file in catalogue.files(title) {
        let name = file.path.rsplit('/').next().unwrap_or_default();
        // Writing to a string cannot fail.
        if catalogue.form == TitleForm::Segments && file.range.end <= title.header_bytes {
            let _ = writeln!(lines, "#EXT-X-MAP:URI=\"{name}\"");
            continue;
        }
        let seconds = match catalogue.form {
            TitleForm::Segments => title.segment_time.as_secs_f64(),
            TitleForm::Whole | TitleForm::Chunks(_) => {
                file.range.len() as f64 * 8.0 / title.bit_rate()
            }
        };
        longest_s = longest_s.max(seconds);
        let _ = writeln!(lines, "#EXTINF:{seconds:.3},\n{name}");
    }
    let target = longest_s.ceil();
    format!("#EXTM3U\n#EXT-X-TARGETDURATION:{target}\n{lines}#EXT-X-ENDLIST\n")
}

#[cfg(test)]
mod tests {
    use headlong_workload::Specification;

    use super::*;

    #[test]
    fn distributes_titles_round_robin_and_links_every_file() {
        let few = [
            ("title.sd.count".to_owned(), "5".to_owned()),
            ("catalogue.chunk".to_owned(), "4MiB".to_owned()),
        ];
        let specification = Specification::preset("youtube-2011", &few).expect("right");
        let catalogue = Catalogue::of(&specification);
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path().join(LINKED);
        fs::create_dir(&root).expect("the folder is new");
        fs::write(root.join("old"), "x").expect("written");
        let drives = [Path::new("/a"), Path::new("/b")];
        link(&root, &drives, &catalogue).expect("linked");
        assert!(!root.join("old").exists());
        for (number, title) in catalogue.titles.iter().enumerate() {
            for file in catalogue.files(title) {
                let target = fs::read_link(root.join(&file.path)).expect("a link");
                assert_eq!(target, drives[number % 2].join(&file.path));
            }
        }
    }

    fn first_playlist(preset: &str, changes: &[(&str, &str)]) -> String {
        let changes: Vec<_> = changes
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect();
        let specification = Specification::preset(preset, &changes).expect("right");
        let catalogue = Catalogue::of(&specification);
        playlist(&catalogue, &catalogue.titles[0])
    }

    #[test]
    fn chunk_duration_follows_bytes() {
        let text = first_playlist(
            "youtube-sd",
            &[("catalogue.chunk", "1MiB"), ("title.sd.count", "1")],
        );
        let start = "#EXTM3U\n#EXT-X-TARGETDURATION:20\n#EXTINF:20.000,\n00000.bin\n";
        assert!(text.starts_with(start), "{text}");
        assert!(text.ends_with("#EXT-X-ENDLIST\n"), "{text}");
    }

    #[test]
    fn segments_have_durations_and_header_is_map() {
        let changes = [("catalogue.chunk", "segment"), ("title.dash.count", "1")];
        let text = first_playlist("dash-vod", &changes);
        let start = "#EXTM3U\n#EXT-X-TARGETDURATION:4\n#EXT-X-MAP:URI=\"00000-0.bin\"\n\
                 #EXTINF:4.000,\n00001-";
        assert!(text.starts_with(start), "{text}");
    }
}
