//! Background tasks: scanning the roots, sweeping streams, saving learned state.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use headlong_engine::StreamId;
use headlong_kernel::time_scale::TimeScale;
use headlong_library::RemovedStream;
use headlong_net::ThreadResponsiveness;
use headlong_telemetry::degraded_parts::{DegradedPartKind, DegradedParts};
use tokio::sync::{oneshot, watch};
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::{sleep, timeout};

use crate::http::MediaState;
use crate::pending_scans::PendingScans;
use crate::root_attachment::RootAttachments;
use crate::service_manager::{self, NotifyState};
use crate::state_folder::{DeviceIdentity, StateFolder};

/// Interval of the sweep of streams without a path.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);

/// Time limit of saving.
const REMEMBER_TIMEOUT: Duration = Duration::from_secs(2);

/// Time limit of a task at shutdown; longer than any of them needs.
const FINISH_TIMEOUT: Duration = Duration::from_secs(15);

/// How long readiness waits for the scan of the roots.
const SCAN_PATIENCE: Duration = Duration::from_secs(10);

/// Interval between checks for a missing root.
const MISSING_ROOT_INTERVAL: Duration = Duration::from_secs(5);

/// How long a new process waits for the scan of its roots before the handover.
const TAKE_OVER_PATIENCE: Duration = Duration::from_secs(1);

/// Interval of saving the learned state, which bounds the loss at a crash. Half of the
/// default `chain_gap`, so that viewers are recognised after a crash.
const REMEMBER_INTERVAL: Duration = Duration::from_secs(20);

/// Settings and results of scans.
#[derive(Clone)]
pub(crate) struct RootScans {
    /// Interval between scans of a root; zero for a single scan.
    pub(crate) rescan: Duration,
    /// Counts scans.
    pub(crate) scanned: watch::Sender<u64>,
    /// Roots that have not been scanned yet.
    pub(crate) unscanned: Arc<PendingScans>,
    pub(crate) degraded: Arc<DegradedParts>,
    pub(crate) attachments: Arc<RootAttachments>,
}

/// Scans the roots periodically, notifies the devices of removed streams, and saves the learned
/// state.
pub(crate) async fn upkeep(state: Arc<MediaState>, folder: StateFolder, roots: RootScans) {
    let mut scans = JoinSet::new();
    for root in 0..state.library.roots().len() {
        let (state, roots) = (Arc::clone(&state), roots.clone());
        scans.spawn(async move { scan(&state, root, &roots).await });
    }
    let save = async {
        loop {
            sleep(REMEMBER_INTERVAL).await;
            remember(&state, &folder).await;
        }
    };
    tokio::join!(sweep(&state), save);
}

/// Sends watchdog notifications as often as the service manager requires (`WatchdogSec=`), provided
/// that this task and every connection thread handle events. Disks are not checked: a hanging disk
/// is no reason to kill a server that serves others.
pub(crate) async fn keep_alive(threads: ThreadResponsiveness) {
    service_manager::keep_alive(|| threads.beat()).await;
}

/// Reports readiness once all roots are scanned; `addresses` are those for viewers.
pub(crate) async fn say_ready(
    state: Arc<MediaState>,
    scans: watch::Receiver<u64>,
    unscanned: Arc<PendingScans>,
    is_ready: Arc<AtomicBool>,
    addresses: String,
) {
    until_scanned(&state, scans, &unscanned).await;
    is_ready.store(true, Ordering::Relaxed);
    let files = state.library.counts().files;
    let when = match unscanned.is_empty() {
        true => "at the start",
        false => "so far",
    };
    let status = format!("serving at {addresses}; {files} files found {when}");
    service_manager::notify(&[NotifyState::Ready, NotifyState::Status(&status)]);
}

/// Returns once all roots are scanned, or after a short time, because the old process has released
/// its cache and waits. Files not found yet are looked up on request.
pub(crate) async fn until_scanned_or_soon(
    mut scans: watch::Receiver<u64>,
    unscanned: &PendingScans,
) {
    let all_scanned = scans.wait_for(|_| unscanned.is_empty());
    let _ = timeout(TAKE_OVER_PATIENCE, all_scanned).await;
}

/// Returns once all roots are scanned, or after a time limit. A slow root is served meanwhile as
/// far as it is known.
async fn until_scanned(
    state: &MediaState,
    mut scans: watch::Receiver<u64>,
    unscanned: &PendingScans,
) {
    // A root may be scanned twice before another one was scanned once.
    let all_scanned = scans.wait_for(|_| unscanned.is_empty());
    let is_complete = timeout(SCAN_PATIENCE, all_scanned).await.is_ok();
    if is_complete {
        log_scan(state);
        return;
    }
    let roots = unscanned.names().join(", ");
    tracing::warn!(
        roots,
        files = state.library.counts().files,
        "some roots are still being scanned; titles can be played already, and are listed as they \
         are found. A scan uses a tenth of a busy disk's time. If no file is found, the disk does \
         not respond"
    );
}

