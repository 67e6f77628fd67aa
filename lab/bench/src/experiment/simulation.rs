//! `[simulation]`: what only a simulated machine can be told. Real runs ignore it.

use headlong_settings::{Document, Rows, choice, flag, named, size, time, whole};
use headlong_sim::{CacheKind, PageCacheServerSetup, Placement, Restart, WorldSetup};
use headlong_units::{Duration, Instant};

/// Most disks, and most SSDs.
const DISKS_MAX: u32 = 1000;
const EXTENTS_MAX: u32 = 1000;
const SSDS_MAX: u16 = 100;
/// Concurrent requests of a loop device, behind which emulated drives are.
const LOOP_TAGS: u32 = 128;

/// A simulated machine beyond what other tables say.
#[derive(Debug, Clone, PartialEq)]
pub struct Simulation {
    /// Disks, sockets and viewers; the other tables determine the rest.
    pub world: WorldSetup,
    /// The kernel of servers that use the page cache; the other tables determine the rest.
    pub kernel: PageCacheServerSetup,
    /// Number of SSDs, if there is a flash tier.
    pub ssds: u16,
    /// Whether all memory is for pieces of files; a real process needs a part of it.
    pub is_memory_whole: bool,
    /// Whether a call that fails in the measured time fails the run (thesis 4.4.3); otherwise
    /// sessions are counted, as in real runs.
    pub counts_calls: bool,
    /// Wall time that the machine adds to each request of the drive.
    pub turnaround: Duration,
    /// When the server ends and starts again; never if `None`.
    pub restart_at: Option<Duration>,
    /// Its downtime then.
    pub restart_down: Duration,
    /// Age of the state that it saved and loads then; no state if `None`.
    pub restart_state: Option<Duration>,
}

impl Default for Simulation {
    fn default() -> Self {
        Self {
            world: WorldSetup {
                placement: Placement::Spread,
                ..WorldSetup::default()
            },
            kernel: PageCacheServerSetup {
                tags: LOOP_TAGS,
                ..PageCacheServerSetup::default()
            },
            ssds: 1,
            is_memory_whole: false,
            counts_calls: false,
            turnaround: Duration::ZERO,
            restart_at: None,
            restart_down: Duration::from_secs(1),
            restart_state: None,
        }
    }
}

#[rustfmt::skip]
fn rows() -> Rows<Simulation> {
    let mut rows = Rows::<Simulation>::default();
    rows.add("disks", whole().between(1, DISKS_MAX), |s| &mut s.world.disks, "");
    rows.add("ssds", whole().between(1, SSDS_MAX), |s| &mut s.ssds, "");
    let placement = choice(&[("spread", Placement::Spread), ("packed", Placement::Packed)]);
    rows.add("placement", placement, |s| &mut s.world.placement, "");
    rows.add("extents", whole().between(1, EXTENTS_MAX), |s| &mut s.world.extents_per_file, "");
    rows.add("socket", size().at_least(1), |s| &mut s.world.socket_bytes, "");
    rows.add("playlists", flag(), |s| &mut s.world.playlists_known, "");
    rows.add("bit_rates", flag(), |s| &mut s.world.bit_rates_known, "");
    rows.add("names_next", flag(), |s| &mut s.world.names_next, "");
    rows.add("tags", whole().at_least(1), |s| &mut s.kernel.tags, "");
    rows.add("page_cache", named(CacheKind::ALL, CacheKind::name), |s| &mut s.kernel.cache, "");
    rows.add("whole_memory", flag(), |s| &mut s.is_memory_whole, "");
    let failures = choice(&[("sessions", false), ("calls", true)]);
    rows.add("failures", failures, |s| &mut s.counts_calls, "");
    rows.add("turnaround", time(), |s| &mut s.turnaround, "");
    rows.add("restart_at", time().optional(), |s| &mut s.restart_at, "");
    rows.add("restart_down", time(), |s| &mut s.restart_down, "");
    rows.add("restart_state", time().optional(), |s| &mut s.restart_state, "");
    rows
}

/// `[simulation]`, or the defaults.
pub(super) fn simulation(document: &mut Document) -> Simulation {
    let mut simulation = Simulation::default();
    rows().read(document, "simulation", &mut simulation);
    if simulation.restart_at.is_none() {
        for key in ["simulation.restart_down", "simulation.restart_state"] {
            if document.is_written(key) {
                document.wrong(key, "has no effect without restart_at");
            }
        }
    }
    simulation
}

impl Simulation {
    /// Reports a restart after the end of the run.
    pub(super) fn check(&self, document: &mut Document, end: Duration) {
        if let Some(at) = self.restart_at.filter(|at| *at >= end) {
            let text = format!("is {at}, when the run is over, which ends at {end}; write less");
            document.wrong("simulation.restart_at", text);
        }
    }

    pub(crate) fn restart(&self) -> Option<Restart> {
        self.restart_at.map(|at| Restart {
            at: Instant::ZERO + at,
            down: self.restart_down,
            kept: self.restart_state,
        })
    }
}
