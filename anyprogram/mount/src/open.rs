//! Open files, and the version of each that the engine reads.
//!
//! Attributes are trusted for `revalidate`, as in the server. A recently written file may be
//! written again with the same mtime, so it bypasses the engine until its mtime is stable.

use std::ffi::OsStr;
use std::fs::File;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use headlong_engine::{ConnectionId, StreamId};
use headlong_library::{BlockMap, FileIdentity};
use headlong_storage::Device;
use headlong_walk::{Chunks, RunHistory, SMALL_BYTES, run_name};
use rustix::io::Result;

use crate::attributes::attributes;
use crate::cache_trimming::{CacheTrimmer, UnreadRange};
use crate::disks::FileSystemEngine;
use crate::invalidation::PendingInvalidations;
use crate::io_mode::{FileIoMode, IoModePolicy};
use crate::nodes::Nodes;
use crate::stream::{Stream, Title, TitlePart, TitleSource};
use crate::titles::Titles;
use crate::tree::Tree;

/// How long after a write a file may be written again with the same mtime: FAT has the coarsest
/// timestamps, two seconds.
const SETTLE: Duration = Duration::from_secs(2);

/// One opening of a file.
#[derive(Debug)]
pub(crate) struct OpenFile {
    pub(crate) node: u64,
    pub(crate) file: Arc<File>,
    pub(crate) disk: Arc<FileSystemEngine>,
    /// Identifies its reads to the engine.
    pub(crate) reader: ConnectionId,
    /// Whether the kernel caches what is read.
    pub(crate) manner: FileIoMode,
    /// The range handed to the page cache.
    handed: UnreadRange,
    /// Whether a search for the title of this file has been started.
    is_looked_around: AtomicBool,
    /// The path at which it was opened.
    path: PathBuf,
    view: Mutex<CachedStatus>,
}

#[derive(Debug)]
struct CachedStatus {
    /// `None` if the file must be checked before its attributes are trusted.
    looked_at: Option<Instant>,
    identity: FileIdentity,
    /// `None` if it is read without the engine.
    stream: Option<Arc<Stream>>,
}

impl OpenFile {
    /// Its stream, if the attributes were read within that time.
    pub(crate) fn fresh(&self, revalidate: Duration) -> Option<Option<Arc<Stream>>> {
        let view = self.view.lock().unwrap_or_else(PoisonError::into_inner);
        let is_fresh = view.looked_at.is_some_and(|at| at.elapsed() < revalidate);
        is_fresh.then(|| view.stream.clone())
    }

    /// The last known size, if it is a small file with a stable mtime.
    pub(crate) fn small_bytes(&self) -> Option<u64> {
        let view = self.view.lock().unwrap_or_else(PoisonError::into_inner);
        let identity = &view.identity;
        let is_small = identity.is_settled && identity.size < SMALL_BYTES;
        is_small.then_some(identity.size)
    }

    /// Forces a check before the next read.
    pub(crate) fn distrust(&self) {
        let mut view = self.view.lock().unwrap_or_else(PoisonError::into_inner);
        view.looked_at = None;
    }
}

/// Opens files, and checks them again.
#[derive(Debug)]
pub(crate) struct FileOpener {
    pub(crate) tree: Arc<Tree>,
    pub(crate) nodes: Arc<Nodes>,
    pub(crate) places: Arc<BlockMap>,
    /// Receives changed files, and ranges that need not stay in the page cache.
    pub(crate) stale: Arc<PendingInvalidations>,
    pub(crate) behind: Arc<CacheTrimmer>,
    pub(crate) manners: IoModePolicy,
    pub(crate) titles: Titles,
    /// Tells numbered chunk files from numbered films.
    pub(crate) follows: RunHistory,
    /// Whether numbered files are read as one title.
    pub(crate) chunks_ahead: bool,
    /// The tree's path, as the kernel reports it: chunk files outside are ignored.
    pub(crate) beneath: PathBuf,
    pub(crate) streams: AtomicU64,
    pub(crate) readers: AtomicU64,
}

impl FileOpener {
    /// Registers a file opened by a thread at a path. Blocks on its disk.
    ///
    /// # Errors
    /// If its attributes cannot be read.
    pub(crate) fn open(
        &self,
        node: u64,
        path: PathBuf,
        file: File,
        disk: Arc<FileSystemEngine>,
        thread: u32,
    ) -> Result<(OpenFile, FileIdentity)> {
        let identity = settling(attributes(&file)?.identity);
        let file = Arc::new(file);
        self.nodes.opened(node, &file);
        let reader = self.readers.fetch_add(1, Ordering::Relaxed);
        let is_of_engine = disk.device.is_some() && is_large(&identity);
        let manner = self.manners.opened(thread, is_of_engine);
        let open = OpenFile {
            node,
            file,
            disk,
            reader: ConnectionId(reader),
            manner,
            handed: UnreadRange::default(),
            is_looked_around: AtomicBool::new(false),
            path,
            view: Mutex::new(CachedStatus {
                looked_at: None,
                identity,
                stream: None,
            }),
        };
        let stream = self.stream(&open, &identity, true);
        let view = open.view.lock();
        let mut view = view.unwrap_or_else(PoisonError::into_inner);
        (view.looked_at, view.stream) = (Some(Instant::now()), stream);
        drop(view);
        Ok((open, identity))
    }

