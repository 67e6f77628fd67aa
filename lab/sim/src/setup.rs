//! What a world is made of, and why one cannot be made.

use headlong_engine::{ConfigError, EngineConfig};
use headlong_flash::SpecError;
use headlong_http::Pace;
use headlong_units::{BitRate, Duration, KIB};

use headlong_workload::Identity;

use crate::disk::ColdOpen;
use crate::flash::FlashSetup;
use crate::layout::Placement;
use crate::measure::Window;
use crate::restart::Restart;
use crate::vanilla::VanillaSetup;

/// Who answers.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum ServerKind {
    /// The engine.
    #[default]
    Headlong,
    /// A web server above a kernel's page cache.
    Vanilla(VanillaSetup),
}

/// What a world is made of, beside its trace and its drive.
#[derive(Debug, Clone, PartialEq)]
pub struct Setup {
    /// Who answers.
    pub server: ServerKind,
    /// How many disks an experiment has, all of one kind; a world has as many as it is given drives.
    /// Titles are dealt out to them.
    pub disks: u32,
    /// Settings of the server's shards, if it is headlong. `memory_bytes` is of all of them together.
    pub engine: EngineConfig,
    /// Bytes that a socket takes beyond those that have left (the server's `tcp.unsent_max`).
    pub socket_bytes: u64,
    /// How fast its replies go, if it is headlong: by the bit rates of titles, which its front knows.
    pub pace: Pace,
    /// Its flash tier, if it is headlong and has one.
    pub flash: Option<FlashSetup>,
    /// Largest block request that reaches the drive; 1,280 KiB through a loop device.
    pub request_bytes_max: u64,
    /// From the end of a request in the drive until the server knows of it: zero but for worlds
    /// that imitate an emulated drive, whose way to the server takes a moment.
    pub turnaround: Duration,
    /// Requests that the drive has in its own queue at most; its own number if `None`.
    pub queue_depth: Option<usize>,
    /// Where files lie.
    pub placement: Placement,
    /// What it costs the server, if it is headlong, to open a file for the first time; nothing if
    /// `None`: all that leads to files is in the kernel's cache.
    pub cold_open: Option<ColdOpen>,
    /// Whether the server knows the bit rates of its titles, as it does from manifests and headers.
    pub bit_rates_known: bool,
    /// Whether the server knows the playlists of titles in several files, and so the order of those.
    pub playlists_known: bool,
    /// Whether players say with each request what they will ask for next (`nor` of CMCD).
    pub names_next: bool,
    /// What players tell about themselves; an experiment's workload and a trace know better.
    pub identity: Identity,
    /// Bit rates that it is told in place of others, if it is told any: for sizes that are scaled by
    /// another rule than the server has (automated-prefetching 7.4).
    pub bit_rates_told: Vec<(BitRate, BitRate)>,
    /// What is measured.
    pub window: Window,
    /// How long viewers go on to come after the window has closed, so that those who came in it see
    /// the end of their sessions under the same load.
    pub ramp_down: Duration,
    /// When the server, if it is headlong, ends and begins again; never if `None`.
    pub restart: Option<Restart>,
    /// Whether to stop at the first failure within the window.
    pub stops_at_failure: bool,
    /// Whether to stop at the first failed session of those that began within the window.
    pub stops_at_failed_session: bool,
    /// Whether each call is kept, to be written down.
    pub keeps_calls: bool,
    /// Whether the shard's invariants are checked after every step: slow.
    pub checked: bool,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            server: ServerKind::default(),
            disks: 1,
            engine: EngineConfig::default(),
            flash: None,
            socket_bytes: 256 * KIB,
            pace: Pace::NONE,
            request_bytes_max: 1280 * KIB,
            turnaround: Duration::ZERO,
            queue_depth: None,
            placement: Placement::default(),
            cold_open: None,
            bit_rates_known: false,
            playlists_known: true,
            names_next: false,
            identity: Identity::default(),
            bit_rates_told: Vec::new(),
            window: Window::default(),
            ramp_down: Duration::ZERO,
            restart: None,
            stops_at_failure: false,
            stops_at_failed_session: false,
            keeps_calls: false,
            checked: false,
        }
    }
}

/// Why a world cannot be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SetupError {
    /// The engine's settings cannot work.
    #[error("{0}")]
    Engine(#[from] ConfigError),
    /// The flash tier cannot be.
    #[error("the flash tier: {0}")]
    Flash(#[from] SpecError),
    /// The catalogue does not fit.
    #[error("{0}")]
    Catalogue(String),
    /// A session names a class or an object that is not there.
    #[error("session {session} of the trace names {what} that is not in it; write the trace again")]
    Trace {
        /// Which, from 0.
        session: usize,
        /// What is missing.
        what: &'static str,
    },
    /// Nothing is known of how a vanilla server would begin again.
    #[error("a vanilla server cannot be restarted in virtual time; leave the restart out")]
    NoRestart,
    /// Nothing is known of what one disk would be for another.
    #[error("{0} has one disk in virtual time; leave --disks out")]
    OneDisk(&'static str),
    /// There is nothing to read from.
    #[error("a world needs a disk at least")]
    NoDisk,
    /// Nobody knows what a warm tier holds.
    #[error(
        "what adaptive players ask for is not known before they do, so that a flash tier cannot begin \
         warm; let it begin empty, and make the ramp longer"
    )]
    NotWarm,
    /// There is no bound for players that decide as they go.
    #[error(
        "what adaptive players ask for is not known before they do, and so there is no bound; \
         choose simple ones (--set player.kind=simple)"
    )]
    NoBound,
}
