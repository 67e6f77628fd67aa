//! `headlong disk emulate`: a disk in the foreground, until somebody stops it.

use std::io::Write as _;
use std::ops::Range;
use std::path::{Path, PathBuf};

use headlong_drive::DriveSpec;
use headlong_units::Bytes;
use headlong_vdisk::control::StopSignal;
use headlong_vdisk::store::Manifest;
use headlong_vdisk::{
    ControlPlace, Error, Fault, FileOptions, FileSystem, Info, Options, QueueSettings,
    StoreOptions, VirtualDisk,
};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::drive_args::drive_spec;

/// Makes a block device that takes as long as a modelled drive, with a file system on it, and plays
/// it until Ctrl-C, SIGTERM or `headlong disk control SOCKET stop`. Needs root, FUSE and loop
/// devices. Whatever way it ends, no mount, device or process is left.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  headlong disk emulate wd-red-wd10efrx --mount /mnt/red
  headlong disk emulate wd-red-wd10efrx --time-scale 5 --store /var/tmp/catalogue --timing off
  headlong disk emulate my-drive.toml --size 50GB --file-system none --json")]
pub(crate) struct Emulating {
    /// A preset's name, or a file that describes a drive (its name ends in .toml)
    #[arg(value_name = "PRESET|FILE.toml")]
    drive: String,
    /// Size of the disk, such as 1TB; the drive is scaled to it, with the same times at the same
    /// part of its addresses [default: the drive's own, or the store's]
    #[arg(long, value_name = "SIZE")]
    size: Option<String>,
    /// How many times faster than real time the drive works
    #[arg(long, value_name = "K", default_value = "1")]
    time_scale: String,
    /// Where to mount its file system [default: a directory that goes with the disk]
    #[arg(long, value_name = "DIR")]
    mount: Option<PathBuf>,
    /// What to make on it: ext4, xfs, btrfs, or none for a bare device [default: what the store
    /// holds, else ext4]
    #[arg(long, value_name = "NAME")]
    file_system: Option<String>,
    /// How many files ext4 must take [default: one for each 8 MiB]
    #[arg(long, value_name = "N")]
    inodes: Option<u64>,
    /// Keep the content in this directory, and begin with what is there [default: forget it]
    #[arg(long, value_name = "DIR")]
    store: Option<PathBuf>,
    /// Forget what the store holds
    #[arg(long, requires = "store")]
    force_new: bool,
    /// Unix socket to listen on for commands [default: one that goes with the disk]
    #[arg(long, value_name = "PATH")]
    control: Option<PathBuf>,
    /// Most requests in the drive at once [default: as many as it takes]
    #[arg(long, value_name = "N")]
    queue_depth: Option<usize>,
    /// The kernel's scheduler for the device: none, mq-deadline, bfq, kyber [default: the kernel's]
    #[arg(long, value_name = "NAME")]
    scheduler: Option<String>,
    /// The kernel's read-ahead on the device, KiB
    #[arg(long, value_name = "KIB", default_value = "128")]
    read_ahead_kb: u32,
    /// Largest request the kernel makes, KiB; a loop device takes at most 1280 [default: the
    /// kernel's]
    #[arg(long, value_name = "KIB")]
    max_sectors_kb: Option<u32>,
    /// Whether requests take their time from the beginning; off is for filling
    #[arg(long, value_name = "on|off", default_value = "on")]
    timing: String,
    /// Reads that touch these bytes fail, as in 1GiB-1100MiB; may be given several times
    #[arg(long, value_name = "FROM-TO")]
    fail_reads: Vec<String>,
    /// The first read that touches these bytes fails
    #[arg(long, value_name = "FROM-TO")]
    fail_read_once: Vec<String>,
    /// Every request takes this many times as long
    #[arg(long, value_name = "FACTOR")]
    slow_down: Option<f64>,
    /// Write a line for every request into this file
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Say where it is as one JSON object
    #[arg(long)]
    json: bool,
}

