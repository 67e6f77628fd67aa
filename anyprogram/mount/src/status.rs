//! Status of a mount as JSON: the value of an extended attribute of its root.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fuser::ReplyXattr;
use headlong_engine::StreamId;
use headlong_serve::admin::{StreamName, StreamNames, device_status};
use rustix::fs::getxattr;
use serde_json::{Value, json};
use tokio::runtime::Handle;

use crate::disks::Disks;
use crate::extended_attributes;
use crate::folder::OpenFolder;
use crate::handles::Handles;
use crate::nodes::Nodes;
use crate::open::{FileOpener, OpenFile};

/// Name of the attribute.
pub(crate) const ATTRIBUTE: &str = "user.headlong.status";
/// Longest value that the kernel passes on.
const BYTES_MAX: usize = 64 << 10;
/// Time limit for the snapshot of each engine.
const WAIT: Duration = Duration::from_secs(5);

/// Sources of the status.
pub(crate) struct StatusSources {
    pub(crate) runtime: Handle,
    pub(crate) disks: Arc<Disks>,
    pub(crate) nodes: Arc<Nodes>,
    pub(crate) files: Arc<Handles<OpenFile>>,
    pub(crate) folders: Arc<Handles<OpenFolder>>,
    pub(crate) opening: Arc<FileOpener>,
    pub(crate) directory: String,
    pub(crate) started: Instant,
}

/// Streams of a mount have no persistent names.
struct NoNames;

impl StreamNames for NoNames {
    fn describe(&self, _stream: StreamId) -> Option<StreamName> {
        None
    }
}

impl StatusSources {
    /// Replies when the engines of all disks have answered.
    pub(crate) fn answer(self: &Arc<Self>, size: u32, reply: ReplyXattr) {
        let status = Arc::clone(self);
        self.runtime.spawn(async move {
            let text = status.show().await.to_string();
            extended_attributes::answer(reply, size, text.as_bytes());
        });
    }

    async fn show(&self) -> Value {
        let mut devices = Vec::new();
        for device in self.disks.devices() {
            let asked = tokio::time::timeout(WAIT, device.snapshot()).await;
            let Ok(snapshot) = asked else {
                devices.push(json!({ "name": **device.name(), "state": "silent" }));
                continue;
            };
            // Only texts and numbers, so serialization cannot fail.
            let mut shown = device_status(&snapshot, &NoNames).unwrap_or_default();
            // They would not fit, and a file may have several names.
            shown["chains"] = json!({ "live": snapshot.chain_count });
            shown["queue"]["positions_bytes"] = json!([]);
            devices.push(shown);
        }
        let (sweeps, swept) = self.disks.swept();
        json!({
            "version": env!("CARGO_PKG_VERSION"),
            "directory": self.directory,
            "uptime_seconds": self.started.elapsed().as_secs(),
            "files_open": self.files.count(),
            "folders_open": self.folders.count(),
            "nodes": self.nodes.count(),
            "page_cache_bytes": self.opening.behind.bytes(),
            "opened_without_pages": self.opening.manners.opened_without(),
            "titles_in_chunks": self.opening.titles.count(),
            "small_files": {
                "sweeps": sweeps,
                "swept_files": swept.files,
                "swept_bytes": swept.bytes,
            },
            "devices": devices,
        })
    }
}

/// Requests the status of the mount at a mount point, as JSON.
///
/// # Errors
/// If no mount of ours is there.
pub fn status(mount_point: &Path) -> io::Result<String> {
    let mut text = vec![0; BYTES_MAX];
    let asked = getxattr(mount_point, ATTRIBUTE, &mut text[..]);
    let length = asked.map_err(|error| {
        let name = mount_point.display();
        let error = io::Error::from(error);
        let text = format!("no headlong mount at {name}: {error}; give its mount point");
        io::Error::new(error.kind(), text)
    })?;
    text.truncate(length);
    String::from_utf8(text).map_err(|_| io::ErrorKind::InvalidData.into())
}
