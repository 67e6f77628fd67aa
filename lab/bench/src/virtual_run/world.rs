//! Builds a simulated world from a server and a workload.

use std::path::Path;

use headlong_config::{Config, Flags};
use headlong_engine::{Control, Policy};
use headlong_http::Pace;
use headlong_reception::{Mode as ReceptionMode, Settings as ReceptionSettings};
use headlong_sim::{
    AccessMethod, FlashSetup, MeasuredWindow, PageCacheServerSetup, Scheduler, ServerModel,
    TierLayout, VirtualExperiment, WarmContent, WorldSetup,
};
use headlong_units::{Bytes, Duration, Instant, KIB};

use super::{LOOP_REQUEST_KB, NotSimulatable, VirtualBench};
use crate::experiment::{ApacheSettings, ExperimentCell, NginxSettings, ServerKind, specification};
use crate::servers::pool_memory;

/// Read expiry of mq-deadline, in wall time.
const EXPIRES: Duration = Duration::from_millis(500);
/// Largest number of Apache threads that wait for the disk concurrently.
const APACHE_THREADS: u32 = 2048;

impl VirtualBench {
    pub(super) fn world(&self, cell: &ExperimentCell) -> Result<VirtualExperiment, NotSimulatable> {
        let lack = |why: String| NotSimulatable {
            cell: cell.name(),
            why,
        };
        Ok(VirtualExperiment {
            workload: specification(&cell.workload.preset, &cell.changes())
                .map_err(|mistakes| lack(mistakes.join("\n")))?,
            drive: cell.workload.drive.model().map_err(lack)?,
            setup: self.setup(cell).map_err(lack)?,
            steps: Vec::new(),
        })
    }

    /// A wall time, in model time.
    fn on_the_wall(&self, time: Duration) -> Duration {
        time.times(u64::from(self.experiment.time_scale))
    }

    fn setup(&self, cell: &ExperimentCell) -> Result<WorldSetup, String> {
        if cell.workload.drive.drives() > 1 {
            return Err("several drives are not supported".to_owned());
        }
        if cell.server.mount {
            return Err("a mount is not supported".to_owned());
        }
        if self.experiment.climb.is_some() {
            return Err("rising rates within a run ([climb]) are not supported".to_owned());
        }
        if let Some(cache) = cell.server.cache {
            return Err(format!("a cache of {} is not supported", cache.kind.name()));
        }
        if let Some(front) = cell.server.front {
            return Err(format!(
                "a proxy in front ({}) is not supported",
                front.name()
            ));
        }
        let phases = &self.experiment.phases;
        let from = Instant::ZERO + phases.ramp_up;
        // A drive with its own request limit is not limited by a loop device.
        let most = cell
            .workload
            .drive
            .request_kb_max()
            .unwrap_or(LOOP_REQUEST_KB);
        let request_kb = cell.kernel.max_sectors_kb.unwrap_or(most).min(most);
        let request_bytes_max = u64::from(request_kb) * KIB;
        let mut made = WorldSetup {
            request_bytes_max,
            turnaround: self.on_the_wall(self.turnaround),
            window: MeasuredWindow {
                from,
                to: from + phases.measured,
            },
            ramp_down: phases.ramp_down,
            restart: self.experiment.simulation.restart(),
            ..self.experiment.simulation.world.clone()
        };
        match &cell.server.kind {
            ServerKind::Headlong { config } => {
                self.headlong(config, cell, &mut made)?;
            }
            ServerKind::Nginx(_) | ServerKind::Apache(_) if self.reception(cell, &mut made)? => {}
            ServerKind::Nginx(nginx) => {
                let vanilla = self.kernel(cell, request_bytes_max)?;
                made.server = ServerModel::Vanilla(of_nginx(nginx, vanilla)?);
            }
            ServerKind::Apache(apache) => {
                let vanilla = self.kernel(cell, request_bytes_max)?;
                made.server = ServerModel::Vanilla(of_apache(apache, vanilla));
            }
            ServerKind::Command { .. } => {
                return Err("the behaviour of a command is unknown".to_owned());
            }
        }
        Ok(made)
    }

