//! `headlong disk emulate`: an emulated disk in the foreground, until it is stopped.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use headlong_units::Bytes;
use headlong_vdisk::control::StopSignal;
use headlong_vdisk::store::StoreManifest;
use headlong_vdisk::{
    ControlSocket, DiskInfo, DiskOptions, Error, FileOptions, FileSystem, QueueSettings,
    StoreOptions, VirtualDisk,
};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use headlong_bench::drive_spec;

/// Creates a block device with the timing of a modelled drive and a file system on it, and runs it
/// until Ctrl-C, SIGTERM or `headlong disk control SOCKET stop`. Needs root, FUSE and loop devices.
/// However it ends, no mount, device or process remains.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  headlong disk emulate wd-red-wd10efrx --mount /mnt/red
  headlong disk emulate wd-red-wd10efrx --time-scale 5 --store /var/tmp/catalogue --timing off
  headlong disk emulate my-drive.toml --size 50GB --file-system none --json")]
pub(crate) struct EmulateArgs {
    /// A preset's name, or a file that describes a drive (its name ends in .toml)
    #[arg(value_name = "PRESET|FILE.toml")]
    drive: String,
    /// Size of the disk, such as 1TB; the drive is scaled to it, with the same times at the same
    /// part of its addresses [default: the drive's own, or the store's]
    #[arg(long, value_name = "SIZE")]
    size: Option<String>,
    /// Speed-up of the drive over real time
    #[arg(long, value_name = "K", default_value = "1")]
    time_scale: String,
    /// Mount point of its file system [default: a temporary directory of the disk]
    #[arg(long, value_name = "DIR")]
    mount: Option<PathBuf>,
    /// File system to create: ext4, xfs, btrfs, or none for a bare device [default: that of the
    /// store, else ext4]
    #[arg(long, value_name = "NAME")]
    file_system: Option<String>,
    /// Number of files for which ext4 has inodes [default: one for each 8 MiB]
    #[arg(long, value_name = "N")]
    inodes: Option<u64>,
    /// Keep the content in this directory, and start with its content [default: content is
    /// discarded]
    #[arg(long, value_name = "DIR")]
    store: Option<PathBuf>,
    /// Discard the content of the store
    #[arg(long, requires = "store")]
    force_new: bool,
    /// Unix socket to listen on for commands [default: in a temporary directory of the disk]
    #[arg(long, value_name = "PATH")]
    control: Option<PathBuf>,
    /// Largest number of requests in the drive [default: the drive's]
    #[arg(long, value_name = "N")]
    queue_depth: Option<usize>,
    /// The kernel's scheduler for the device: none, mq-deadline, bfq, kyber [default: the kernel's]
    #[arg(long, value_name = "NAME")]
    scheduler: Option<String>,
    /// The kernel's read-ahead on the device, KiB
    #[arg(long, value_name = "KIB", default_value = "128")]
    read_ahead_kb: u32,
    /// Largest request of the kernel, KiB; a loop device takes at most 1280 [default: the kernel's]
    #[arg(long, value_name = "KIB")]
    max_sectors_kb: Option<u32>,
    /// Whether timing is on from the beginning; off is for filling
    #[arg(long, value_name = "on|off", default_value = "on")]
    timing: String,
    /// Write a line for every request to this file
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Print the device, mount point and socket as one JSON object
    #[arg(long)]
    json: bool,
}

/// Runs the disk until it is stopped.
pub(crate) fn emulate(emulating: &EmulateArgs) -> anyhow::Result<()> {
    let stop = StopSignal::default();
    let (options, is_timed) = plan(emulating, stop.clone())?;
    // Before any resource is created: from here on a signal stops the disk instead of killing it.
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
    std::thread::spawn(move || {
        for _ in signals.forever() {
            stop.set();
        }
    });
    let disk = VirtualDisk::start(options)?;
    disk.file().switch_timing(is_timed);
    disk.file().reset_counters();
    if let Some(path) = &emulating.trace {
        disk.file().start_trace(path)?;
    }
    print_ready(&disk.info(), emulating.json);
    disk.wait_for_stop();
    disk.close()?;
    Ok(())
}

/// The validated arguments, and whether timing is on; or all mistakes in them.
fn plan(emulating: &EmulateArgs, stop: StopSignal) -> Result<(DiskOptions, bool), Error> {
    let mut mistakes = EmulateMistakes(Vec::new());
    let kept = match &emulating.store {
        Some(directory) if !emulating.force_new => StoreManifest::read(directory)?,
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
            "--file-system {asked}: the store holds {kept}; use that, or start empty with \
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
    let options = DiskOptions {
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
            Some(path) => ControlSocket::At(path),
            None => ControlSocket::Own,
        }),
        stop,
    };
    Ok((options, is_timed))
}

struct EmulateMistakes(Vec<String>);

impl EmulateMistakes {
    fn add(&mut self, mistake: String) {
        self.0.push(mistake);
    }

    fn take<T>(&mut self, result: Result<T, String>) -> Option<T> {
        result.map_err(|mistake| self.add(mistake)).ok()
    }
}

/// The smallest size for a file system, and the largest that the kernel supports.
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

fn absolute(path: Option<&Path>) -> Result<Option<PathBuf>, Error> {
    let absolute = path.map(std::path::absolute).transpose();
    absolute.map_err(|error| Error::Invalid(vec![error.to_string()]))
}

/// Prints one line when the disk is ready. A write error is ignored.
fn print_ready(info: &DiskInfo, is_json: bool) {
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
