//! Options that describe the world of `headlong simulate run`, `search`, `sweep` and `bound`.

use headlong_bench::VirtualCell;
use headlong_drive::DriveSpec;
use headlong_engine::{ConfigError, PIECE_BYTES_WITH_FLASH};
use headlong_sim::{
    ColdOpen, FlashSetup, MeasuredWindow, Placement, Restart, TierLayout, VirtualExperiment,
    WarmContent, WorldSetup, settings,
};
use headlong_units::{Bytes, Duration, Instant};
use headlong_workload::Specification;

use crate::drive_args::drive_spec;
use crate::mistake::Mistakes;
use crate::vanilla::{VanillaArgs, request_size};
use headlong_report::command_line;

/// Arguments that describe a world.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct WorldArgs {
    /// Workload: a preset such as youtube-sd or youtube-hd, or a specification in TOML (FILE.toml)
    #[arg(value_name = "WORKLOAD")]
    pub(crate) workload: String,
    /// Override a key of the workload's specification, such as requests.size=20s; may be given
    /// several times
    #[arg(long, help_heading = "Workload", value_name = "KEY=VALUE", value_parser = pair)]
    pub(crate) set: Vec<(String, String)>,
    /// The drive: a preset, or a description such as written by `headlong disk probe -o`
    #[arg(long, help_heading = "Drive", value_name = "PRESET|FILE.toml", default_value = "wd-red-wd10efrx", value_parser = drive_spec)]
    pub(crate) drive: DriveSpec,
    /// Number of such drives; titles are distributed by a hash of their numbers. Rate and memory
    /// are those of the whole server
    #[arg(long, help_heading = "Drive", value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    disks: u32,
    /// The engine's memory for pieces, of all disks together; for a vanilla server the page cache
    #[arg(
        long,
        help_heading = "Server",
        value_name = "SIZE",
        default_value = "3.5GiB"
    )]
    pub(crate) memory: Bytes,
    /// Rule for the size of a prefetch; the same as --engine policy=NAME
    #[arg(long, help_heading = "Server", value_name = "NAME")]
    policy: Option<String>,
    /// The rule's reference size, or a controller (auto, auto-paper); the same as --engine
    /// prefetch=SIZE. Without it 8MiB, fixed; the server's default is auto
    #[arg(long, help_heading = "Server", value_name = "SIZE|auto")]
    prefetch: Option<String>,
    /// Order of the device's jobs; the same as --engine order=NAME
    #[arg(long, help_heading = "Server", value_name = "NAME")]
    order: Option<String>,
    /// Reads outstanding at the drive; the same as --engine outstanding_reads=N
    #[arg(long, help_heading = "Server", value_name = "N")]
    outstanding_reads: Option<String>,
    /// Any setting of the engine, by its name in the server's configuration; may be given several
    /// times
    #[arg(long, help_heading = "Server", value_name = "NAME=VALUE", value_parser = setting)]
    pub(crate) engine: Vec<(String, String)>,
    /// First seed of the generated viewers
    #[arg(long, help_heading = "Workload", value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Length of the ramp, which does not count
    #[arg(
        long,
        help_heading = "Time",
        value_name = "TIME",
        default_value = "300s"
    )]
    ramp: Duration,
    /// Length of the steady state, which counts
    #[arg(
        long,
        help_heading = "Time",
        value_name = "TIME",
        default_value = "600s"
    )]
    measure: Duration,
    /// Size of a viewer's socket buffer
    #[arg(
        long,
        help_heading = "Server",
        value_name = "SIZE",
        default_value = "256KiB"
    )]
    pub(crate) socket: Bytes,
    /// Pacing of replies after a burst, in per cent of a title's bit rate; zero for no pacing
    #[arg(
        long,
        help_heading = "Server",
        value_name = "PERCENT",
        default_value_t = 0
    )]
    pub(crate) pace: u32,
    /// Playing time sent without pacing at first, with --pace
    #[arg(
        long,
        help_heading = "Server",
        value_name = "TIME",
        default_value = "10s"
    )]
    pub(crate) pace_burst: Duration,
    /// Largest request that reaches the drive
    #[arg(long, help_heading = "Drive", value_name = "SIZE", default_value = "1280KiB", value_parser = request_size)]
    request_max: Bytes,
    /// Spread the titles over the whole drive, as ext4 does, instead of packing them at its start
    #[arg(long, help_heading = "Drive")]
    spread: bool,
    /// Bytes read near the start of a file's block group of 128 MiB when the file is first opened;
    /// without this, metadata is in the kernel's cache
    #[arg(long, help_heading = "Drive", value_name = "SIZE")]
    cold_open: Option<Bytes>,
    /// Without playlists: each file of a multi-file title is a separate title for the server
    #[arg(long, help_heading = "Workload")]
    no_playlists: bool,
    /// Players announce their next request with each request (`nor` of CMCD)
    #[arg(long, help_heading = "Workload")]
    names_next: bool,
    /// Give the engine the bit rates of titles, which it otherwise has to estimate
    #[arg(long, help_heading = "Workload")]
    bit_rates: bool,
    /// Stop the server at this time of the run, with loss of its memory and of the replies in
    /// progress (the records' `cut`), and start it again
    #[arg(long, help_heading = "Time", value_name = "TIME")]
    restart: Option<Duration>,
    /// Downtime of the restart
    #[arg(
        long,
        help_heading = "Time",
        value_name = "TIME",
        default_value = "1s",
        requires = "restart"
    )]
    restart_down: Duration,
    /// Bytes of an SSD between memory and the drive (of each, if there are several): the engine's
    /// flash tier. Configure it with --engine flash_policy=NAME, flash_write_per_day=SIZE and
    /// flash_horizon=TIME
    #[arg(long, help_heading = "Flash tier", value_name = "SIZE")]
    flash: Option<Bytes>,
    /// Number of such SSDs, each of which serves all disks
    #[arg(long, help_heading = "Flash tier", value_name = "N", default_value_t = 1, requires = "flash", value_parser = clap::value_parser!(u16).range(1..=100))]
    ssds: u16,
    /// That SSD: a preset, or a drive description file
    #[arg(long, help_heading = "Flash tier", value_name = "PRESET|FILE.toml", default_value = "ssd-sata-low-end", value_parser = drive_spec, requires = "flash")]
    ssd: DriveSpec,
    /// Bytes of a block of the SSD
    #[arg(
        long,
        help_heading = "Flash tier",
        value_name = "SIZE",
        default_value = "16MiB",
        requires = "flash"
    )]
    flash_block: Bytes,
    /// Start the tier with the content that earlier viewers would have read most, as after long
    /// running; they are drawn with another seed. Otherwise the tier starts empty
    #[arg(long, help_heading = "Flash tier", requires = "flash")]
    flash_warm: bool,
    /// Restore the state of the stopped server, saved this long before its end: 0s if it is
    /// stopped, up to 20s if it is killed. Without this it starts without state
    #[arg(long, help_heading = "Time", value_name = "TIME", requires = "restart")]
    restart_state: Option<Duration>,
    #[command(flatten)]
    pub(crate) vanilla: VanillaArgs,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) fn pair(text: &str) -> Result<(String, String), String> {
    let (name, value) = text
        .split_once('=')
        .ok_or_else(|| format!("`{text}` has no `=`; write it like NAME=VALUE"))?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}

