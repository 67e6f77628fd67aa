//! End-to-end tests of a device: from requests to the bytes of real files, through the shard, the
//! pool and both I/O interfaces.

use std::sync::Arc;

use bytes::Bytes;
use headlong_engine::{
    Admission, ConfigError, DeviceState, EngineConfig, Failure, Hints, Policy, ReaderIdentity,
    Refusal, Request, SizingConfig, StreamId, ViewerId,
};
use headlong_kernel::time_scale::TimeScale;
use headlong_units::{BitRate, Duration, KIB, MIB};

use crate::rig::{FileSource, ScratchDir, noise};
use crate::{Device, DeviceConfig, IoMode, Reply, StartError};

const PIECE: u64 = 4 * KIB;
const MODES: [IoMode; 2] = [IoMode::IoUring, IoMode::Pread];

/// Eight pieces of memory and long timeouts: these tests check the data delivered, not timing.
fn tiny() -> EngineConfig {
    EngineConfig {
        piece_bytes: PIECE,
        memory_bytes: 8 * PIECE,
        sizing: SizingConfig {
            policy: Policy::Fixed,
            reference_bytes: 3 * PIECE,
            reference_bit_rate: BitRate::from_kbps(2_000),
        },
        read_bytes_max: 4 * PIECE,
        send_window_bytes: 2 * PIECE,
        admission: Admission::Accept,
        ..EngineConfig::default()
    }
}

fn device(io: IoMode, engine: EngineConfig) -> Device {
    device_with_copies(io, engine, 0)
}

fn device_with_copies(io: IoMode, engine: EngineConfig, hot_bytes: u64) -> Device {
    let config = DeviceConfig {
        name: "test".to_owned(),
        roots: vec![std::env::temp_dir()],
        rotational: true,
        capacity_bytes: 0,
        engine,
        hot_bytes,
        io,
        open_files_max: 4,
        memory_prefault: false,
        time_scale: TimeScale::ONE,
        flash: Default::default(),
        learned: None,
    };
    Device::start(config).expect("starts")
}

fn request(viewer: u64, stream: u64, offset: u64, length: u64) -> Request {
    Request {
        viewer: ReaderIdentity::Named(ViewerId(viewer)),
        stream: StreamId(stream),
        part: 0,
        offset,
        length,
        open_ended: false,
        overlap_bytes: 0,
        holder: None,
        hints: Hints::default(),
    }
}

fn is_shareable<T: Send + Sync + 'static>(_: &T) {}

/// All bytes of a reply; each piece is released before the next is awaited.
async fn bytes_of(mut reply: Reply) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    while let Some(piece) = reply.next().await {
        bytes.extend_from_slice(piece?.as_ref());
    }
    Ok(bytes)
}

