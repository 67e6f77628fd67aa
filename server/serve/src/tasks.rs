//! What goes on beside the requests: signals, searching the roots again, reading headers.

use std::sync::Arc;
use std::time::Duration;

use headlong_engine::StreamId;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

use crate::headers::read_headers;
use crate::http::MediaState;
use crate::reload::Reloader;
use crate::sizes::Sizes;

/// How often streams that no path leads to any more are cleared away.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);

/// Longest time to wait for that.
const REMEMBER_TIMEOUT: Duration = Duration::from_secs(2);

/// How often the prefetch sizes found are written down, beside the stop: what a crash may cost.
const REMEMBER_INTERVAL: Duration = Duration::from_secs(60);

/// Acts on signals until one of them means stop.
pub(crate) async fn until_told_to_stop(reloader: &Reloader) -> std::io::Result<()> {
    let mut hangup = signal(SignalKind::hangup())?;
    let mut user1 = signal(SignalKind::user_defined1())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    loop {
        tokio::select! {
            _ = hangup.recv() => reloader.reload().await,
            _ = user1.recv() => reloader.state.log.reopen(),
            _ = terminate.recv() => return Ok(()),
            _ = interrupt.recv() => return Ok(()),
        }
    }
}

/// Searches the roots every `rescan` (never, if that is zero), tells the devices of streams that
/// are gone, and reads headers in idle moments.
pub(crate) async fn upkeep(state: Arc<MediaState>, rescan: Duration, sizes: Sizes) {
    let scanned = Notify::new();
    // The scan of the start.
    scanned.notify_one();
    tokio::join!(
        sweep(&state, rescan, &scanned),
        read_headers(&state, &scanned),
        async {
            loop {
                sleep(REMEMBER_INTERVAL).await;
                remember_sizes(&state, &sizes).await;
            }
        }
    );
}

/// Writes down the prefetch sizes that controllers found.
pub(crate) async fn remember_sizes(state: &MediaState, sizes: &Sizes) {
    let mut snapshots = Vec::new();
    for device in &state.devices {
        snapshots.push(device.snapshot().await);
    }
    let sizes = sizes.clone();
    // A folder that hangs must not keep the server from stopping.
    let written = tokio::task::spawn_blocking(move || sizes.remember(&snapshots));
    let _ = tokio::time::timeout(REMEMBER_TIMEOUT, written).await;
}

async fn sweep(state: &MediaState, rescan: Duration, scanned: &Notify) {
    let mut scanned_at = Instant::now();
    loop {
        sleep(SWEEP_INTERVAL).await;
        let is_due = !rescan.is_zero() && scanned_at.elapsed() >= rescan;
        let library = state.library.clone();
        let gone = tokio::task::spawn_blocking(move || {
            if is_due {
                library.refresh().gone_streams
            } else {
                library.take_gone_streams()
            }
        });
        let Ok(gone) = gone.await else { continue };
        if is_due {
            scanned_at = Instant::now();
            scanned.notify_one();
        }
        for stream in gone {
            for device in &state.devices {
                device.stream_gone(StreamId(stream));
            }
        }
    }
}
