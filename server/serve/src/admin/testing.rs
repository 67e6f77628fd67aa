//! Test server: devices with known numbers.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use bytes::Bytes;
use headlong_engine::{
    ChainView, DeviceState, EngineConfig, MemoryUse, Policy, QueueUse, Stats, StreamId, ViewerId,
};
use headlong_net::{ConnectionCounters, ShutdownTrigger, shutdown};
use headlong_storage::{DeviceSnapshot, SendfileCacheUse};
use headlong_telemetry::{AccessLog, LogConfig};
use headlong_units::{BitRate, Duration};

use super::{
    AdminState, BoxFuture, Devices, LibraryDocument, LibraryRenderer, RequestMetrics, StreamName,
    StreamNames,
};

pub(crate) fn device(name: &str, state: DeviceState) -> DeviceSnapshot {
    DeviceSnapshot {
        name: name.to_owned(),
        roots: vec![PathBuf::from("/srv/video")],
        rotational: true,
        io: "io_uring, O_DIRECT",
        capacity_bytes: 4_000_000_000_000,
        state,
        is_overloaded: false,
        config: EngineConfig::default(),
        control: None,
        stats: Stats {
            requests: 7,
            bytes_read: 8 << 20,
            busy_time: Duration::from_millis(1500),
            ..Stats::default()
        },
        stats_by_policy: vec![(Policy::Fixed, Stats::default())],
        memory: MemoryUse {
            free_bytes: 1000,
            filling_bytes: 200,
            sending_bytes: 30,
            unread_bytes: 4,
            read_bytes: 5,
        },
        sendfile_cache: Some(SendfileCacheUse {
            budget_bytes: 90,
            filled_bytes: 60,
            live_bytes: 50,
            held_bytes: 20,
        }),
        queue: QueueUse {
            jobs: 3,
            jobs_demanded: 2,
            jobs_overdue: 1,
            outstanding_reads: 1,
            head_physical: 123_456_789,
        },
        queue_positions: vec![1, 2, 3],
        chain_count: 41,
        chains: vec![ChainView {
            viewer: ViewerId(0xabc),
            stream: StreamId(1),
            bit_rate: None,
            length_bytes: 10,
            unread_bytes: 20,
            prefetch_bytes: 30,
            pace: BitRate(4_000_000),
            slack: Duration::from_millis(2500),
        }],
        saved_state_age: Some(Duration::from_millis(1500)),
        flash: None,
        ssd_paths: Vec::new(),
    }
}

struct FixedDevices(Vec<DeviceSnapshot>);

impl Devices for FixedDevices {
    fn snapshots(&self) -> BoxFuture<'_, Vec<DeviceSnapshot>> {
        Box::pin(async { self.0.clone() })
    }
}

impl LibraryRenderer for FixedDevices {
    fn json(&self) -> Bytes {
        Bytes::from_static(br#"{"titles":[]}"#)
    }
}

impl StreamNames for FixedDevices {
    fn describe(&self, stream: StreamId) -> Option<StreamName> {
        (stream == StreamId(1)).then(|| StreamName {
            path: "/a/b.mp4".to_owned(),
            bit_rate: Some(BitRate(2_000_000)),
        })
    }
}

/// A state with these devices, and the trigger of its drain.
pub(super) fn state(devices: Vec<DeviceSnapshot>) -> (AdminState, ShutdownTrigger) {
    let fixed = Arc::new(FixedDevices(devices));
    let (trigger, draining) = shutdown();
    let state = AdminState {
        version: "1.2.3",
        started_unix_ms: 1_000,
        started: std::time::Instant::now(),
        media_addresses: vec!["http://127.0.0.1:8080".to_owned()],
        host_names: vec!["video.example".to_owned()],
        devices: fixed.clone(),
        library: LibraryDocument::new(fixed.clone()),
        streams: fixed,
        requests: Arc::new(RequestMetrics::default()),
        pulls: Arc::default(),
        connections: Arc::new(ConnectionCounters::default()),
        log: Arc::new(AccessLog::open(&LogConfig::default()).expect("nothing to open")),
        draining,
        is_ready: Arc::new(AtomicBool::new(true)),
        unscanned: Arc::default(),
        degraded: Arc::default(),
        certificates: None,
        share: Arc::default(),
        roots: Arc::default(),
    };
    (state, trigger)
}
