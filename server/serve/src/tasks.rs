//! What goes on beside the requests: searching the roots again, remembering.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use headlong_engine::StreamId;
use headlong_library::Gone;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::degraded::{DegradedParts, PartKind};
use crate::http::MediaState;
use crate::net::Pulse;
use crate::service_manager::{self, NotifyState};
use crate::state_folder::{StateFolder, Who};
use crate::time_scale::TimeScale;
use crate::unscanned::Unscanned;

/// How often streams that no path leads to any more are cleared away.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);

/// Longest time to wait for that.
const REMEMBER_TIMEOUT: Duration = Duration::from_secs(2);

/// Longer than anything takes that is done at the stop.
const FINISH_TIMEOUT: Duration = Duration::from_secs(15);

/// How long the service manager and load balancers wait for roots to be scanned.
const SCAN_PATIENCE: Duration = Duration::from_secs(10);

/// Between two looks for a root that is not there.
const MISSING_ROOT_INTERVAL: Duration = Duration::from_secs(5);

/// How long a process that is ready to take another's place waits for its roots to be scanned.
const TAKE_OVER_PATIENCE: Duration = Duration::from_secs(1);

/// How often what was learned is written down, beside the stop: what a crash may cost. Of two such
/// times a viewer is remembered (`chain_gap`), so that it is known after a crash too.
const REMEMBER_INTERVAL: Duration = Duration::from_secs(20);

/// How roots are scanned, and what is said of it.
#[derive(Clone)]
pub(crate) struct RootScans {
    /// Between two scans of a root; zero for one scan.
    pub(crate) rescan: Duration,
    /// Counts scans.
    pub(crate) scanned: watch::Sender<u64>,
    /// Roots that have had none and may yet have one.
    pub(crate) unscanned: Arc<Unscanned>,
    pub(crate) degraded: Arc<DegradedParts>,
}

/// Scans the roots now and again, tells the devices of streams that are gone, and remembers what was
/// learned.
pub(crate) async fn upkeep(state: Arc<MediaState>, folder: StateFolder, roots: RootScans) {
    let mut scans = JoinSet::new();
    for root in 0..state.library.roots().len() {
        let (state, roots) = (Arc::clone(&state), roots.clone());
        scans.spawn(async move { scan(&state, root, &roots).await });
    }
    tokio::join!(sweep(&state), async {
        loop {
            sleep(REMEMBER_INTERVAL).await;
            remember(&state, &folder).await;
        }
    });
}

/// Tells the service manager that this process works, as often as it wants to hear that
/// (`WatchdogSec=`): events are handled, and those of every thread of connections. Disks are not asked:
/// one that hangs is no reason to end what others serve.
pub(crate) async fn keep_alive(threads: Pulse) {
    service_manager::keep_alive(|| threads.beat()).await;
}

