//! Answers to HAProxy's agent check: a line for each connection, without reading from it.
//!
//! The devices are sampled once a second, however many balancers ask.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use headlong_engine::DeviceState;
use headlong_fleet::{AgentAnswer, BearableShare, DiskSample};
use headlong_net::{Listener, Shutdown};
use headlong_storage::DeviceSnapshot;
use tokio::io::{AsyncWrite, AsyncWriteExt as _};
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};

use super::state::AdminState;

const SAMPLE_INTERVAL: Duration = Duration::from_secs(1);
/// A device thread that does not respond for this long leaves the answer as it was; `/healthz`
/// then fails.
const SNAPSHOT_TIMEOUT: Duration = Duration::from_secs(3);
/// A line fits into the buffer of any new socket.
const WRITE_TIMEOUT: Duration = Duration::from_secs(1);
const ACCEPT_PAUSE: Duration = Duration::from_millis(250);

/// Serves the agent's listener until `shutdown`.
pub async fn serve_agent(listener: Listener, state: Arc<AdminState>, mut shutdown: Shutdown) {
    let answer = Mutex::new(AgentAnswer::Up(100));
    let sample = async {
        let mut samples = DiskSamples::default();
        let mut share = BearableShare::default();
        let mut seconds = interval(SAMPLE_INTERVAL);
        seconds.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            seconds.tick().await;
            let asked = timeout(SNAPSHOT_TIMEOUT, state.devices.snapshots()).await;
            if let Ok(devices) = asked {
                let lost = state.degraded.list().into_iter();
                let lost = lost.filter(|part| part.kind == "root");
                let lost: Vec<String> = lost.map(|part| part.name).collect();
                let disks = samples.take(&devices, &lost);
                let now = share.handle_second(&disks, state.draining.is_draining());
                *answer.lock().unwrap_or_else(PoisonError::into_inner) = now;
            }
        }
    };
    let answer_all = async {
        loop {
            let now = || {
                let answer = answer.lock().unwrap_or_else(PoisonError::into_inner);
                match state.draining.is_draining() {
                    true => AgentAnswer::Drain.to_string(),
                    false => answer.to_string(),
                }
            };
            match accept(&listener).await {
                Ok(mut stream) => {
                    // A client that closes at once, or never reads, gets no answer.
                    let line = now();
                    let _ = timeout(WRITE_TIMEOUT, stream.write_all(line.as_bytes())).await;
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot accept an agent check");
                    sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    };
    tokio::select! {
        () = shutdown.retiring() => {}
        () = sample => {}
        () = answer_all => {}
    }
}

async fn accept(listener: &Listener) -> io::Result<Box<dyn AsyncWrite + Send + Unpin>> {
    Ok(match listener {
        Listener::Tcp(listener) => Box::new(listener.accept().await?.0),
        Listener::Unix(listener) => Box::new(listener.accept().await?.0),
    })
}

/// Turns snapshots into samples of a second.
#[derive(Default)]
struct DiskSamples {
    /// Jobs and late jobs of each device so far.
    before: HashMap<String, (u64, u64)>,
}

impl DiskSamples {
    /// A sample for each root, usually a disk. `lost` are those out of service, which may have no
    /// known device.
    fn take(&mut self, devices: &[DeviceSnapshot], lost: &[String]) -> Vec<DiskSample> {
        let is_lost = |root: &Path| lost.iter().any(|name| root.as_os_str() == &**name);
        let mut disks = Vec::with_capacity(devices.len());
        for device in devices {
            let counted = (device.stats.jobs, device.stats.jobs_late);
            let before = self.before.insert(device.name.clone(), counted);
            let before = before.unwrap_or(counted);
            let sample = DiskSample {
                is_gone: device.state == DeviceState::Offline,
                is_refusing: device.is_overloaded,
                jobs: counted.0.saturating_sub(before.0),
                jobs_late: counted.1.saturating_sub(before.1),
            };
            let of_root = |root: &PathBuf| DiskSample {
                is_gone: sample.is_gone || is_lost(root),
                ..sample
            };
            match device.roots.is_empty() {
                true => disks.push(sample),
                false => disks.extend(device.roots.iter().map(of_root)),
            }
        }
        let is_known = |name: &&String| {
            let mut roots = devices.iter().flat_map(|device| &device.roots);
            roots.any(|root| root.as_os_str() == &***name)
        };
        let unknown = lost.iter().filter(|name| !is_known(name));
        disks.extend(unknown.map(|_| DiskSample {
            is_gone: true,
            ..DiskSample::default()
        }));
        disks
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing;
    use super::*;

    #[test]
    fn sample_counts_lost_roots_and_new_late_jobs() {
        let mut one = testing::device("sda", DeviceState::Online);
        let mut two = testing::device("sdb", DeviceState::Online);
        one.roots = vec!["/srv/a".into()];
        two.roots = vec!["/srv/b".into()];
        (one.stats.jobs, one.stats.jobs_late) = (500, 40);
        let mut samples = DiskSamples::default();
        let well = samples.take(&[one.clone(), two.clone()], &[]);
        assert_eq!(
            well,
            [DiskSample::default(); 2],
            "the first second has no past"
        );
        (one.stats.jobs, one.stats.jobs_late) = (600, 43);
        let lost = ["/srv/b".to_owned(), "/srv/never".to_owned()];
        let found = samples.take(&[one, two], &lost);
        let gone = DiskSample {
            is_gone: true,
            ..DiskSample::default()
        };
        let late = DiskSample {
            jobs: 100,
            jobs_late: 3,
            ..DiskSample::default()
        };
        assert_eq!(found, [late, gone, gone]);
    }

    #[test]
    fn device_offline_is_gone() {
        let device = testing::device("sda", DeviceState::Offline);
        assert!(DiskSamples::default().take(&[device], &[])[0].is_gone);
    }
}
