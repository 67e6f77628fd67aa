//! Roots that an operator takes out of service and back, so that their disks can be unmounted while
//! the others are served.
//!
//! A detached root has no files: requests for them get 404 at once, and the scan that follows
//! removes its titles, so that the devices close its files. Only replies in progress keep theirs.

use std::path::{Path, PathBuf};
use std::time::Duration;

use headlong_library::Library;
use tokio::sync::watch;
use tokio::time::timeout;

/// Time limit of the scan that removes or adds the titles.
const SCAN_LIMIT: Duration = Duration::from_secs(60);

/// The attachment of all roots. Shared by their scans and the admin address.
#[derive(Debug, Default)]
pub struct RootAttachments {
    library: Option<Library>,
    roots: Vec<RootAttachment>,
}

#[derive(Debug)]
struct RootAttachment {
    path: PathBuf,
    is_wanted: watch::Sender<bool>,
    /// As of the last complete scan.
    is_scanned: watch::Sender<bool>,
}

/// Result of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AttachmentChange {
    /// The titles were removed, or added.
    Done,
    /// New requests are answered accordingly, but the scan takes long: its disk may hang.
    Scanning,
    /// No root has this path.
    Unknown,
}

impl RootAttachments {
    /// All roots of a library, attached.
    pub(crate) fn new(library: &Library) -> Self {
        let attachment = |path| RootAttachment {
            path,
            is_wanted: watch::Sender::new(true),
            is_scanned: watch::Sender::new(true),
        };
        Self {
            roots: library.roots().into_iter().map(attachment).collect(),
            library: Some(library.clone()),
        }
    }

    /// The paths of the roots, as configured.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &Path> {
        self.roots.iter().map(|root| root.path.as_path())
    }

    /// Attaches or detaches the root with this path, that of each site that has it, and waits for
    /// its scan.
    pub(crate) async fn set(&self, path: &Path, is_attached: bool) -> AttachmentChange {
        let roots = self.roots.iter().enumerate();
        let found: Vec<_> = roots.filter(|(_, root)| root.path == path).collect();
        let Some(library) = self.library.as_ref().filter(|_| !found.is_empty()) else {
            return AttachmentChange::Unknown;
        };
        for (index, root) in &found {
            library.set_attached(*index, is_attached);
            root.is_wanted.send_replace(is_attached);
        }
        let scanned = async {
            for (_, root) in found {
                // The sender is in `root`.
                let mut scanned = root.is_scanned.subscribe();
                let _ = scanned.wait_for(|state| *state == is_attached).await;
            }
        };
        match timeout(SCAN_LIMIT, scanned).await {
            Ok(()) => AttachmentChange::Done,
            Err(_) => AttachmentChange::Scanning,
        }
    }

    /// Whether the next scan of the root attaches it.
    pub(crate) fn is_wanted(&self, root: usize) -> bool {
        *self.roots[root].is_wanted.borrow()
    }

    /// A scan of the root has ended, before which it was to be attached or not.
    pub(crate) fn scanned(&self, root: usize, is_attached: bool) {
        self.roots[root].is_scanned.send_replace(is_attached);
    }

    /// Waits for the next scan of a root: this long, or until its attachment is no longer as it was
    /// at the last scan. Zero: only for the latter.
    pub(crate) async fn until_scan(&self, root: usize, pause: Duration) {
        let root = &self.roots[root];
        let scanned = *root.is_scanned.borrow();
        let mut wanted = root.is_wanted.subscribe();
        // The sender is in `root`.
        let is_changed = wanted.wait_for(|wanted| *wanted != scanned);
        match pause.is_zero() {
            true => _ = is_changed.await,
            false => _ = timeout(pause, is_changed).await,
        }
    }
}