/// Waits until all pieces are released, which happens by messages.
async fn until_all_is_back(device: &Device) {
    loop {
        let snapshot = device.snapshot().await;
        if snapshot.memory.sending_bytes == 0 && snapshot.memory.filling_bytes == 0 {
            return;
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn delivers_all_bytes_in_order() {
    let scratch = ScratchDir::new();
    let bytes = noise(1, 300 * 1000 + 7);
    let source = FileSource::new(1, [scratch.file("film", &bytes)]).shared();
    for mode in MODES {
        let device = device(mode, tiny());
        let size = bytes.len() as u64;
        for (offset, length) in [
            (0, size),
            (1, size - 1),
            (5000, 1),
            (size - 1, 1),
            (4096, 8192),
            (0, 0),
        ] {
            let reply = device.request(request(1, 1, offset, length), &source).await;
            let got = bytes_of(reply.expect("accepted")).await.expect("read");
            let wanted = &bytes[offset as usize..(offset + length) as usize];
            assert!(got == wanted, "{mode:?} {offset} {length}");
        }
        let snapshot = device.snapshot().await;
        assert!(snapshot.io.starts_with(mode.name()), "{}", snapshot.io);
        assert!(snapshot.stats.bytes_sent >= 2 * size);
        device.shutdown().await;
    }
}

/// Compares the file ranges of a reply's pieces with their memory; returns how many had one.
async fn pieces_in_file(mut reply: Reply, wanted: &[u8]) -> usize {
    let (mut at, mut count) = (0, 0);
    while let Some(piece) = reply.next().await {
        let piece = piece.expect("read");
        let bytes = piece.as_ref();
        assert!(*bytes == wanted[at..at + bytes.len()]);
        if let Some(place) = piece.in_file(0) {
            let mut there = vec![0; place.length as usize];
            let read = rustix::io::pread(place.file, &mut there, place.offset);
            assert_eq!(read, Ok(bytes.len()));
            assert!(there == bytes, "the copy differs");
            count += 1;
        }
        at += bytes.len();
    }
    assert_eq!(at, wanted.len());
    count
}

#[tokio::test(flavor = "multi_thread")]
async fn frequent_pieces_are_in_the_sendfile_cache_while_in_memory() {
    let scratch = ScratchDir::new();
    let files: Vec<Vec<u8>> = (0..6).map(|n| noise(n, 900_000 + n as usize)).collect();
    let sources: Vec<_> = files
        .iter()
        .zip(0..)
        .map(|(bytes, n)| FileSource::new(n, [scratch.file(&n.to_string(), bytes)]).shared())
        .collect();
    let engine = EngineConfig {
        piece_bytes: 64 * KIB,
        memory_bytes: 2 * MIB,
        sizing: SizingConfig {
            policy: Policy::Fixed,
            reference_bytes: 192 * KIB,
            reference_bit_rate: BitRate::from_kbps(2_000),
        },
        read_bytes_max: MIB,
        send_window_bytes: 256 * KIB,
        ..tiny()
    };
    let device = device_with_copies(IoMode::Auto, engine, 16 * MIB);
    // More files than fit into memory or into the sendfile cache.
    for _ in 0..4 {
        for (bytes, n) in files.iter().zip(0..) {
            let ask = async || {
                let request = request(1, n, 0, bytes.len() as u64);
                let reply = device.request(request, &sources[n as usize]).await;
                pieces_in_file(reply.expect("accepted"), bytes).await
            };
            let mut asked = 0;
            while ask().await < 13 {
                asked += 1;
                assert!(asked < 1000, "file {n} never entered the sendfile cache");
            }
        }
    }
    device.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn fifty_concurrent_replies_share_eight_pieces() {
    let scratch = ScratchDir::new();
    let files: Vec<Vec<u8>> = (0..10).map(|n| noise(n, 150_000 + n as usize)).collect();
    let sources: Vec<_> = files
        .iter()
        .zip(0..)
        .map(|(bytes, n)| FileSource::new(n, [scratch.file(&n.to_string(), bytes)]).shared())
        .collect();
    let files = Arc::new(files);
    for mode in MODES {
        let device = device(mode, tiny());
        let viewers: Vec<_> = (0..50_u64)
            .map(|viewer| {
                let (device, files) = (device.clone(), Arc::clone(&files));
                let source = Arc::clone(&sources[viewer as usize % 10]);
                tokio::spawn(async move {
                    let bytes = &files[viewer as usize % 10];
                    let (offset, size) = (viewer * 997, bytes.len() as u64);
                    let request = request(viewer, viewer % 10, offset, size - offset);
                    let reply = device.request(request, &source).await.expect("accepted");
                    let got = bytes_of(reply).await.expect("read");
                    assert!(got == bytes[offset as usize..], "viewer {viewer}");
                })
            })
            .collect();
        for viewer in viewers {
            viewer.await.expect("got its bytes");
        }
        until_all_is_back(&device).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn disconnected_viewers_release_all_memory() {
    let scratch = ScratchDir::new();
    let bytes = noise(1, 400_000);
    let source = FileSource::new(1, [scratch.file("film", &bytes)]).shared();
    for mode in MODES {
        let device = device(mode, tiny());
        for viewer in 0..100 {
            let request = request(viewer, 1, viewer * 3000, 100_000);
            let mut reply = device.request(request, &source).await.expect("accepted");
            // Some leave at once, some while holding a piece, some with unread pieces.
            for _ in 0..viewer % 4 {
                let piece = reply.next().await.expect("more").expect("read");
                if viewer % 3 == 0 {
                    drop(reply);
                    assert!(!piece.as_ref().is_empty());
                    break;
                }
            }
        }
        until_all_is_back(&device).await;
        let reply = device.request(request(1, 1, 0, 400_000), &source).await;
        let got = bytes_of(reply.expect("accepted")).await.expect("read");
        assert!(got == bytes, "{mode:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn abandoned_request_is_cancelled() {
    let scratch = ScratchDir::new();
    let source = FileSource::new(1, [scratch.file("film", &noise(1, 400_000))]).shared();
    let device = device(IoMode::Auto, tiny());
    for viewer in 0..50 {
        let (device, source) = (device.clone(), Arc::clone(&source));
        let task = tokio::spawn(async move {
            let request = request(viewer, 1, 0, 400_000);
            let reply = device.request(request, &source).await;
            drop(reply);
        });
        task.abort();
        let _ = task.await;
    }
    until_all_is_back(&device).await;
    let reply = device.request(request(1, 1, 0, 400_000), &source).await;
    assert_eq!(
        bytes_of(reply.expect("accepted")).await.map(|b| b.len()),
        Ok(400_000)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn reply_never_mixes_two_file_versions() {
    for mode in MODES {
        let scratch = ScratchDir::new();
        let (old, new) = (noise(1, 400_000), noise(2, 300_000));
        let path = scratch.file("film", &old);
        let source = FileSource::new(1, [path.clone()]).shared();
        let device = device(mode, tiny());
        let reply = device.request(request(1, 1, 0, 400_000), &source).await;
        let mut reply = reply.expect("accepted");
        let mut got = Vec::new();
        let first = reply.next().await.expect("more").expect("read");
        got.extend_from_slice(first.as_ref());
        std::fs::write(&path, &new).expect("writes");
        drop(first);
        let end = loop {
            match reply.next().await.expect("must not end as if complete") {
                Ok(piece) => got.extend_from_slice(piece.as_ref()),
                Err(failure) => break failure,
            }
        };
        assert_eq!(end, Failure::Changed, "{mode:?}");
        assert!(got == old[..got.len()], "{mode:?}");
        assert!(reply.next().await.is_none());

        // The new version is a different stream.
        let source = FileSource::new(2, [path]).shared();
        let reply = device.request(request(1, 2, 0, 300_000), &source).await;
        let got = bytes_of(reply.expect("accepted")).await.expect("read");
        assert!(got == new, "{mode:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn removed_stream_completes_its_replies_and_can_return() {
    let scratch = ScratchDir::new();
    let bytes = noise(1, 400_000);
    let path = scratch.file("film", &bytes);
    let source = FileSource::new(1, [path.clone()]).shared();
    let device = device(IoMode::Auto, tiny());
    let reply = device.request(request(1, 1, 0, 400_000), &source).await;
    let mut reply = reply.expect("accepted");
    let first = reply.next().await.expect("more").expect("read");
    let kept = scratch.path().join("kept");
    std::fs::rename(&path, &kept).expect("renamed");
    device.stream_removed(StreamId(1), false);
    let mut got = first.as_ref().to_vec();
    drop(first);
    got.extend(bytes_of(reply).await.expect("finished"));
    assert!(got == bytes);
    std::fs::rename(&kept, &path).expect("renamed");
    device.bit_rate(StreamId(1), BitRate::from_kbps(100));
    let reply = device.request(request(1, 1, 0, 400_000), &source).await;
    let got = bytes_of(reply.expect("accepted")).await.expect("read");
    assert!(got == bytes);
}

#[tokio::test(flavor = "multi_thread")]
async fn hanging_file_fails_only_its_own_viewers() {
    let scratch = ScratchDir::new();
    let bytes = noise(1, 100_000);
    let path = scratch.file("film", &bytes);
    for mode in MODES {
        let (hanging, gate) = FileSource::new(1, [path.clone()]).hanging();
        let good = FileSource::new(2, [path.clone()]).shared();
        let device = device(
            mode,
            EngineConfig {
                outstanding_reads_max: 4,
                // Also bounds how long the good file is held back after it has overtaken the other
                // one four times.
                read_timeout: Duration::from_secs(1),
                ..tiny()
            },
        );
        let hung = device.request(request(1, 1, 0, 100_000), &hanging).await;
        let reply = device.request(request(2, 2, 0, 100_000), &good).await;
        let got = bytes_of(reply.expect("accepted")).await.expect("read");
        assert!(got == bytes, "{mode:?}");
        let failure = bytes_of(hung.expect("accepted")).await;
        assert_eq!(failure, Err(Failure::TimedOut), "{mode:?}");
        drop(gate);
        until_all_is_back(&device).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn pieces_outlive_their_device() {
    let scratch = ScratchDir::new();
    let bytes = noise(1, 100_000);
    let source = FileSource::new(1, [scratch.file("film", &bytes)]).shared();
    for mode in MODES {
        let device = device(mode, tiny());
        let reply = device.request(request(1, 1, 100, 50_000), &source).await;
        let mut reply = reply.expect("accepted");
        let piece = reply.next().await.expect("more").expect("read");
        is_shareable(&piece);
        let piece = Bytes::from_owner(piece);
        device.shutdown().await;
        // Pieces in flight may still arrive; then the device is offline.
        let end = loop {
            if let Err(failure) = reply.next().await.expect("must not end as if complete") {
                break failure;
            }
        };
        assert_eq!(end, Failure::Offline);
        drop((device, reply));
        assert!(!piece.is_empty() && piece == bytes[100..100 + piece.len()]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn device_stops_when_last_handle_is_dropped() {
    let scratch = ScratchDir::new();
    let source = FileSource::new(1, [scratch.file("film", &noise(1, 400_000))]).shared();
    let device = device(IoMode::Auto, tiny());
    let reply = device.request(request(1, 1, 0, 400_000), &source).await;
    let (reply, clone) = (reply.expect("accepted"), device.clone());
    drop(device);
    assert_eq!(clone.snapshot().await.state, DeviceState::Online);
    drop(clone);
    assert_eq!(bytes_of(reply).await, Err(Failure::Offline));
}

#[tokio::test(flavor = "multi_thread")]
async fn stopped_device_refuses_as_offline() {
    let scratch = ScratchDir::new();
    let source = FileSource::new(1, [scratch.file("film", &noise(1, 1000))]).shared();
    let device = device(IoMode::Auto, tiny());
    device.shutdown().await;
    device.shutdown().await;
    let refusal = device.request(request(1, 1, 0, 1000), &source).await;
    assert!(matches!(refusal, Err(Refusal::Offline { .. })));
    assert_eq!(device.snapshot().await.state, DeviceState::Offline);
    assert_eq!(device.reconfigure(tiny()).await, Ok(()));
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_requests_are_refused() {
    let scratch = ScratchDir::new();
    let source = FileSource::new(1, [scratch.file("film", &noise(1, 1000))]).shared();
    let device = device(IoMode::Auto, tiny());
    let refusal = device.request(request(1, 1, 0, 1001), &source).await;
    assert_eq!(refusal.err(), Some(Refusal::OutOfBounds));
    let refusal = device.request(request(1, 2, 0, 1), &source).await;
    assert_eq!(refusal.err(), Some(Refusal::UnknownStream));
}

#[tokio::test(flavor = "multi_thread")]
async fn valid_settings_are_applied_and_invalid_ones_refused() {
    let device = device(IoMode::Auto, tiny());
    let more = EngineConfig {
        outstanding_reads_max: 7,
        memory_bytes: 100 * MIB,
        ..tiny()
    };
    assert_eq!(device.reconfigure(more).await, Ok(()));
    let wrong = EngineConfig {
        outstanding_reads_max: 0,
        ..tiny()
    };
    let refused = device.reconfigure(wrong).await;
    assert_eq!(refused, Err(ConfigError::OutstandingReads));
    let config = device.snapshot().await.config;
    assert_eq!(config.outstanding_reads_max, 7);
    assert_eq!(config.memory_bytes, 8 * PIECE, "the size of the pool stays");
}

#[test]
fn failed_device_start_names_device_and_setting() {
    let start = |engine| {
        let config = DeviceConfig {
            name: "sdx".to_owned(),
            roots: Vec::new(),
            rotational: true,
            capacity_bytes: 0,
            engine,
            hot_bytes: 0,
            io: IoMode::Auto,
            open_files_max: 4,
            memory_prefault: false,
            time_scale: TimeScale::ONE,
            flash: Default::default(),
            learned: None,
        };
        Device::start(config).err()
    };
    let small = EngineConfig {
        memory_bytes: PIECE,
        ..tiny()
    };
    let error = start(small).expect("refused").to_string();
    assert!(error.contains("sdx") && error.contains("memory"), "{error}");
    let huge = EngineConfig {
        piece_bytes: 2 * MIB,
        memory_bytes: 1 << 52,
        sizing: SizingConfig::default(),
        read_bytes_max: 4 * MIB,
        ..tiny()
    };
    let error = start(huge).expect("refused");
    assert!(matches!(error, StartError::Memory { .. }), "{error}");
}