/// Plays the disk until it is stopped.
pub(crate) fn emulate(emulating: &Emulating) -> anyhow::Result<()> {
    let stop = StopSignal::default();
    let Plan {
        options,
        faults,
        is_timed,
    } = plan(emulating, stop.clone())?;
    // Before anything is there to be cleaned up: from here on a signal stops, and does not kill.
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
    std::thread::spawn(move || {
        for _ in signals.forever() {
            stop.set();
        }
    });
    let disk = VirtualDisk::start(options)?;
    for fault in faults {
        disk.file().add_fault(fault);
    }
    disk.file().switch_timing(is_timed);
    disk.file().reset_counters();
    if let Some(path) = &emulating.trace {
        disk.file().start_trace(path)?;
    }
    say_ready(&disk.info(), emulating.json);
    disk.wait_for_stop();
    disk.close()?;
    Ok(())
}

struct Plan {
    options: Options,
    faults: Vec<Fault>,
    is_timed: bool,
}

/// Everything that was asked for, or everything that is wrong with it.
fn plan(emulating: &Emulating, stop: StopSignal) -> Result<Plan, Error> {
    let mut mistakes = Mistakes(Vec::new());
    let kept = match &emulating.store {
        Some(directory) if !emulating.force_new => Manifest::read(directory)?,
        _ => None,
    };
    let spec = mistakes.take(drive_spec(&emulating.drive));
    let size = emulating.size.as_deref().map(|text| {
        text.parse::<Bytes>()
            .map_err(|error| format!("--size: {error}"))
            .and_then(check_size)
    });
    let size = size.and_then(|size| mistakes.take(size));
    let size = size.or(kept.as_ref().map(|kept| kept.capacity_bytes));
    let time_scale = mistakes.take(parse_scale(&emulating.time_scale));
    let is_timed = mistakes.take(match emulating.timing.as_str() {
        "on" => Ok(true),
        "off" => Ok(false),
        other => Err(format!("--timing: `{other}` is neither on nor off")),
    });
    let kept_kind = kept.and_then(|kept| kept.file_system);
    if let (Some(kept), Some(asked)) = (&kept_kind, &emulating.file_system)
        && kept != asked
        && asked != "none"
    {
        mistakes.add(format!(
            "--file-system {asked}: the store holds {kept}; ask for that, or start anew with \
             --force-new"
        ));
    }
    let kind = emulating.file_system.clone().or(kept_kind);
    let kind = kind.unwrap_or_else(|| "ext4".to_owned());
    let file_system = match kind.as_str() {
        "none" => None,
        name => mistakes.take(
            name.parse::<FileSystem>()
                .map_err(|e| format!("--file-system: {e}")),
        ),
    };
    if emulating.queue_depth == Some(0) {
        mistakes.add("--queue-depth 0: the drive must have room for one".to_owned());
    }
    let faults = faults(emulating, &mut mistakes);
    if let Some(size) = size.or(spec.as_ref().map(DriveSpec::capacity_bytes)) {
        let beyond = faults.iter().filter_map(|fault| fault.beyond(size));
        mistakes.0.extend(beyond);
    }
    let (Some(spec), Some(time_scale), Some(is_timed), true) =
        (spec, time_scale, is_timed, mistakes.0.is_empty())
    else {
        return Err(Error::Invalid(mistakes.0));
    };
    let spec = size.map_or_else(|| spec.clone(), |size| spec.scaled_to(size));
    let store = emulating.store.as_ref().map(|directory| StoreOptions {
        directory: directory.clone(),
        drive: spec.name().to_owned(),
        force_new: emulating.force_new,
    });
    let options = Options {
        file: FileOptions {
            drive: spec.build(),
            queue_depth: emulating.queue_depth,
            time_scale,
            store,
        },
        file_system,
        inodes: emulating.inodes,
        mount: absolute(emulating.mount.as_deref())?,
        queue: QueueSettings {
            scheduler: emulating.scheduler.clone(),
            read_ahead_kb: Some(emulating.read_ahead_kb),
            max_sectors_kb: emulating.max_sectors_kb,
            is_rotational: spec.rpm().is_some(),
        },
        control: Some(match absolute(emulating.control.as_deref())? {
            Some(path) => ControlPlace::At(path),
            None => ControlPlace::Own,
        }),
        stop,
    };
    Ok(Plan {
        options,
        faults,
        is_timed,
    })
}

