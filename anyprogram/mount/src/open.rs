//! A file that a program has open, and which version of it the engine reads.
//!
//! The one idea: what was looked at within `revalidate` is believed, as the server does with files
//! that are asked for. A file that was written a moment ago may be written again under the same
//! time, so it is read as it is asked for until it settles.

use std::fs::File;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use headlong_engine::{ConnectionId, StreamId};
use headlong_library::{Identity, Places};
use headlong_walk::SMALL_BYTES;
use rustix::io::Result;

use crate::attributes::attributes;
use crate::disks::Disk;
use crate::nodes::Nodes;
use crate::stale::Stale;
use crate::stream::{FileSource, Stream};
use crate::tree::Tree;

/// How long after it was written a file may be written again under the same time: FAT's clock ticks
/// every two seconds, the slowest of all.
const SETTLE: Duration = Duration::from_secs(2);

/// One opening of a file.
#[derive(Debug)]
pub(crate) struct OpenFile {
    pub(crate) node: u64,
    pub(crate) file: Arc<File>,
    pub(crate) disk: Arc<Disk>,
    /// Tells its reads from those of others.
    pub(crate) reader: ConnectionId,
    /// Where it was opened.
    path: PathBuf,
    view: Mutex<View>,
}

#[derive(Debug)]
struct View {
    /// `None` if it must be looked at before it is believed.
    looked_at: Option<Instant>,
    identity: Identity,
    /// `None` if it is read as it is asked for.
    stream: Option<Arc<Stream>>,
}

impl OpenFile {
    /// What it is read by, if it was looked at within that time.
    pub(crate) fn fresh(&self, revalidate: Duration) -> Option<Option<Arc<Stream>>> {
        let view = self.view.lock().unwrap_or_else(PoisonError::into_inner);
        let is_fresh = view.looked_at.is_some_and(|at| at.elapsed() < revalidate);
        is_fresh.then(|| view.stream.clone())
    }

    /// How long it was when it was looked at, if it is a small file that nobody writes.
    pub(crate) fn small_bytes(&self) -> Option<u64> {
        let view = self.view.lock().unwrap_or_else(PoisonError::into_inner);
        let identity = &view.identity;
        let is_small = identity.is_settled && identity.size < SMALL_BYTES;
        is_small.then_some(identity.size)
    }

    /// It has to be looked at before it is read again.
    pub(crate) fn distrust(&self) {
        let mut view = self.view.lock().unwrap_or_else(PoisonError::into_inner);
        view.looked_at = None;
    }
}

/// What opens files and looks at them again.
#[derive(Debug)]
pub(crate) struct Opening {
    pub(crate) tree: Arc<Tree>,
    pub(crate) nodes: Arc<Nodes>,
    pub(crate) places: Arc<Places>,
    /// Told of files that changed.
    pub(crate) stale: Arc<Stale>,
    pub(crate) streams: AtomicU64,
    pub(crate) readers: AtomicU64,
}

impl Opening {
    /// A file that was opened at a path. Waits for its disk.
    ///
    /// # Errors
    /// If the kernel cannot be asked about it.
    pub(crate) fn open(
        &self,
        node: u64,
        path: PathBuf,
        file: File,
        disk: Arc<Disk>,
    ) -> Result<(OpenFile, Identity)> {
        let identity = settling(attributes(&file)?.identity);
        let file = Arc::new(file);
        self.nodes.opened(node, &file);
        let reader = self.readers.fetch_add(1, Ordering::Relaxed);
        let open = OpenFile {
            node,
            file,
            disk,
            reader: ConnectionId(reader),
            path,
            view: Mutex::new(View {
                looked_at: None,
                identity,
                stream: None,
            }),
        };
        let stream = self.stream(&open, &identity);
        let view = open.view.lock();
        let mut view = view.unwrap_or_else(PoisonError::into_inner);
        (view.looked_at, view.stream) = (Some(Instant::now()), stream);
        drop(view);
        Ok((open, identity))
    }

    /// Looks at an open file again: what it is read by from now on. May wait for its disk.
    ///
    /// # Errors
    /// If the kernel cannot be asked about it.
    pub(crate) fn look(&self, open: &OpenFile) -> Result<Option<Arc<Stream>>> {
        let looked_at = Instant::now();
        let identity = settling(attributes(&*open.file)?.identity);
        let stream = self.stream(open, &identity);
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

    fn stream(&self, open: &OpenFile, identity: &Identity) -> Option<Arc<Stream>> {
        let device = open.disk.device.as_ref()?;
        // One call reads a small one; what is worth reading ahead of it is the next file.
        if !identity.is_settled || identity.size < SMALL_BYTES {
            return None;
        }
        let stream = self.nodes.stream(open.node, identity, || {
            let source = FileSource {
                id: StreamId(self.streams.fetch_add(1, Ordering::Relaxed)),
                identity: *identity,
                tree: Arc::clone(&self.tree),
                path: open.path.clone(),
                places: Arc::clone(&self.places),
                open: Mutex::new(Weak::new()),
            };
            Arc::new(Stream::new(device.clone(), source))
        });
        stream.opened(&open.file);
        Some(stream)
    }
}

fn settling(identity: Identity) -> Identity {
    identity.settling(SETTLE)
}