fn log_scan(state: &MediaState) {
    let counts = state.library.counts();
    tracing::info!(
        files = counts.files,
        hidden = counts.hidden,
        links_out = counts.links_out,
        titles = state.library.title_count(),
        "scanned the roots"
    );
}

/// Scans one root periodically. A root that hangs delays only its own scans; a missing one is
/// checked more often.
async fn scan(state: &MediaState, root: usize, roots: &RootScans) {
    let RootScans {
        scanned, unscanned, ..
    } = roots;
    let name = state.library.roots()[root].display().to_string();
    let began = Instant::now();
    loop {
        let is_attached = roots.attachments.is_wanted(root);
        let mut pause = roots.rescan;
        if let Some((changes, trouble)) = state.lookups.scan(root, &state.devices).await {
            report_removed_streams(state, changes.gone_streams);
            match trouble {
                None => roots.degraded.recover(DegradedPartKind::Root, &name),
                Some(trouble) => {
                    roots.degraded.lose(DegradedPartKind::Root, &name, trouble);
                    pause = MISSING_ROOT_INTERVAL;
                }
            }
            let first = unscanned.scanned(root);
            if let Some(root) = first.filter(|_| began.elapsed() >= SCAN_PATIENCE) {
                tracing::info!(root = %root.display(), "slow root scanned");
                if unscanned.is_empty() {
                    log_scan(state);
                }
            }
            scanned.send_modify(|count| *count += 1);
            roots.attachments.scanned(root, is_attached);
        } else {
            // An earlier scan still hangs: the wait below would not wait for a root whose attachment
            // is to change.
            sleep(MISSING_ROOT_INTERVAL).await;
        }
        roots.attachments.until_scan(root, pause).await;
    }
}

fn report_removed_streams(state: &MediaState, gone: Vec<RemovedStream>) {
    for RemovedStream { id, is_regrouped } in gone {
        for device in &state.devices {
            device.stream_removed(StreamId(id), is_regrouped);
        }
    }
}

/// Saves the learned state of each device and the records about media files. A device or folder that
/// hangs does not block serving or stopping.
pub(crate) async fn remember(state: &MediaState, folder: &StateFolder) {
    if !folder.is_set() {
        return;
    }
    let mut devices = JoinSet::new();
    let (records, library) = (Arc::clone(folder.records()), state.library.clone());
    devices.spawn_blocking(move || records.iter().for_each(|file| file.write(&library)));
    for (device, info) in state
        .devices
        .clone()
        .into_iter()
        .zip(state.library.devices())
    {
        let folder = folder.clone();
        devices.spawn(async move {
            let turn = folder.turn(device.name()).await;
            let Some(learned_state) = device.learned_state().await else {
                return;
            };
            let written = spawn_blocking(move || {
                folder.write(DeviceIdentity::of(&info), &device.config(), &learned_state);
                drop(turn);
            });
            let _ = written.await;
        });
    }
    let all = async { while devices.join_next().await.is_some() {} };
    let _ = timeout(REMEMBER_TIMEOUT, all).await;
}

/// Loads the viewers of the old process, as it saved them last, into the devices.
pub(crate) async fn recall(state: &MediaState, folder: &StateFolder, time_scale: TimeScale) {
    if !folder.is_set() {
        return;
    }
    let mut devices = JoinSet::new();
    for (device, info) in state
        .devices
        .clone()
        .into_iter()
        .zip(state.library.devices())
    {
        let folder = folder.clone();
        devices.spawn_blocking(move || {
            if let Some(told) = folder.read(DeviceIdentity::of(&info), &device.config(), time_scale)
            {
                device.returning(told);
            }
        });
    }
    let all = async { while devices.join_next().await.is_some() {} };
    let _ = timeout(REMEMBER_TIMEOUT, all).await;
}

/// Runs a task at shutdown with a time limit, on a new thread, because all threads for blocking
/// calls may hang by then.
pub(crate) async fn finish(what: impl FnOnce() + Send + 'static) {
    let (say, is_done) = oneshot::channel();
    let finish = move || {
        what();
        // The receiver may have been dropped.
        let _ = say.send(());
    };
    let thread = std::thread::Builder::new().name("finish".to_owned());
    match thread.spawn(finish) {
        Ok(_) => drop(timeout(FINISH_TIMEOUT, is_done).await),
        Err(error) => tracing::error!(%error, "no thread for the shutdown: data is not saved"),
    }
}

async fn sweep(state: &MediaState) {
    loop {
        sleep(SWEEP_INTERVAL).await;
        report_removed_streams(state, state.library.take_removed_streams());
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn shutdown_task_runs_while_all_blocking_threads_hang() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .max_blocking_threads(1)
            .build()
            .expect("a runtime");
        let (release, hang) = channel::<()>();
        runtime.spawn_blocking(move || hang.recv());
        let (done, is_done) = channel();
        runtime.block_on(finish(move || done.send(()).expect("received")));
        is_done.try_recv().expect("the task is done");
        drop(release);
    }
}
