//! Access of the admin listener to the state of the server.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use headlong_engine::StreamId;
use headlong_net::{ConnectionCounters, ReloadingCertificates, Shutdown};
use headlong_storage::DeviceSnapshot;
use headlong_telemetry::degraded_parts::DegradedParts;
use tokio::task::JoinSet;

use crate::admin::{
    AdminState, BoxFuture, Devices, LibraryDocument, LibraryRenderer, StreamName, StreamNames,
};
use crate::http::{MediaState, is_packaged, refused};
use crate::pending_scans::PendingScans;
use crate::root_attachment::RootAttachments;
use headlong_config::Config;

/// The parts of a running server that the admin address shows, besides its library and devices.
pub(crate) struct AdminSources {
    pub(crate) connections: Arc<ConnectionCounters>,
    /// URLs of the media listeners, for players in a browser.
    pub(crate) media_addresses: Vec<String>,
    /// Drain of the media listeners.
    pub(crate) draining: Shutdown,
    pub(crate) is_ready: Arc<AtomicBool>,
    pub(crate) unscanned: Arc<PendingScans>,
    pub(crate) degraded: Arc<DegradedParts>,
    pub(crate) certificates: Option<Arc<ReloadingCertificates>>,
    pub(crate) roots: Arc<RootAttachments>,
}

/// Builds the admin state over `state`.
pub(crate) fn admin_state(
    state: &Arc<MediaState>,
    config: &Config,
    sources: AdminSources,
) -> AdminState {
    let since_1970 = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let view = Arc::new(MediaView(Arc::clone(state)));
    AdminState {
        version: env!("CARGO_PKG_VERSION"),
        started_unix_ms: u64::try_from(since_1970.as_millis()).unwrap_or(u64::MAX),
        started: std::time::Instant::now(),
        media_addresses: sources.media_addresses,
        host_names: config.admin_hosts.clone(),
        devices: Arc::<MediaView>::clone(&view),
        library: LibraryDocument::new(Arc::<MediaView>::clone(&view)),
        streams: view,
        requests: Arc::clone(&state.metrics),
        pulls: Arc::clone(&state.pulls),
        connections: sources.connections,
        log: Arc::clone(&state.log),
        draining: sources.draining,
        is_ready: sources.is_ready,
        unscanned: sources.unscanned,
        degraded: sources.degraded,
        certificates: sources.certificates,
        share: Arc::clone(&state.share),
        roots: sources.roots,
    }
}

struct MediaView(Arc<MediaState>);

impl Devices for MediaView {
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

impl LibraryRenderer for MediaView {
    fn json(&self) -> Bytes {
        let (state, settings) = (&self.0, self.0.settings());
        let packaging = PackagingView {
            is_on: &|path| is_packaged(state, &settings, path),
            refused: refused(state),
        };
        let document = document(&state.library, TITLES_BYTES_MAX, &packaging);
        document.map_or_else(|_| Bytes::new(), Bytes::from)
    }
}

/// Upper limit of listed warnings; the total count is always included.
const ODD_MAX: usize = 1000;
/// Upper limit of the listed titles: those of more than 100,000 files.
const TITLES_BYTES_MAX: usize = 64 << 20;

/// Which titles are packaged.
struct PackagingView<'a> {
    /// Whether it is on for a path.
    is_on: &'a dyn Fn(&str) -> bool,
    /// Why not, for files that were found to be unsuitable.
    refused: BTreeMap<String, String>,
}

