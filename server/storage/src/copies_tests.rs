//! Tests of the sendfile cache: frequently sent pieces are served without the engine, and
//! correctly.

use std::sync::Arc;
use std::time::Duration;

use headlong_engine::{
    EngineConfig, Hints, ReaderIdentity, Request, Retention, StreamId, ViewerId,
};

use super::rig::{FileSource, ScratchDir, noise, small_device};
use super::{Device, DeviceConfig, StreamSource};

const PIECE: u64 = 64 << 10;
const MIB: usize = 1 << 20;
/// A range of a title: not at its start, and not a whole number of pieces.
const RANGE: (u64, u64) = (PIECE - 1000, 2 * PIECE + 5000);

/// A title that consists of files.
struct TestTitle {
    source: Arc<dyn StreamSource>,
    stream: StreamId,
    files: Vec<Vec<u8>>,
}

impl TestTitle {
    fn new(scratch: &ScratchDir, stream: u64, files: Vec<Vec<u8>>) -> Self {
        let name = |part| format!("{stream}-{part}");
        let write = |(part, bytes): (usize, &Vec<u8>)| scratch.file(&name(part), bytes);
        let paths: Vec<_> = files.iter().enumerate().map(write).collect();
        Self {
            source: Arc::new(FileSource::new(stream, paths)),
            stream: StreamId(stream),
            files,
        }
    }
}

fn device(memory_mib: usize) -> Device {
    device_that_keeps(Retention::Popularity, memory_mib)
}

fn device_that_keeps(retention: Retention, memory_mib: usize) -> Device {
    let small = small_device();
    let started = Device::start(DeviceConfig {
        engine: EngineConfig {
            memory_bytes: (memory_mib * MIB) as u64,
            piece_bytes: PIECE,
            retention,
            ..small.engine
        },
        hot_bytes: 16 * MIB as u64,
        ..small
    });
    started.expect("started")
}

/// Requests a range and compares the bytes. Returns whether the engine did not see the request.
async fn read(device: &Device, title: &TestTitle, part: u32, (start, end): (u64, u64)) -> bool {
    let request = Request {
        viewer: ReaderIdentity::Named(ViewerId(1)),
        stream: title.stream,
        part,
        offset: start,
        length: end - start,
        open_ended: false,
        overlap_bytes: 0,
        holder: None,
        hints: Hints::default(),
    };
    let reply = device.request(request, &title.source).await;
    let mut reply = reply.expect("accepted");
    let is_unseen = reply.chain().is_none();
    let mut bytes = Vec::new();
    while let Some(piece) = reply.next().await {
        bytes.extend_from_slice(piece.expect("whole").as_ref());
    }
    let wanted = &title.files[part as usize][start as usize..end as usize];
    assert!(bytes == wanted, "{start} to {end} of {part}");
    is_unseen
}

/// Reads the same range until the engine no longer sees the requests.
async fn heat(device: &Device, title: &TestTitle, part: u32) {
    for _ in 0..10_000 {
        if read(device, title, part, RANGE).await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    panic!("part {part} never entered the sendfile cache");
}

async fn read_whole(device: &Device, title: &TestTitle) {
    for (part, bytes) in (0..).zip(&title.files) {
        read(device, title, part, (0, bytes.len() as u64)).await;
    }
}

fn run(test: impl Future<Output = ()>) {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_all().build().expect("a runtime");
    let bounded = async {
        let test = tokio::time::timeout(Duration::from_secs(120), test);
        test.await.expect("test finishes in time");
    };
    runtime.block_on(bounded);
}

#[test]
fn title_in_memory_is_served_from_copies_for_every_range() {
    run(async {
        let scratch = ScratchDir::new();
        let files = vec![noise(1, MIB), noise(1, MIB / 2)];
        let (device, title) = (device(8), TestTitle::new(&scratch, 1, files));
        read_whole(&device, &title).await;
        heat(&device, &title, 1).await;
        heat(&device, &title, 0).await;
        let before = device.snapshot().await.stats;
        let mut unseen = 0;
        for step in 0..500 {
            let (start, end) = (RANGE.0 + step * 7, RANGE.1 - step * 11);
            unseen += u64::from(read(&device, &title, (step % 2) as u32, (start, end)).await);
        }
        assert!(unseen > 400, "{unseen} of 500");
        let stats = device.snapshot().await.stats;
        assert_eq!(
            stats.requests - before.requests,
            500,
            "all requests are counted"
        );
        assert_eq!(stats.reads, before.reads);
        device.shutdown().await;
    });
}

#[test]
fn engine_sees_every_request_when_little_ahead_is_in_memory() {
    run(async {
        let scratch = ScratchDir::new();
        let (device, long) = (
            device(3),
            TestTitle::new(&scratch, 1, vec![noise(1, 12 * MIB)]),
        );
        let copied = async || {
            device
                .snapshot()
                .await
                .sendfile_cache
                .expect("wanted")
                .live_bytes
        };
        let mut asked = 0;
        while copied().await == 0 || asked < 200 {
            assert!(!read(&device, &long, 0, RANGE).await);
            asked += 1;
        }
        device.shutdown().await;
    });
}

#[test]
fn start_of_long_title_uses_copies_while_data_ahead_is_cached() {
    run(async {
        let scratch = ScratchDir::new();
        let (device, long) = (
            device(24),
            TestTitle::new(&scratch, 1, vec![noise(1, 12 * MIB)]),
        );
        read(&device, &long, 0, (0, 6 * MIB as u64)).await;
        heat(&device, &long, 0).await;
        device.shutdown().await;
    });
}

#[test]
fn pieces_with_cache_stay_cached_and_are_reread_if_evicted() {
    run(async {
        let scratch = ScratchDir::new();
        let (device, hot) = (
            device_that_keeps(Retention::Lru, 8),
            TestTitle::new(&scratch, 1, vec![noise(1, MIB / 2)]),
        );
        let whole = (0, MIB as u64 / 2);
        for _ in 0..5 {
            read(&device, &hot, 0, whole).await;
        }
        heat(&device, &hot, 0).await;
        let others: Vec<_> = (2..32)
            .map(|stream| TestTitle::new(&scratch, stream, vec![noise(1, MIB / 2)]))
            .collect();
        let bytes_read = async || device.snapshot().await.stats.bytes_read;
        let before = bytes_read().await;
        for other in &others {
            read_whole(&device, other).await;
            for _ in 0..3 {
                read(&device, &hot, 0, whole).await;
            }
        }
        let of_others = (others.len() * MIB / 2) as u64;
        assert_eq!(
            bytes_read().await,
            before + of_others,
            "the pieces stayed in memory"
        );
        for other in &others {
            read_whole(&device, other).await;
        }
        assert!(
            !read(&device, &hot, 0, whole).await,
            "other titles evicted it"
        );
        device.shutdown().await;
    });
}

#[test]
fn copies_of_removed_version_are_not_used() {
    run(async {
        let scratch = ScratchDir::new();
        let (device, title) = (device(8), TestTitle::new(&scratch, 1, vec![noise(1, MIB)]));
        read_whole(&device, &title).await;
        heat(&device, &title, 0).await;
        device.stream_removed(title.stream, false);
        let next = TestTitle::new(&scratch, 2, vec![noise(1, MIB + 1)[1..].to_vec()]);
        assert!(!read(&device, &next, 0, RANGE).await);
        heat(&device, &next, 0).await;
        device.shutdown().await;
    });
}
