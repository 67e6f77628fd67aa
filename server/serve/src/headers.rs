//! Headers of plain files, read in idle moments, so that the library page can say how long a film
//! is before anybody has watched it.
//!
//! The one idea: nobody waits for this, so it waits for everybody. One small read at a time, and
//! only while the device has nothing else to do and is well; a device that is never idle is never
//! asked.

use std::time::Duration;

use headlong_engine::{DeviceState, QueueUse};
use headlong_library::Library;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::disk::Device;
use crate::http::MediaState;

/// Most headers read after one scan; the next scan goes on with the rest.
const HEADERS_PER_SCAN_MAX: usize = 2000;
/// Between one header and the next: twenty small reads in a second are a tenth of a disk's time.
const PAUSE: Duration = Duration::from_millis(50);
/// Before a device that was busy is looked at again.
const BUSY_PAUSE: Duration = Duration::from_secs(1);

/// After each scan, reads the headers that nobody has read, each device for itself. Never ends;
/// stops where it is when it is dropped.
pub(crate) async fn read_headers(state: &MediaState, scanned: &watch::Sender<u64>) {
    let mut readers = JoinSet::new();
    for (index, device) in state.devices.iter().enumerate() {
        let (library, device) = (state.library.clone(), device.clone());
        readers.spawn(read_on(library, index, device, scanned.subscribe()));
    }
    while readers.join_next().await.is_some() {}
    std::future::pending::<()>().await;
}

async fn read_on(
    library: Library,
    index: usize,
    device: Device,
    mut scanned: watch::Receiver<u64>,
) {
    scanned.mark_changed();
    while scanned.changed().await.is_ok() {
        for stream in library.unread_headers(index, HEADERS_PER_SCAN_MAX) {
            loop {
                let now = device.snapshot().await;
                if is_idle(now.state, now.queue) {
                    break;
                }
                sleep(BUSY_PAUSE).await;
            }
            // What it finds, or that it finds nothing, stays with the stream.
            let _ = device.aside(move || drop(stream.header().cloned())).await;
            sleep(PAUSE).await;
        }
    }
}

/// Whether a read would be in nobody's way. A device that is ill is left to those who need it.
fn is_idle(state: DeviceState, queue: QueueUse) -> bool {
    state == DeviceState::Online && queue.jobs == 0 && queue.outstanding_reads == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::start;

    /// An MP4 file of eight seconds, by its header.
    fn film() -> Vec<u8> {
        let mut mvhd = vec![0; 12];
        mvhd.extend(1000u32.to_be_bytes());
        mvhd.extend(8000u32.to_be_bytes());
        mvhd.extend([0, 1, 0, 0, 1, 0]);
        mvhd.extend([0; 74]);
        let boxed = |kind: &[u8], body: &[u8]| {
            let length = (body.len() + 8) as u32;
            [&length.to_be_bytes()[..], kind, body].concat()
        };
        boxed(b"moov", &boxed(b"mvhd", &mvhd))
    }

    #[tokio::test]
    async fn durations_are_known_although_nobody_asked_for_the_files() {
        let root = tempfile::tempdir().expect("a folder");
        for name in ["a.mp4", "b.mp4"] {
            std::fs::write(root.path().join(name), film()).expect("written");
        }
        std::fs::write(root.path().join("c.mp4"), "no film").expect("written");
        let state = start::media_state(root.path());
        assert!(
            state
                .library
                .titles()
                .iter()
                .all(|title| title.duration_s.is_none())
        );

        let scanned = watch::Sender::new(0);
        let done = async {
            while !state.library.unread_headers(0, 1).is_empty() {
                sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::select! {
            () = read_headers(&state, &scanned) => unreachable!("it never ends"),
            done = tokio::time::timeout(Duration::from_secs(30), done) => done.expect("in time"),
        }
        let titles = state.library.titles();
        let durations: Vec<_> = titles.iter().map(|title| title.duration_s).collect();
        assert_eq!(durations, [Some(8.0), Some(8.0), None]);
        for device in &state.devices {
            device.shutdown().await;
        }
    }

    #[test]
    fn a_device_that_is_busy_or_ill_is_left_alone() {
        let idle = QueueUse::default();
        let (mut waiting, mut reading) = (idle, idle);
        waiting.jobs = 1;
        reading.outstanding_reads = 1;
        assert!(is_idle(DeviceState::Online, idle));
        assert!(!is_idle(DeviceState::Online, waiting));
        assert!(!is_idle(DeviceState::Online, reading));
        assert!(!is_idle(DeviceState::Failing, idle));
        assert!(!is_idle(DeviceState::Offline, idle));
    }
}