/// Parses `name=value` of an engine setting, and validates it on a temporary engine.
fn setting(text: &str) -> Result<(String, String), String> {
    let (name, value) = pair(text)?;
    settings::set(&mut WorldSetup::default().engine, &name, &value)?;
    Ok((name, value))
}

impl WorldArgs {
    fn workload(&self) -> Result<Specification, Vec<String>> {
        let read = match self.workload.strip_suffix(".toml") {
            None => Specification::preset(&self.workload, &self.set),
            Some(_) => {
                let text = std::fs::read_to_string(&self.workload)
                    .map_err(|error| vec![format!("{}: {error}", self.workload)])?;
                Specification::read(&self.workload, &text, &self.set)
            }
        };
        read.map_err(|errors| errors.iter().map(ToString::to_string).collect())
    }

    /// Whether playback figures are relevant.
    pub(crate) fn has_adaptive_players(&self) -> anyhow::Result<bool> {
        let workload = self.workload().map_err(Mistakes)?;
        Ok(workload.has_adaptive_players())
    }

    /// The world described by the arguments, ready to run in virtual time.
    pub(crate) fn cell(&self) -> anyhow::Result<VirtualCell> {
        let replay = replay(std::env::args());
        Ok(VirtualCell::of_options(
            self.experiment()?,
            &self.workload,
            &replay,
        ))
    }