struct Mistakes(Vec<String>);

impl Mistakes {
    fn add(&mut self, mistake: String) {
        self.0.push(mistake);
    }

    fn take<T>(&mut self, result: Result<T, String>) -> Option<T> {
        result.map_err(|mistake| self.add(mistake)).ok()
    }
}

/// Smaller than this no file system fits; larger than this the kernel has no words for it.
fn check_size(Bytes(size): Bytes) -> Result<u64, String> {
    const MIN: u64 = 8 << 20;
    const MAX: u64 = 1 << 60;
    if (MIN..=MAX).contains(&size) {
        Ok(size)
    } else {
        let (min, max) = (Bytes(MIN), Bytes(MAX));
        Err(format!(
            "--size: {} is not between {min} and {max}",
            Bytes(size)
        ))
    }
}

fn parse_scale(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(scale) if (0.001..=1000.0).contains(&scale) => Ok(scale),
        _ => Err(format!(
            "--time-scale: `{text}` is not a number from 0.001 to 1000"
        )),
    }
}

fn faults(emulating: &Emulating, mistakes: &mut Mistakes) -> Vec<Fault> {
    let mut faults = Vec::new();
    let ranges = [
        ("--fail-reads", &emulating.fail_reads, false),
        ("--fail-read-once", &emulating.fail_read_once, true),
    ];
    for (flag, texts, once) in ranges {
        for text in texts {
            let range = parse_range(text).map_err(|error| format!("{flag}: {error}"));
            faults.extend(
                mistakes
                    .take(range)
                    .map(|bytes| Fault::Error { bytes, once }),
            );
        }
    }
    match emulating.slow_down {
        Some(factor) if factor.is_finite() && factor > 0.0 => faults.push(Fault::Slow(factor)),
        Some(factor) => mistakes.add(format!("--slow-down: {factor} is not above 0")),
        None => {}
    }
    faults
}

fn parse_range(text: &str) -> Result<Range<u64>, String> {
    let (from, to) = text
        .split_once('-')
        .ok_or_else(|| format!("`{text}` is no range; write it like 1GiB-1100MiB"))?;
    let parse = |part: &str| part.parse::<Bytes>().map_err(|error| error.to_string());
    let (Bytes(from), Bytes(to)) = (parse(from)?, parse(to)?);
    if from < to {
        Ok(from..to)
    } else {
        Err(format!("`{text}` ends before it begins"))
    }
}

fn absolute(path: Option<&Path>) -> Result<Option<PathBuf>, Error> {
    let absolute = path.map(std::path::absolute).transpose();
    absolute.map_err(|error| Error::Invalid(vec![error.to_string()]))
}

/// One line when it can be used. That nobody reads it is no reason to stop.
fn say_ready(info: &Info, is_json: bool) {
    let line = if is_json {
        let mut line = serde_json::to_value(info).unwrap_or_default();
        line["ready"] = true.into();
        line.to_string()
    } else {
        let mount = info.mount.as_ref().map_or_else(String::new, |point| {
            let kind = info.file_system.as_deref().unwrap_or_default();
            format!(" with {kind} at {}", point.display())
        });
        let control = info.control.as_ref().map_or_else(String::new, |path| {
            format!("; headlong disk control {} stop", path.display())
        });
        format!(
            "ready: {}, {}{mount}, time scale {}{control}",
            info.device.display(),
            Bytes(info.capacity_bytes),
            info.time_scale
        )
    };
    let mut stdout = std::io::stdout().lock();
    let _ = writeln!(stdout, "{line}").and_then(|()| stdout.flush());
}