/// Says that the server is ready, once all roots are scanned; `addresses` are where viewers come to.
pub(crate) async fn say_ready(
    state: Arc<MediaState>,
    scans: watch::Receiver<u64>,
    unscanned: Arc<Unscanned>,
    (is_ready, addresses): (Arc<AtomicBool>, String),
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

/// Returns once all roots are scanned, but before a process that waits to be replaced has given back
/// its cache for long: what is not found yet is looked up as it is asked for.
pub(crate) async fn until_scanned_or_soon(mut scans: watch::Receiver<u64>, unscanned: &Unscanned) {
    let all_scanned = scans.wait_for(|_| unscanned.is_empty());
    let _ = timeout(TAKE_OVER_PATIENCE, all_scanned).await;
}

/// Returns once all roots are scanned, or after a time, since what is on a root that takes longer is
/// served meanwhile as far as it is found.
async fn until_scanned(state: &MediaState, mut scans: watch::Receiver<u64>, unscanned: &Unscanned) {
    // One root may have been scanned twice before another was once.
    let all_scanned = scans.wait_for(|_| unscanned.is_empty());
    let is_complete = timeout(SCAN_PATIENCE, all_scanned).await.is_ok();
    if is_complete {
        say_scanned(state);
        return;
    }
    let roots = unscanned.names().join(", ");
    tracing::warn!(
        roots,
        files = state.library.counts().files,
        "some roots are still being scanned; titles are listed as they are found, and played before \
         that. While viewers need a disk, its search takes a tenth of its time. If no file is \
         found, it does not answer"
    );
}

fn say_scanned(state: &MediaState) {
    let counts = state.library.counts();
    tracing::info!(
        files = counts.files,
        hidden = counts.hidden,
        not_utf8 = counts.not_utf8,
        titles = state.library.title_count(),
        "scanned the roots"
    );
}

/// Scans one root again and again; a root that hangs keeps only its own scans waiting, and one that is
/// not there is looked for more often.
async fn scan(state: &MediaState, root: usize, roots: &RootScans) {
    let RootScans {
        scanned, unscanned, ..
    } = roots;
    let name = state.library.roots()[root].display().to_string();
    let began = Instant::now();
    loop {
        let mut pause = roots.rescan;
        if let Some((changes, trouble)) = state.lookups.scan(root, &state.devices).await {
            tell_gone(state, changes.gone_streams);
            match trouble {
                None => roots.degraded.recover(PartKind::Root, &name),
                Some(trouble) => {
                    roots.degraded.lose(PartKind::Root, &name, trouble);
                    pause = MISSING_ROOT_INTERVAL;
                }
            }
            let first = unscanned.scanned(root);
            if let Some(root) = first.filter(|_| began.elapsed() >= SCAN_PATIENCE) {
                tracing::info!(root = %root.display(), "a root that was late is scanned now");
                if unscanned.is_empty() {
                    say_scanned(state);
                }
            }
            scanned.send_modify(|count| *count += 1);
        }
        if pause.is_zero() {
            return;
        }
        sleep(pause).await;
    }
}

fn tell_gone(state: &MediaState, gone: Vec<Gone>) {
    for Gone { id, is_regrouped } in gone {
        for device in &state.devices {
            device.stream_gone(StreamId(id), is_regrouped);
        }
    }
}

/// Writes down what was learned of each device and of media files. A device that hangs, or a folder that does, keeps
/// nothing from going on or from stopping.
pub(crate) async fn remember(state: &MediaState, folder: &StateFolder) {
    if !folder.is_set() {
        return;
    }
    let mut devices = JoinSet::new();
    if let Some(facts) = folder.facts() {
        let (facts, library) = (Arc::clone(facts), state.library.clone());
        devices.spawn_blocking(move || facts.write(&library));
    }
    for (device, info) in state
        .devices
        .clone()
        .into_iter()
        .zip(state.library.devices())
    {
        let folder = folder.clone();
        devices.spawn(async move {
            let turn = folder.turn(device.name()).await;
            let Some(learned) = device.learned().await else {
                return;
            };
            let written = tokio::task::spawn_blocking(move || {
                folder.write(Who::of(&info), &device.config(), &learned);
                drop(turn);
            });
            let _ = written.await;
        });
    }
    let all = async { while devices.join_next().await.is_some() {} };
    let _ = timeout(REMEMBER_TIMEOUT, all).await;
}

/// Has each device know the viewers of the process before, as that wrote them down last.
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
            if let Some(told) = folder.read(Who::of(&info), &device.config(), time_scale) {
                device.returning(told);
            }
        });
    }
    let all = async { while devices.join_next().await.is_some() {} };
    let _ = timeout(REMEMBER_TIMEOUT, all).await;
}

/// Does at the stop what ends within a time of its own. On a thread of its own too: those for calls that
/// block may all hang by then.
pub(crate) async fn finish(what: impl FnOnce() + Send + 'static) {
    let (say, is_done) = oneshot::channel();
    let finish = move || {
        what();
        // Nobody may wait any more.
        let _ = say.send(());
    };
    let thread = std::thread::Builder::new().name("finish".to_owned());
    match thread.spawn(finish) {
        Ok(_) => drop(timeout(FINISH_TIMEOUT, is_done).await),
        Err(error) => tracing::error!(%error, "no thread to write the rest of what is open"),
    }
}

async fn sweep(state: &MediaState) {
    loop {
        sleep(SWEEP_INTERVAL).await;
        tell_gone(state, state.library.take_gone_streams());
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn what_is_left_to_do_at_the_stop_is_done_though_all_threads_for_calls_that_block_hang() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .max_blocking_threads(1)
            .build()
            .expect("a runtime");
        let (release, hang) = channel::<()>();
        runtime.spawn_blocking(move || hang.recv());
        let (done, is_done) = channel();
        runtime.block_on(finish(move || done.send(()).expect("received")));
        is_done.try_recv().expect("done by now");
        drop(release);
    }
}