    /// The world described by the arguments, or all mistakes, including options that do not apply
    /// to the server.
    pub(crate) fn experiment(&self) -> Result<VirtualExperiment, Mistakes> {
        let idle = self.idle();
        match self.experiment_of_any() {
            Ok(experiment) if idle.is_empty() => Ok(experiment),
            Ok(_) => Err(Mistakes(idle)),
            Err(Mistakes(mistakes)) => Err(Mistakes([mistakes, idle].concat())),
        }
    }

    /// Options that do not apply to the server, each as a mistake.
    fn idle(&self) -> Vec<String> {
        if !self.vanilla.is_vanilla() {
            let given = self.vanilla.given().into_iter();
            let told =
                |flag: &str| format!("{flag}: only a vanilla server has it; add --server vanilla");
            return given.map(told).collect();
        }
        let of_engine = [
            ("--policy", self.policy.is_some()),
            ("--prefetch", self.prefetch.is_some()),
            ("--order", self.order.is_some()),
            ("--outstanding-reads", self.outstanding_reads.is_some()),
            ("--engine", !self.engine.is_empty()),
            ("--pace", self.pace > 0),
            ("--bit-rates", self.bit_rates),
            ("--no-playlists", self.no_playlists),
            ("--names-next", self.names_next),
            ("--flash", self.flash.is_some()),
        ];
        let given = of_engine.into_iter().filter(|(_, is_given)| *is_given);
        let told = |(flag, _): (&str, bool)| {
            format!("{flag}: a vanilla server does not have it; leave it out")
        };
        given.map(told).collect()
    }

    /// Reports numbers that are invalid or have no effect.
    fn wrong_numbers(&self, mistakes: &mut Vec<String>) {
        if self.measure == Duration::ZERO {
            mistakes
                .push("--measure 0s: nothing would be measured; write a time such as 600s".into());
        }
        if self.socket == Bytes(0) {
            mistakes.push("--socket 0B: is too small; write a size such as 256KiB".into());
        }
        let length = self.ramp + self.measure;
        if let Some(at) = self.restart.filter(|at| *at >= length) {
            mistakes.push(format!(
                "--restart {at}: the run is over at {length} (--ramp and --measure); write less"
            ));
        }
        let Some(bytes) = self.flash else {
            return;
        };
        if !matches!(self.ssd, DriveSpec::SolidState(_)) {
            let name = self.ssd.name();
            mistakes.push(format!(
                "--ssd {name}: is a hard disk; use an SSD such as ssd-sata-low-end"
            ));
        }
        let capacity = Bytes(self.ssd.capacity_bytes());
        if bytes > capacity {
            let name = self.ssd.name();
            mistakes.push(format!(
                "--flash {bytes}: {name} has {capacity}; write less"
            ));
        }
        if bytes <= self.flash_block {
            mistakes.push(format!(
                "--flash {bytes}: has no room for blocks of {} (--flash-block); write more",
                self.flash_block
            ));
        }
    }

