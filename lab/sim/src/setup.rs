//! Setup of a world, and the errors of building one.

use headlong_device::{DeviceCore, RestoredChains, SavedChains};
use headlong_drive::DriveSpec;
use headlong_engine::{ConfigError, EngineConfig, SavedChain, Shard, ShardMeasurements};
use headlong_flash::SpecError;
use headlong_http::Pace;
use headlong_units::{BitRate, Duration, Instant, KIB};
use headlong_workload::ViewerIdentity;

use crate::disk::SimulatedResources;
use crate::layout::Placement;
use crate::measure::MeasuredWindow;
use crate::page_cache_server::PageCacheServerSetup;
pub use crate::warm_flash::WarmContent;

/// The kind of server.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum ServerModel {
    /// The engine.
    #[default]
    Headlong,
    /// A web server on a kernel's page cache.
    Vanilla(PageCacheServerSetup),
}

/// Setup of a world, apart from its trace and its drive.
#[derive(Debug, Clone, PartialEq)]
pub struct WorldSetup {
    /// The kind of server.
    pub server: ServerModel,
    /// Number of disks of an experiment, all of one kind; a world has one for each drive it gets.
    /// Titles are distributed over them.
    pub disks: u32,
    /// Settings of the server's shards; Headlong only. `memory_bytes` is the sum over all shards.
    pub engine: EngineConfig,
    /// Unsent bytes that a socket accepts (256 KiB in the server).
    pub socket_bytes: u64,
    /// Pacing of replies by the bit rate of titles; Headlong only.
    pub pace: Pace,
    /// Flash tier; Headlong only.
    pub flash: Option<FlashSetup>,
    /// Largest block request that reaches the drive; 1,280 KiB through a loop device.
    pub request_bytes_max: u64,
    /// From the completion of a request in the drive until the server sees it: zero except in
    /// worlds that imitate an emulated drive, which reports completions with a delay.
    pub turnaround: Duration,
    /// Limit on requests in the drive's own queue; the drive's limit if `None`.
    pub queue_depth: Option<usize>,
    /// Placement of files.
    pub placement: Placement,
    /// Extents of each file, Headlong only. With more than four, the kernel reads the map of a file
    /// before its first bytes, as ext4 does.
    pub extents_per_file: u32,
    /// Whether the server knows the bit rates of its titles, as it does from manifests and headers.
    pub bit_rates_known: bool,
    /// Whether the server knows the playlists of titles in several files, and so the order of the
    /// files.
    pub playlists_known: bool,
    /// Whether players announce their next request with each request (`nor` of CMCD).
    pub names_next: bool,
    /// How players identify themselves; replaced by that of an experiment's workload or a trace.
    pub identity: ViewerIdentity,
    /// Substitutes for some known bit rates, to simulate another scaling rule of sizes
    /// (automated-prefetching 7.4).
    pub bit_rates_told: Vec<(BitRate, BitRate)>,
    /// The measured window.
    pub window: MeasuredWindow,
    /// How long viewers continue to arrive after the window has closed, so that sessions that began
    /// within it end under the same load.
    pub ramp_down: Duration,
    /// Restart of the server, if any; Headlong only.
    pub restart: Option<Restart>,
    /// Whether to stop at the first failure within the window.
    pub stops_at_failure: bool,
    /// Whether to stop at the first failed session that began within the window.
    pub stops_at_failed_session: bool,
    /// Whether to keep a record of each call.
    pub keeps_calls: bool,
    /// Whether to check the shard's invariants after every step: slow.
    pub checked: bool,
}

impl Default for WorldSetup {
    fn default() -> Self {
        Self {
            server: ServerModel::default(),
            disks: 1,
            engine: EngineConfig::default(),
            flash: None,
            socket_bytes: 256 * KIB,
            pace: Pace::NONE,
            request_bytes_max: 1280 * KIB,
            turnaround: Duration::ZERO,
            queue_depth: None,
            placement: Placement::default(),
            extents_per_file: 1,
            bit_rates_known: false,
            playlists_known: true,
            names_next: false,
            identity: ViewerIdentity::default(),
            bit_rates_told: Vec::new(),
            window: MeasuredWindow::default(),
            ramp_down: Duration::ZERO,
            restart: None,
            stops_at_failure: false,
            stops_at_failed_session: false,
            keeps_calls: false,
            checked: false,
        }
    }
}