    /// Checks an open file; returns the stream to read from now on. May block on its disk.
    ///
    /// # Errors
    /// If its attributes cannot be read.
    pub(crate) fn revalidate(&self, open: &OpenFile) -> Result<Option<Arc<Stream>>> {
        let looked_at = Instant::now();
        let identity = settling(attributes(&*open.file)?.identity);
        let stream = self.stream(open, &identity, false);
        let mut view = open.view.lock().unwrap_or_else(PoisonError::into_inner);
        let is_other = !view.identity.has_bytes_of(&identity);
        let gone = std::mem::replace(&mut view.stream, stream.clone());
        (view.looked_at, view.identity) = (Some(looked_at), identity);
        drop(view);
        drop(gone);
        if is_other {
            self.stale.add(open.node);
        }
        Ok(stream)
    }

    /// The kernel receives bytes for its page cache that the engine read.
    pub(crate) fn handed(&self, open: &OpenFile, bytes: Range<u64>) {
        let gone = self.behind.handed(open.node, &open.handed, bytes);
        self.stale.add_parts(gone);
    }

    /// A program has closed the file.
    pub(crate) fn closed(&self, open: &OpenFile) {
        let gone = self.behind.closed(open.node, &open.handed);
        self.stale.add_parts(gone);
    }

    fn stream(
        &self,
        open: &OpenFile,
        identity: &FileIdentity,
        is_opening: bool,
    ) -> Option<Arc<Stream>> {
        let device = open.disk.device.as_ref()?;
        if !is_large(identity) {
            return None;
        }
        // An open file continues with the stream it began with.
        let in_title = match is_opening {
            true => self.titles.find(identity),
            false => None,
        };
        let alone = || {
            let part = TitlePart::new(*identity, open.path.clone());
            Stream::of(&self.title(device.clone(), vec![part]), 0)
        };
        let stream = self
            .nodes
            .stream(open.node, identity, in_title.map(Arc::new), || {
                alone().map(Arc::new)
            })?;
        stream.opened(&open.file);
        Some(stream)
    }

    fn title(&self, device: Device, parts: Vec<TitlePart>) -> Arc<Title> {
        let source = TitleSource {
            id: StreamId(self.streams.fetch_add(1, Ordering::Relaxed)),
            tree: Arc::clone(&self.tree),
            places: Arc::clone(&self.places),
            parts,
        };
        Arc::new(Title::new(device, source))
    }

    /// A program starts to read a single-file stream at `offset`. If earlier reads suggest that the
    /// file is a chunk of a title, another thread looks for the title, and calls `found` with the
    /// file's part of it.
    pub(crate) fn look_around(
        self: &Arc<Self>,
        open: &Arc<OpenFile>,
        offset: u64,
        stream: &Stream,
        found: impl FnOnce(Stream) + Send + 'static,
    ) {
        if !self.chunks_ahead
            || !stream.title.is_alone()
            || open.is_looked_around.swap(true, Ordering::Relaxed)
        {
            return;
        }
        let Some((run, number)) = run_name(&open.path, stream.identity.size) else {
            return;
        };
        let is_title = match offset {
            0 => self.follows.begins(&run, number, Instant::now()),
            _ => self.follows.is_title(&run),
        };
        if !is_title || !self.titles.is_due(&run) {
            return;
        }
        let (opening, asked) = (Arc::clone(self), Arc::clone(open));
        let (identity, device) = (stream.identity, stream.title.device.clone());
        // If the disk's queue is full, the file is read on its own.
        open.disk.reads.offer(move || {
            if let Some(stream) = opening.title_of(&asked, &identity, device) {
                stream.opened(&asked.file);
                found(stream);
            }
        });
    }

    /// The title that an open file belongs to. Blocks on its disk.
    fn title_of(&self, open: &OpenFile, identity: &FileIdentity, device: Device) -> Option<Stream> {
        let chunks = Chunks::around(&open.file, &self.beneath)?;
        let parts = (0..chunks.len()).filter_map(|index| {
            let identity = settling(FileIdentity::of(&chunks.inspect(index)?));
            if !is_large(&identity) {
                return None;
            }
            let name = OsStr::from_bytes(chunks.name(index)?);
            let path = open.path.with_file_name(name);
            TitlePart::new(identity, path).looked_at(&self.tree, &self.places)
        });
        let parts: Vec<TitlePart> = parts.collect();
        // The file may have left its folder meanwhile.
        let is_it = |part: &TitlePart| part.identity == *identity;
        let part = parts.iter().position(is_it).filter(|_| parts.len() > 1)?;
        let title = self.title(device, parts);
        self.titles.add(&title);
        Stream::of(&title, u32::try_from(part).ok()?)
    }
}

/// Whether the engine reads the file: its mtime is stable, and it is too large for one call. After
/// a small file the next file is read ahead.
fn is_large(identity: &FileIdentity) -> bool {
    identity.is_settled && identity.size >= SMALL_BYTES
}

fn settling(identity: FileIdentity) -> FileIdentity {
    identity.settling(SETTLE)
}