    /// The settings that the server would read from its file.
    fn headlong(
        &self,
        config: &str,
        cell: &ExperimentCell,
        made: &mut WorldSetup,
    ) -> Result<(), String> {
        let simulation = &self.experiment.simulation;
        let mut table: toml::Table = config.parse().unwrap_or_default();
        if let Some(memory) = self.experiment.memory {
            let memory = match simulation.is_memory_whole {
                true => Bytes(memory),
                false => pool_memory(memory),
            };
            table.entry("memory").or_insert(memory.to_string().into());
        }
        if let Some(flash) = &cell.flash {
            flash.add_keys(&mut table);
            // The device is not opened, but some defaults depend on the presence of an SSD.
            table.insert("flash".to_owned(), vec!["/ssd"].into());
            let drive = flash.model()?;
            made.flash = Some(FlashSetup {
                bytes: flash.size_bytes.unwrap_or_else(|| drive.capacity_bytes()),
                drive,
                ssds: simulation.ssds,
                block_bytes: u32::try_from(flash.block_bytes).unwrap_or(u32::MAX),
                is_warm: flash.is_warm,
                content: WarmContent::default(),
            });
        }
        let text = toml::to_string(&table).map_err(|error| error.to_string())?;
        let flags = Flags {
            roots: vec!["/".into()],
            ..Flags::default()
        };
        let config = Config::from_text(Path::new("config"), &text, &flags)
            .map_err(|errors| errors.to_string())?;
        made.engine = config.engine_for("loop0", true, 1);
        for (name, value) in &cell.server.engine {
            headlong_sim::settings::set(&mut made.engine, name, value)?;
        }
        made.pace = Pace {
            percent: config.pacing.pace_percent,
            burst: config.pacing.pace_burst,
            bytes_per_second_max: 0,
        };
        let wrong = made.engine.check();
        let mut wrong: Vec<String> = wrong.map(|error| error.to_string()).collect();
        if let Some(flash) = &made.flash {
            let layout = TierLayout::new(flash.bytes, flash.block_bytes, made.engine.piece_bytes);
            wrong.extend(layout.err().map(|error| format!("flash tier: {error}")));
        }
        match wrong.is_empty() {
            true => Ok(()),
            false => Err(wrong.join("; ")),
        }
    }

    /// A server with the preloaded library: the reception's engine answers the viewers, whose
    /// requests are the server's calls; server, library and page cache take no time. Returns whether
    /// the reception reads for the server.
    fn reception(&self, cell: &ExperimentCell, made: &mut WorldSetup) -> Result<bool, String> {
        if !cell.server.preload {
            return Ok(false);
        }
        let mut keys: toml::Table = cell.server.reader.parse().unwrap_or_default();
        if let Some(memory) = self.experiment.memory {
            let memory = pool_memory(memory).to_string();
            keys.entry("memory").or_insert(memory.into());
        }
        let text = toml::to_string(&keys).map_err(|error| error.to_string())?;
        let settings = ReceptionSettings::from_text("reader", &text, &Default::default());
        let settings = settings.map_err(|mistakes| mistakes.to_string())?;
        if settings.mode == ReceptionMode::Track {
            return Ok(false);
        }
        if cell.kernel.scheduler != "mq-deadline" {
            // Its effect on the reads of a reception is not modelled.
            let scheduler = &cell.kernel.scheduler;
            return Err(format!(
                "preloading with the scheduler {scheduler} is not supported"
            ));
        }
        made.engine = settings.engine.for_device(true);
        made.engine.request_bytes_max = made.request_bytes_max;
        if settings.mode == ReceptionMode::Serialize {
            // Nothing but what a call requests, one read at a time.
            let engine = &mut made.engine;
            engine.control.mode = Control::Off;
            engine.sizing.policy = Policy::Fixed;
            engine.sizing.reference_bytes = engine.piece_bytes;
            engine.outstanding_reads_max = 1;
            engine.ahead_horizon = Duration::ZERO;
        }
        let wrong: Vec<String> = made.engine.check().map(|error| error.to_string()).collect();
        match wrong.is_empty() {
            true => Ok(true),
            false => Err(wrong.join("; ")),
        }
    }

    fn kernel(
        &self,
        cell: &ExperimentCell,
        request_bytes_max: u64,
    ) -> Result<PageCacheServerSetup, String> {
        let scheduler = match cell.kernel.scheduler.as_str() {
            "mq-deadline" => Scheduler::Deadline,
            "none" => Scheduler::None,
            other => return Err(format!("the scheduler {other} is not supported")),
        };
        let usual = self.experiment.simulation.kernel.clone();
        Ok(PageCacheServerSetup {
            memory_bytes: self.experiment.memory.unwrap_or(usual.memory_bytes),
            read_ahead_bytes: u64::from(cell.kernel.read_ahead_kb) * KIB,
            request_bytes_max,
            scheduler,
            expires: self.on_the_wall(EXPIRES),
            ..usual
        })
    }
}

fn of_nginx(
    nginx: &NginxSettings,
    kernel: PageCacheServerSetup,
) -> Result<PageCacheServerSetup, String> {
    if nginx.directio_bytes.is_some() {
        return Err("bypassing the page cache (directio) is not supported".to_owned());
    }
    let buffer = nginx.output_buffers.map_or(32 * KIB, |(_, size)| size);
    Ok(PageCacheServerSetup {
        workers: nginx.workers,
        threads: if nginx.aio_threads { nginx.threads } else { 1 },
        access: match nginx.sendfile {
            true => AccessMethod::Sendfile,
            false => AccessMethod::Read(buffer),
        },
        ..kernel
    })
}

fn of_apache(apache: &ApacheSettings, kernel: PageCacheServerSetup) -> PageCacheServerSetup {
    PageCacheServerSetup {
        workers: 1,
        threads: apache.workers.min(APACHE_THREADS),
        access: match (apache.sendfile, apache.mmap) {
            (true, _) => AccessMethod::Sendfile,
            (false, true) => AccessMethod::Mapped,
            (false, false) => AccessMethod::Read(8 * KIB),
        },
        ..kernel
    }
}
