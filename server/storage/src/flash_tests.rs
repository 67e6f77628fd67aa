//! Tests of a device whose flash tier is a file: viewers receive correct bytes, whatever the SSD
//! does.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use headlong_engine::{EngineConfig, Hints, ReaderIdentity, Request, StreamId, ViewerId};
use headlong_flash::{FlashPolicy, FlashView, StoreConfig};

use super::rig::{FileSource, ScratchDir, noise, small_device};
use super::{Device, DeviceConfig, StreamSource};
use crate::flash::{self, FlashShare, FlashTier, Formatting};

const PIECE: u64 = 64 << 10;
const FILM: usize = 12 << 20;

struct FlashRig {
    scratch: ScratchDir,
    tier: PathBuf,
}

/// A device with its tier, as run by one server process.
struct Process {
    tier: Arc<FlashTier>,
    device: Device,
}

impl FlashRig {
    fn new() -> Self {
        let scratch = ScratchDir::new();
        let tier = scratch.path().join("tier");
        let formatting = Formatting {
            size: Some(40 << 20),
            block: None,
            piece: PIECE,
            is_forced: false,
        };
        flash::format(&tier, &formatting).expect("made");
        Self { scratch, tier }
    }

    async fn start(&self) -> Process {
        let tier = self.open().await;
        let device = device(FlashShare::new(tier.deal(&[7]).pop()));
        while device
            .snapshot()
            .await
            .flash
            .is_none_or(|view| view.is_recovering)
        {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        Process { tier, device }
    }

    async fn open(&self) -> Arc<FlashTier> {
        let paths = [self.tier.clone()];
        // Threads of the previous process end on their own.
        loop {
            match FlashTier::open(&paths, PIECE, 1) {
                Ok((tier, _)) => return tier.expect("tier is healthy"),
                Err(error) if matches!(error.trouble, flash::FlashErrorKind::InUse) => {}
                Err(error) => panic!("{error}"),
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

fn device(flash: FlashShare) -> Device {
    let small = small_device();
    let device = Device::start(DeviceConfig {
        engine: EngineConfig {
            memory_bytes: 4 << 20,
            piece_bytes: PIECE,
            flash: StoreConfig {
                policy: FlashPolicy::Lru,
                write_per_day_bytes: Some(1 << 40),
                ..StoreConfig::default()
            },
            ..small.engine
        },
        flash,
        ..small
    });
    device.expect("started")
}

impl Process {
    async fn view(&self) -> FlashView {
        self.device.snapshot().await.flash.expect("attached")
    }

    /// Requests all bytes of a file as a new viewer.
    async fn play(&self, stream: u64, viewer: u64, path: &PathBuf) -> Vec<u8> {
        let source: Arc<dyn StreamSource> = Arc::new(FileSource::new(stream, [path.clone()]));
        let request = Request {
            viewer: ReaderIdentity::Named(ViewerId(viewer)),
            stream: StreamId(stream),
            part: 0,
            offset: 0,
            length: std::fs::metadata(path).expect("there").len(),
            open_ended: false,
            overlap_bytes: 0,
            holder: None,
            hints: Hints::default(),
        };
        let mut reply = self
            .device
            .request(request, &source)
            .await
            .expect("accepted");
        let mut bytes = Vec::new();
        while let Some(piece) = reply.next().await {
            bytes.extend_from_slice(piece.expect("whole").as_ref());
        }
        bytes
    }

    /// Plays until `read_bytes` were read from flash, and compares the bytes each time.
    async fn play_until_read(&self, path: &PathBuf, wanted: &[u8], read_bytes: u64) {
        for viewer in 0..40 {
            assert!(
                self.play(1, viewer, path).await == wanted,
                "viewer {viewer}"
            );
            let view = self.view().await;
            if view.read_bytes >= read_bytes && view.filled_bytes >= 2 << 20 {
                return;
            }
        }
        panic!("no read came from flash: {:?}", self.view().await);
    }

    /// Stops as the server does.
    async fn stop(self) {
        self.device.shutdown().await;
        let tier = self.tier;
        let finish = tokio::task::spawn_blocking(move || tier.finish());
        finish.await.expect("finished");
    }
}

fn run(test: impl Future<Output = ()>) {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(2).enable_all().build();
    let bounded = async {
        let test = tokio::time::timeout(Duration::from_secs(120), test);
        test.await.expect("ends");
    };
    runtime.expect("a runtime").block_on(bounded);
}

#[test]
fn evicted_pieces_are_served_from_flash_also_after_restart() {
    run(async {
        let rig = FlashRig::new();
        let film = noise(1, FILM);
        let path = rig.scratch.file("film", &film);
        let process = rig.start().await;
        process.play_until_read(&path, &film, 4 << 20).await;
        process.stop().await;
        let (text, is_right) = flash::verify(&rig.tier).expect("verified");
        assert!(is_right, "{text}");
        // First with the index of a clean shutdown, then without one.
        for _ in 0..2 {
            let process = rig.start().await;
            let before = process.view().await;
            assert!(before.filled_bytes > 1 << 20, "{before:?}");
            assert!(process.play(1, 99, &path).await == film);
            let view = process.view().await;
            assert!(view.read_bytes > 0, "{view:?}");
            assert_eq!(view.reads_wrong, 0, "{view:?}");
            process.device.shutdown().await;
        }
    });
}

#[test]
fn changed_file_is_never_served_from_stale_records() {
    run(async {
        let rig = FlashRig::new();
        let film = noise(1, FILM);
        let path = rig.scratch.file("film", &film);
        let process = rig.start().await;
        process.play_until_read(&path, &film, 1 << 20).await;
        let other: Vec<u8> = film.iter().map(|byte| byte ^ 0x55).collect();
        std::fs::write(&path, &other).expect("written");
        process.device.stream_removed(StreamId(1), false);
        for viewer in 100..104 {
            assert!(process.play(2, viewer, &path).await == other);
        }
        process.stop().await;
    });
}

#[test]
fn damaged_records_are_misses_and_disk_bytes_are_served() {
    run(async {
        let rig = FlashRig::new();
        let film = noise(1, FILM);
        let path = rig.scratch.file("film", &film);
        let process = rig.start().await;
        process.play_until_read(&path, &film, 1 << 20).await;
        let file = OpenOptions::new().write(true).open(&rig.tier);
        let file = file.expect("opens");
        for at in (1 << 20..40 << 20).step_by(32 << 10) {
            file.write_all_at(&[0xaa; 16], at).expect("written");
        }
        for viewer in 100..104 {
            assert!(process.play(1, viewer, &path).await == film);
        }
        let view = process.view().await;
        assert!(view.reads_wrong > 0, "{view:?}");
        process.stop().await;
    });
}

#[test]
fn lost_ssd_costs_only_its_hits() {
    run(async {
        let rig = FlashRig::new();
        let film = noise(1, FILM);
        let path = rig.scratch.file("film", &film);
        let process = rig.start().await;
        process.play_until_read(&path, &film, 1 << 20).await;
        let file = OpenOptions::new().write(true).open(&rig.tier);
        file.expect("opens").set_len(0).expect("cut");
        for viewer in 100..104 {
            assert!(process.play(1, viewer, &path).await == film);
        }
        let view = process.view().await;
        // A late write extends the file again with zeros.
        assert!(view.reads_failed + view.reads_wrong > 0, "{view:?}");
        process.stop().await;
    });
}

#[test]
fn tier_moves_to_new_process_while_both_serve() {
    run(async {
        let rig = FlashRig::new();
        let wanted = noise(1, FILM);
        let path = rig.scratch.file("film", &wanted);
        let old = rig.start().await;
        old.play_until_read(&path, &wanted, 1 << 20).await;
        let new = device(FlashShare::default());
        let retiring = old.device.clone();
        let playing = old.play(1, 77, &path);
        let leaving = async {
            retiring.leave_flash();
            retiring.retire(true).await;
        };
        let (played, ()) = tokio::join!(playing, leaving);
        assert!(played == wanted);
        let Process { tier, device } = old;
        let finish = tokio::task::spawn_blocking(move || tier.finish());
        finish.await.expect("finished");
        let tier = rig.open().await;
        new.take_flash(tier.deal(&[7]).pop().expect("one disk"));
        let new = Process { tier, device: new };
        let is_known = |view: Option<FlashView>| view.is_some_and(|view| !view.is_recovering);
        while !is_known(new.device.snapshot().await.flash) {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        assert!(
            new.view().await.filled_bytes > 0,
            "recovery found the records"
        );
        new.play_until_read(&path, &wanted, 1 << 20).await;
        // The old process continues without the tier and stores nothing more.
        let (old, new) = (
            Process {
                tier: Arc::clone(&new.tier),
                device,
            },
            new,
        );
        assert!(old.play(1, 78, &path).await == wanted);
        loop {
            let memory = old.device.snapshot().await.memory;
            if memory.read_bytes + memory.unread_bytes == 0 {
                break;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        old.device.shutdown().await;
        new.stop().await;
    });
}