/// `/library.json`, with the first titles that fit in `titles_bytes_max`; `title_count` includes the
/// others. Titles are written one by one, so their views are never in memory all at once.
///
/// # Errors
/// None: the document consists of texts and numbers, which JSON can represent.
fn document(
    library: &headlong_library::Library,
    titles_bytes_max: usize,
    packaging: &PackagingView<'_>,
) -> serde_json::Result<Vec<u8>> {
    #[derive(serde::Serialize)]
    struct ListedTitle<'a> {
        #[serde(flatten)]
        title: &'a headlong_library::TitleView,
        /// Whether HLS and DASH are made from it.
        packaged: bool,
    }
    #[derive(serde::Serialize)]
    struct DocumentTail {
        title_count: usize,
        odd: Vec<headlong_library::Warning>,
        odd_count: usize,
    }
    let (mut text, mut title_count) = (b"{\"titles\":[".to_vec(), 0);
    for mut title in library.each_title() {
        let refused = packaging.refused.get(&*title.tree_path);
        title.odd = title.odd.or_else(|| refused.cloned());
        let end = text.len();
        if title_count > 0 {
            text.push(b',');
        }
        let listed = ListedTitle {
            title: &title,
            packaged: refused.is_none() && (packaging.is_on)(&title.tree_path),
        };
        serde_json::to_writer(&mut text, &listed)?;
        if text.len() > titles_bytes_max {
            text.truncate(end);
            title_count = library.title_count();
            break;
        }
        title_count += 1;
    }
    text.extend_from_slice(b"],");
    // A title's warning may come from facts of an earlier process, so the warnings are read after
    // the titles.
    let mut odd = library.warnings();
    let refused = packaging.refused.iter();
    odd.extend(refused.map(|(path, reason)| headlong_library::Warning {
        path: path.clone(),
        reason: reason.clone(),
    }));
    let odd_count = odd.len();
    odd.truncate(ODD_MAX);
    let rest = serde_json::to_vec(&DocumentTail {
        title_count,
        odd,
        odd_count,
    })?;
    // Without its opening brace.
    text.extend_from_slice(&rest[1..]);
    text.shrink_to_fit();
    Ok(text)
}

impl StreamNames for MediaView {
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

    fn packaging<const N: usize>(refused: [&str; N]) -> PackagingView<'static> {
        let refused = refused.map(|path| (path.to_owned(), "no track".to_owned()));
        PackagingView {
            is_on: &|_| true,
            refused: refused.into(),
        }
    }

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
    fn lists_titles_up_to_size_limit_and_counts_all() {
        let root = tempfile::tempdir().expect("a folder");
        for number in 100..400 {
            std::fs::write(root.path().join(format!("{number}.mp4")), "no film").expect("written");
        }
        let library = headlong_library::Library::scan(&[root.path().to_path_buf()]);
        let library = library.expect("a library");
        let parsed = |bytes_max| -> serde_json::Value {
            let document = document(&library, bytes_max, &packaging([])).expect("JSON");
            assert!(document.len() < bytes_max + 1000, "{}", document.len());
            serde_json::from_slice(&document).expect("JSON")
        };
        for (bytes_max, listed) in [(TITLES_BYTES_MAX, 300..=300), (10_000, 10..=99), (0, 0..=0)] {
            let document = parsed(bytes_max);
            let titles = document["titles"].as_array().expect("a list");
            assert!(listed.contains(&titles.len()), "{}", titles.len());
            assert_eq!(document["title_count"], 300);
            let expected = (100..400).map(|number| format!("/{number}.mp4"));
            assert!(
                titles
                    .iter()
                    .zip(expected)
                    .all(|(title, path)| title["path"] == path)
            );
        }
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
        let document: serde_json::Value = serde_json::from_slice(
            &document(&library, TITLES_BYTES_MAX, &packaging(["bad.mp4"])).expect("JSON"),
        )
        .expect("JSON");
        assert_eq!(document["odd_count"], ODD_MAX + 2);
        assert_eq!(document["titles"][0]["packaged"], false);
        let odd = document["odd"].as_array().expect("a list");
        assert_eq!(odd.len(), ODD_MAX);
        let reason = odd[0]["reason"].as_str().expect("a reason");
        assert!(reason.contains("is not understood"), "{reason}");
        let reason = document["titles"][0]["odd"].as_str().expect("a reason");
        assert!(reason.contains("it is not an MP4 file"), "{reason}");
    }
}
