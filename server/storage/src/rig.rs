//! Files and sources for the tests of this module.

use std::fs::{File, OpenOptions};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use headlong_engine::{EngineConfig, PartSpec, StreamId, StreamSpec};
use headlong_flash::FileKey;
use headlong_kernel::time_scale::TimeScale;
use rustix::fs::OFlags;
use rustix::io::Errno;

use super::{DeviceConfig, IoMode, StreamSource};

/// A device with little memory that reads with threads.
pub(crate) fn small_device() -> DeviceConfig {
    DeviceConfig {
        name: "test".to_owned(),
        roots: Vec::new(),
        rotational: true,
        capacity_bytes: 0,
        engine: EngineConfig {
            memory_bytes: 16 << 20,
            ..EngineConfig::default()
        },
        hot_bytes: 0,
        io: IoMode::Pread,
        open_files_max: 8,
        memory_prefault: false,
        time_scale: TimeScale::ONE,
        flash: Default::default(),
        learned: None,
    }
}

/// A directory that is removed on drop.
pub(crate) struct ScratchDir(PathBuf);

impl ScratchDir {
    pub(crate) fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("headlong-disk-{}-{count}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).expect("makes a directory");
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, bytes).expect("writes a file");
        path
    }
}

impl Drop for ScratchDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Bytes that differ at every offset and for every seed.
pub(crate) fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed;
    (0..length)
        .map(|_| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 56) as u8
        })
        .collect()
}

/// Size and modification time.
type FileVersion = (u64, i64, i64);

/// A stream of files named by paths, in the version at creation.
pub(crate) struct FileSource {
    stream: StreamId,
    parts: Vec<(PathBuf, Option<FileVersion>)>,
    refuses_direct: bool,
    /// Blocks each open until its sender is dropped.
    gate: Option<Mutex<Receiver<()>>>,
}

impl FileSource {
    pub(crate) fn new(stream: u64, paths: impl IntoIterator<Item = PathBuf>) -> Self {
        let version = |path: &PathBuf| std::fs::metadata(path).ok().map(|data| version(&data));
        Self {
            stream: StreamId(stream),
            parts: paths
                .into_iter()
                .map(|path| (path.clone(), version(&path)))
                .collect(),
            refuses_direct: false,
            gate: None,
        }
    }

    pub(crate) fn shared(self) -> Arc<dyn StreamSource> {
        Arc::new(self)
    }

    /// Opens hang until the sender is dropped.
    pub(crate) fn hanging(mut self) -> (Arc<dyn StreamSource>, Sender<()>) {
        let (sender, gate) = channel();
        self.gate = Some(Mutex::new(gate));
        (Arc::new(self), sender)
    }

    pub(crate) fn refusing_direct(mut self) -> Self {
        self.refuses_direct = true;
        self
    }
}

fn version(metadata: &std::fs::Metadata) -> FileVersion {
    (metadata.len(), metadata.mtime(), metadata.mtime_nsec())
}

impl StreamSource for FileSource {
    fn spec(&self) -> StreamSpec {
        // A persistent name: equal for another source of the same version.
        let key = |path: &PathBuf, version: &Option<FileVersion>| {
            let mut hasher = DefaultHasher::new();
            (path, version).hash(&mut hasher);
            FileKey(hasher.finish().into())
        };
        let parts = self.parts.iter().map(|(path, version)| PartSpec {
            size_bytes: version.map_or(0, |version| version.0),
            extents: Vec::new(),
            flash_key: Some(key(path, version)),
            is_absent: false,
        });
        StreamSpec {
            id: self.stream,
            parts: parts.collect(),
            bit_rate: None,
        }
    }

    fn open(&self, part: u32, direct: bool) -> io::Result<File> {
        if let Some(gate) = &self.gate {
            assert!(gate.lock().expect("whole").recv().is_err());
        }
        if direct && self.refuses_direct {
            return Err(Errno::INVAL.into());
        }
        let flags = if direct {
            OFlags::DIRECT
        } else {
            OFlags::empty()
        };
        let path = &self.parts[part as usize].0;
        OpenOptions::new()
            .read(true)
            .custom_flags(flags.bits() as i32)
            .open(path)
    }

    fn allows_direct(&self) -> bool {
        !self.refuses_direct
    }

    fn unchanged(&self, part: u32, file: &File) -> bool {
        let now = file.metadata().ok().map(|data| version(&data));
        now == self.parts[part as usize].1
    }
}
