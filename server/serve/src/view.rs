//! What the operator's listener sees of the rest.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use headlong_engine::StreamId;

use crate::admin::{AdminState, BoxFuture, Devices, Library, StreamName, StreamNames};
use crate::config::Config;
use crate::disk::DeviceSnapshot;
use crate::http::MediaState;
use crate::net::{ConnectionCounters, Shutdown};

/// Everything that can be shown of `state`.
pub(crate) fn admin_state(
    state: &Arc<MediaState>,
    config: &Config,
    connections: Arc<ConnectionCounters>,
    media_addresses: Vec<String>,
    draining: Shutdown,
    is_ready: Arc<AtomicBool>,
) -> AdminState {
    let since_1970 = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let view = Arc::new(View(Arc::clone(state)));
    AdminState {
        version: env!("CARGO_PKG_VERSION"),
        started_unix_ms: u64::try_from(since_1970.as_millis()).unwrap_or(u64::MAX),
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
    }
}

struct View(Arc<MediaState>);

impl Devices for View {
    fn snapshots(&self) -> BoxFuture<'_, Vec<DeviceSnapshot>> {
        Box::pin(async {
            let mut snapshots = Vec::with_capacity(self.0.devices.len());
            for device in &self.0.devices {
                snapshots.push(device.snapshot().await);
            }
            snapshots
        })
    }
}

impl Library for View {
    fn json(&self) -> Bytes {
        #[derive(serde::Serialize)]
        struct Document {
            titles: Vec<headlong_library::TitleView>,
        }
        let document = Document {
            titles: self.0.library.titles(),
        };
        // Texts and numbers: there is nothing in it that JSON cannot say.
        serde_json::to_vec(&document).map_or_else(|_| Bytes::new(), Bytes::from)
    }
}

impl StreamNames for View {
    fn describe(&self, stream: StreamId) -> Option<StreamName> {
        let files = self.0.stream(stream)?;
        let path = format!("/{}", files.title);
        Some(StreamName {
            path,
            bit_rate: files.manifest_bit_rate,
        })
    }
}
