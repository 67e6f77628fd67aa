//! The share of its usual load that this server can bear, as of the last second: for the agent, and
//! for steering.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use headlong_engine::DeviceState;
use headlong_fleet::{AgentAnswer, BearableShare, DiskSample};
use headlong_storage::DeviceSnapshot;
use tokio::time::{MissedTickBehavior, interval, timeout};

use super::state::AdminState;

const SAMPLE_INTERVAL: Duration = Duration::from_secs(1);
/// A device thread that does not respond for this long leaves the share as it was; `/healthz` then
/// fails.
const SNAPSHOT_TIMEOUT: Duration = Duration::from_secs(3);

/// The share, all of it until it is sampled.
#[derive(Debug)]
pub struct CurrentShare(Mutex<AgentAnswer>);

impl Default for CurrentShare {
    fn default() -> Self {
        Self(Mutex::new(AgentAnswer::Up(100)))
    }
}

impl CurrentShare {
    /// The share, as it is told to a balancer.
    pub fn get(&self) -> AgentAnswer {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, now: AgentAnswer) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = now;
    }
}

/// Samples the devices once a second and sets the share, without end.
pub async fn sample_share(state: Arc<AdminState>) {
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
            state.share.set(now);
        }
    }
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