/// Why a world cannot be built.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SetupError {
    /// The engine's settings are invalid.
    #[error("{0}")]
    Engine(#[from] ConfigError),
    /// The flash tier is invalid.
    #[error("flash tier: {0}")]
    Flash(#[from] SpecError),
    /// The catalogue does not fit.
    #[error("{0}")]
    Catalogue(String),
    /// A session refers to a missing class or object.
    #[error("session {session} of the trace refers to a missing {what}; generate the trace again")]
    Trace {
        /// Index of the session, from 0.
        session: usize,
        /// The missing item.
        what: &'static str,
    },
    /// Restarts of a vanilla server are not modelled.
    #[error("a vanilla server cannot be restarted in virtual time; omit the restart")]
    NoRestart,
    /// Sharing a server between disks is not modelled here.
    #[error("{0} supports only one disk in virtual time; simulate one disk")]
    OneDisk(&'static str),
    /// There are no disks.
    #[error("a world needs at least one disk")]
    NoDisk,
    /// The content of a warm tier cannot be determined.
    #[error(
        "the requests of adaptive players are not known in advance, so a flash tier cannot begin \
         warm; let it begin empty, and make the ramp longer"
    )]
    NotWarm,
    /// There is no bound for adaptive players.
    #[error(
        "the deadlines of requests of adaptive players, and of workloads of phases, are not known \
         in advance, so there is no bound; choose simple players (--set player.kind=simple)"
    )]
    NoBound,
    /// Not modelled in fleets.
    #[error(
        "boxes of a fleet are headlong servers without SSDs, and fail one by one; omit the flash \
         tier, the restart and the other server"
    )]
    NotInFleet,
    /// A plan needs a popularity for each title.
    #[error(
        "titles of a workload of phases have no fixed popularity, so no plan can place them; \
         choose another rule or workload"
    )]
    NotPlanned,
    /// There is no bound for servers with an SSD.
    #[error("the bound knows no SSD between memory and the drive; omit --flash")]
    FlashBound,
}

/// Setup of a tier.
#[derive(Debug, Clone, PartialEq)]
pub struct FlashSetup {
    /// Model of the SSDs, the same for all.
    pub drive: DriveSpec,
    /// Number of SSDs.
    pub ssds: u16,
    /// Bytes used of each.
    pub bytes: u64,
    /// Bytes of a block.
    pub block_bytes: u32,
    /// Whether the tier starts with the content of a long-running one.
    pub is_warm: bool,
    /// Initial content; the experiment computes it if the tier is warm.
    pub content: WarmContent,
}

/// Time of a restart, and the state that survives it. Memory is lost, replies in progress are cut,
/// and requests during the outage fail to connect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Restart {
    /// When the process ends.
    pub at: Instant,
    /// Length of the outage.
    pub down: Duration,
    /// Age of the saved state when the process ends: zero after a graceful shutdown, up to 20 s
    /// after a kill; `None` if no state is saved.
    pub kept: Option<Duration>,
}

/// The latest saved state. Each chain is saved with its stream id, which is stable here.
#[derive(Debug, Default)]
pub(crate) struct SavedState {
    written: Option<Instant>,
    learned: ShardMeasurements,
    chains: Vec<(u64, SavedChain)>,
}

impl SavedState {
    /// Saves the learned state of a shard.
    pub(crate) fn write(&mut self, now: Instant, shard: &Shard) {
        self.written = Some(now);
        self.learned = shard.measurements();
        let chains = shard.saved_chains(usize::MAX).into_iter();
        self.chains = chains.map(|chain| (chain.stream.0, chain)).collect();
    }

    /// Restores the saved state into a new device before its first request.
    pub(crate) fn restore(&self, now: Instant, core: &mut DeviceCore<SimulatedResources>) {
        let Some(written) = self.written else {
            return;
        };
        core.shard_mut().restore_measurements(now, &self.learned);
        let known = SavedChains {
            chains: self.chains.clone(),
            age: now.since(written),
        };
        core.set_restored_chains(RestoredChains::new(now, known));
    }
}

#[cfg(test)]
mod tests {
    use headlong_device::flash::{FlashResult, SsdJob};
    use headlong_engine::EngineConfig;
    use headlong_flash::SsdId;
    use headlong_units::Instant;

    use super::*;
    use crate::tier::SimulatedTier;

    #[test]
    fn ssd_answers_probe() {
        let setup = FlashSetup {
            drive: headlong_drive::preset("ssd-ocz-core-v2").expect("known"),
            ssds: 1,
            bytes: 4 << 30,
            block_bytes: 16 << 20,
            is_warm: false,
            content: WarmContent::default(),
        };
        let piece_bytes = EngineConfig::default().piece_bytes;
        let mut tier = SimulatedTier::new(1, piece_bytes, &setup, false).expect("a valid tier");
        tier.submit(Instant::ZERO, 0, SsdId(0), SsdJob::Probe(SsdId(0)));
        assert!(tier.take_ended(0).is_none(), "it takes time");
        while let Some(at) = tier.poll_timeout() {
            tier.handle_timeout(at);
            if let Some(end) = tier.take_ended(0) {
                assert!(matches!(end, FlashResult::Probed { ssd: SsdId(0), .. }));
                return;
            }
        }
        panic!("no answer");
    }
}
