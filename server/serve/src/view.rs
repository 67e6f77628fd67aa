//! Access of the admin listener to the state of the server.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use headlong_engine::StreamId;
use tokio::task::JoinSet;

use crate::admin::{AdminState, BoxFuture, Devices, Library, StreamName, StreamNames};
use crate::config::Config;
use crate::degraded::DegradedParts;
use crate::disk::DeviceSnapshot;
use crate::http::MediaState;
use crate::net::{ConnectionCounters, Shutdown};
use crate::pending_scans::Unscanned;

/// Builds the admin state over `state`.
pub(crate) fn admin_state(
    state: &Arc<MediaState>,
    config: &Config,
    connections: Arc<ConnectionCounters>,
    media_addresses: Vec<String>,
    draining: Shutdown,
    (is_ready, unscanned, degraded): (Arc<AtomicBool>, Arc<Unscanned>, Arc<DegradedParts>),
) -> AdminState {
    let since_1970 = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let view = Arc::new(View(Arc::clone(state)));
    AdminState {
        version: env!("CARGO_PKG_VERSION"),
        started_unix_ms: u64::try_from(since_1970.as_millis()).unwrap_or(u64::MAX),
        started: std::time::Instant::now(),
        media_addresses,
        host_names: config.admin_hosts.clone(),
        devices: Arc::<View>::clone(&view),
        library: Arc::<View>::clone(&view),
        streams: view,
        requests: Arc::clone(&state.metrics),
        pulls: Arc::clone(&state.pulls),
        connections,
        log: Arc::clone(&state.log),
        draining,
        is_ready,
        unscanned,
        degraded,
    }
}

struct View(Arc<MediaState>);

impl Devices for View {
    fn snapshots(&self) -> BoxFuture<'_, Vec<DeviceSnapshot>> {
        Box::pin(async {
            // Query all devices concurrently, so that a busy one does not delay the others.
            let mut asked = JoinSet::new();
            for (index, device) in self.0.devices.iter().cloned().enumerate() {
                asked.spawn(async move { (index, device.snapshot().await) });
            }
            let mut snapshots = asked.join_all().await;
            snapshots.sort_by_key(|(index, _)| *index);
            snapshots
                .into_iter()
                .map(|(_, snapshot)| snapshot)
                .collect()
        })
    }
}

impl Library for View {
    fn json(&self) -> Bytes {
        document(&self.0.library)
    }
}

/// Upper limit of listed warnings; the total count is always included.
const ODD_MAX: usize = 1000;

/// `/library.json`.
fn document(library: &headlong_library::Library) -> Bytes {
    #[derive(serde::Serialize)]
    struct Document {
        titles: Vec<headlong_library::TitleView>,
        odd: Vec<headlong_library::Warning>,
        odd_count: usize,
    }
    // A title's warning may come from facts of an earlier process, so build the titles before the
    // list.
    let titles = library.titles();
    let mut odd = library.warnings();
    let odd_count = odd.len();
    odd.truncate(ODD_MAX);
    let document = Document {
        titles,
        odd,
        odd_count,
    };
    // The document consists of texts and numbers, which JSON can represent.
    serde_json::to_vec(&document).map_or_else(|_| Bytes::new(), Bytes::from)
}

impl StreamNames for View {
    fn describe(&self, stream: StreamId) -> Option<StreamName> {
        let files = self.0.stream(stream)?;
        Some(StreamName {
            path: files.url_path(),
            bit_rate: files.bit_rate(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn title_of_chain_has_same_path_as_in_library() {
        let root = tempfile::tempdir().expect("a folder");
        std::fs::write(root.path().join("a b%41.mp4"), "no film").expect("written");
        let library = headlong_library::Library::scan(&[root.path().to_path_buf()]);
        let library = library.expect("a library");
        let entry = library.resolve("a b%41.mp4").expect("it is there");
        assert_eq!(entry.stream.url_path(), "/a%20b%2541.mp4");
        assert_eq!(library.titles()[0].path, entry.stream.url_path());
    }

    #[test]
    fn lists_bounded_number_of_odd_files_with_reasons() {
        let root = tempfile::tempdir().expect("a folder");
        let write = |name: &str| std::fs::write(root.path().join(name), "no film");
        for number in 0..ODD_MAX {
            write(&format!("{number}.m3u8")).expect("written");
        }
        write("bad.mp4").expect("written");
        let library = headlong_library::Library::scan(&[root.path().to_path_buf()]);
        let library = library.expect("a library");
        let entry = library.resolve("bad.mp4").expect("it is there");
        assert_eq!(entry.stream.learn(0, 0, b"no film"), None);
        let document: serde_json::Value =
            serde_json::from_slice(&document(&library)).expect("JSON");
        assert_eq!(document["odd_count"], ODD_MAX + 1);
        let odd = document["odd"].as_array().expect("a list");
        assert_eq!(odd.len(), ODD_MAX);
        let reason = odd[0]["reason"].as_str().expect("a reason");
        assert!(reason.contains("is not understood"), "{reason}");
        let reason = document["titles"][0]["odd"].as_str().expect("a reason");
        assert!(reason.contains("it is not an MP4 file"), "{reason}");
    }
}