    /// The same for a grid with several servers: options need to apply to only one of them.
    pub(crate) fn experiment_of_any(&self) -> Result<VirtualExperiment, Mistakes> {
        let mut mistakes = Vec::new();
        self.wrong_numbers(&mut mistakes);
        let workload = self.workload().map_err(|errors| mistakes.extend(errors));
        let mut setup = WorldSetup {
            disks: self.disks,
            socket_bytes: self.socket.0,
            pace: headlong_http::Pace {
                percent: self.pace,
                burst: self.pace_burst,
                bytes_per_second_max: 0,
            },
            request_bytes_max: self.request_max.0,
            bit_rates_known: self.bit_rates,
            playlists_known: !self.no_playlists,
            names_next: self.names_next,
            placement: match self.spread {
                true => Placement::Spread,
                false => Placement::Packed,
            },
            cold_open: self.cold_open.map(|bytes| ColdOpen {
                bytes: bytes.0.max(1),
                ..ColdOpen::default()
            }),
            server: self.vanilla.server(self.memory.0, &mut mistakes),
            window: MeasuredWindow {
                from: Instant::ZERO + self.ramp,
                to: Instant::ZERO + self.ramp + self.measure,
            },
            restart: self.restart.map(|at| Restart {
                at: Instant::ZERO + at,
                down: self.restart_down,
                kept: self.restart_state,
            }),
            flash: self.flash.map(|bytes| FlashSetup {
                drive: self.ssd.clone(),
                ssds: self.ssds,
                bytes: bytes.0,
                block_bytes: u32::try_from(self.flash_block.0).unwrap_or(u32::MAX),
                is_warm: self.flash_warm,
                content: WarmContent::default(),
            }),
            ..WorldSetup::default()
        };
        setup.engine.memory_bytes = self.memory.0;
        if setup.flash.is_some() {
            setup.engine.piece_bytes = PIECE_BYTES_WITH_FLASH;
        }
        let named = [
            ("policy", &self.policy),
            ("prefetch", &self.prefetch),
            ("order", &self.order),
            ("outstanding_reads", &self.outstanding_reads),
        ];
        let named = named.iter().filter_map(|(name, value)| {
            let value = value.as_deref()?;
            Some((*name, value))
        });
        let others = self.engine.iter();
        let others = others.map(|(name, value)| (name.as_str(), value.as_str()));
        for (name, value) in named.chain(others) {
            if let Err(mistake) = settings::set(&mut setup.engine, name, value) {
                mistakes.push(mistake);
            }
        }
        let is_flash = matches!(self.drive, DriveSpec::SolidState(_));
        let is_written = |(name, _): &(String, String)| name == "outstanding_reads_flash";
        if is_flash && self.engine.iter().any(is_written) {
            setup.engine.outstanding_reads_max = setup.engine.outstanding_reads_flash;
        }
        let pieces = setup.engine.memory_bytes / setup.engine.piece_bytes.max(1);
        for error in setup.engine.check() {
            mistakes.push(match error {
                ConfigError::Memory if pieces > 8 => format!(
                    "memory {}: holds more pieces than can be counted, 2^32; write less, or a larger \
                     piece",
                    self.memory
                ),
                other => other.to_string(),
            });
        }
        if let Some(flash) = setup.flash.as_ref().filter(|_| mistakes.is_empty()) {
            let places = TierLayout::new(flash.bytes, flash.block_bytes, setup.engine.piece_bytes);
            mistakes.extend(places.err().map(|error| {
                format!(
                    "--flash {} in blocks of {}: {error}",
                    Bytes(flash.bytes),
                    self.flash_block
                )
            }));
        }
        match workload {
            Ok(workload) if mistakes.is_empty() => Ok(VirtualExperiment {
                workload,
                drive: self.drive.clone(),
                setup,
                steps: Vec::new(),
            }),
            _ => Err(Mistakes(mistakes)),
        }
    }
}

/// The command that repeats a run, without its rate: the arguments that describe the world.
fn replay(words: impl Iterator<Item = String>) -> String {
    const OF_SEARCH: [&str; 7] = [
        "--records",
        "--rate",
        "--seeds",
        "--seed",
        "--resolution",
        "--threads",
        "--html",
    ];
    let mut kept = vec!["simulate".to_owned(), "run".to_owned()];
    let mut skips = false;
    for word in words.skip(3) {
        let name = word.split('=').next().unwrap_or_default();
        let is_of_search = OF_SEARCH.contains(&name);
        if !skips && !is_of_search && word != "--brief" && word != "--json" {
            kept.push(word.clone());
        }
        skips = is_of_search && !word.contains('=');
    }
    command_line(kept)
}

#[cfg(test)]
mod tests {
    #[test]
    fn replay_repeats_world_of_search() {
        let typed = "headlong simulate search youtube-sd --rate 5MiB/s --seeds=3 --memory 1GiB --brief \
                     --threads 2 --engine order=fcfs";
        let words = typed.split_whitespace().map(str::to_owned);
        assert_eq!(
            super::replay(words),
            "headlong simulate run youtube-sd --memory 1GiB --engine order=fcfs"
        );
    }
}
