//! Lifecycle of a mount.
//!
//! Everything that can fail at start fails before the kernel mounts. At the end the mount is
//! removed first: later reads get data or an error, and no program waits for a dead process.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use fuser::{BackgroundSession, Config, MountOption, Session, SessionACL};
use headlong_config::Mistakes;
use headlong_kernel::descriptors::raise_limit;
use headlong_library::{MountedRoot, inspect_roots};
use headlong_serve::devices;
use headlong_serve::service_manager::{self, NotifyState};
use headlong_storage::{Device, StartError};
use headlong_telemetry::{DaemonLogError, init_daemon_log};
use headlong_units::KIB;
use rustix::fs::{getxattr, major, minor};
use tokio::runtime::{Handle, Runtime};
use tokio::signal::unix::{SignalKind, signal};

use crate::cache_trimming::CacheTrimmer;
use crate::cleanup_process::CleanupProcess;
use crate::disks::Disks;
use crate::filesystem::{Caching, HeadlongFilesystem};
use crate::handles::Handles;
use crate::invalidation::PendingInvalidations;
use crate::io_mode::IoModePolicy;
use crate::nodes::Nodes;
use crate::open::FileOpener;
use crate::point;
use crate::reads::ReadContext;
use crate::reply_deadline::ReplyDeadlines;
use crate::settings::Settings;
use crate::status::{ATTRIBUTE, StatusSources};
use crate::titles::Titles;
use crate::tree::Tree;

/// How long programs with open files may continue after the mount is removed.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);
/// Interval of checks for an external unmount.
const LOOK_INTERVAL: Duration = Duration::from_millis(200);
/// Threads that receive FUSE requests.
const THREADS_MAX: usize = 8;

/// Why mounting failed.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The settings do not fit the devices.
    #[error("{0}")]
    Settings(#[from] Mistakes),
    /// The tree cannot be opened.
    #[error("{path}: {error}; let this user read it, and use Linux 5.6 or newer")]
    Tree {
        /// Its path.
        path: String,
        /// The error of the kernel.
        error: io::Error,
    },
    /// A device cannot be started.
    #[error(transparent)]
    Device(#[from] StartError),
    /// The log cannot be set up.
    #[error(transparent)]
    Log(#[from] DaemonLogError),
    /// The kernel rejects the mount.
    #[error(
        "cannot mount at {path}: {error}; an ordinary user needs fusermount3 (Debian: fuse3), and \
         user_allow_other in /etc/fuse.conf or allow_other = false"
    )]
    Mount {
        /// The mount point.
        path: String,
        /// The error of the kernel.
        error: io::Error,
    },
    /// Threads, signals or processes are unavailable.
    #[error("cannot start: {0}; raise the resource limits of the process")]
    System(#[from] io::Error),
}

/// Mounts and serves until SIGTERM, SIGINT or an unmount. `settings` come from [`Settings::load`].
///
/// # Errors
/// Why it did not start.
pub fn run(settings: &Settings) -> Result<(), RunError> {
    let log = init_daemon_log(settings.disks.log.level.name())?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let result = mount(settings, &runtime);
    // A hung disk must not keep the process alive.
    runtime.shutdown_background();
    log.flush();
    result
}

fn mount(settings: &Settings, runtime: &Runtime) -> Result<(), RunError> {
    let _within = runtime.enter();
    let (mut told_to_end, mut interrupted) = (
        signal(SignalKind::terminate())?,
        signal(SignalKind::interrupt())?,
    );
    raise_limit();
    if let Some(warning) = settings.memory_warning() {
        tracing::warn!("{warning}");
    }
    let devices = start_devices(settings)?;
    let (mounted, parts) = file_system(settings, devices, runtime.handle())?;
    let point = &settings.mount_point;
    let keeper = CleanupProcess::start(point)?;
    let wrong = |error: io::Error| RunError::Mount {
        path: point.display().to_string(),
        // The message of fusermount3 is a whole line.
        error: io::Error::new(error.kind(), error.to_string().trim().to_owned()),
    };
    let session = Session::new(mounted, point, &options(settings)).map_err(wrong)?;
    let kernel = session.notifier();
    let session = session.spawn()?;
    parts.stale.start(kernel)?;
    set_read_ahead(point, settings.read_ahead_bytes);
    tracing::info!(
        directory = %settings.directory.display(),
        mount_point = %point.display(),
        "mounted"
    );
    service_manager::notify(&[NotifyState::Ready]);
    let alive = runtime.spawn(keep_alive(point.clone()));
    runtime.block_on(async {
        let unmounted = async {
            while !session.guard.is_finished() {
                tokio::time::sleep(LOOK_INTERVAL).await;
            }
        };
        tokio::select! {
            _ = told_to_end.recv() => {}
            _ = interrupted.recv() => {}
            () = unmounted => tracing::info!("unmounted by another process"),
        }
    });
    alive.abort();
    service_manager::notify(&[NotifyState::Stopping]);
    stop(point, session);
    parts.stale.end();
    runtime.block_on(shut_down(&parts.disks));
    keeper.finish();
    tracing::info!("stopped");
    Ok(())
}

/// Notifies the service manager while the mount responds to a status request through the kernel, as
/// `--status` sends it. Disks are not queried: a hung one is no reason to end reads of the others.
async fn keep_alive(point: PathBuf) {
    service_manager::keep_alive(|| {
        let point = point.clone();
        let ask = move || getxattr(&point, ATTRIBUTE, &mut [0_u8; 0]);
        let asked = tokio::task::spawn_blocking(ask);
        // An error is a response, too.
        async { drop(asked.await) }
    })
    .await;
}

/// Starts an engine for each device that the tree lies on.
fn start_devices(settings: &Settings) -> Result<Vec<Device>, RunError> {
    let seen = inspect_roots(&[MountedRoot::at("", &settings.directory)], 0);
    let infos = match seen {
        Ok(seen) => seen.devices,
        Err(errors) => {
            let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
            return Err(tree_error(settings, io::Error::other(texts.join("; "))));
        }
    };
    let disks = &settings.disks;
    let engines = devices::engines(disks, &infos, true)?;
    let open_files_max = disks.open_files_max as usize;
    Ok(devices::start(disks, infos, engines, None, open_files_max)?)
}

fn tree_error(settings: &Settings, error: io::Error) -> RunError {
    RunError::Tree {
        path: settings.directory.display().to_string(),
        error,
    }
}

/// The parts of a mount needed at its end.
struct MountHandles {
    disks: Arc<Disks>,
    stale: Arc<PendingInvalidations>,
}

fn file_system(
    settings: &Settings,
    devices: Vec<Device>,
    runtime: &Handle,
) -> Result<(HeadlongFilesystem, MountHandles), RunError> {
    let scale = settings.disks.time_scale();
    let caching = Caching {
        revalidate: scale.wall(settings.disks.revalidate),
    };
    let directory = &settings.directory;
    let tree = Tree::open(directory).map_err(|error| tree_error(settings, error))?;
    let root = tree.attributes(Path::new("."));
    let root = root.map_err(|error| tree_error(settings, error.into()))?;
    let tree = Arc::new(tree);
    let nodes = Arc::new(Nodes::new(&root));
    let disks = Disks::new(
        devices,
        directory,
        tree.folder(),
        root.key.dev,
        settings.small_files_ahead,
    )?;
    let (disks, stale) = (Arc::new(disks), Arc::<PendingInvalidations>::default());
    let behind = CacheTrimmer::new(settings.passed_bytes_max(), settings.read_ahead_bytes);
    let behind = Arc::new(behind);
    let late = Arc::new(ReplyDeadlines::start(
        scale.wall(settings.disks.engine.wait_timeout),
    )?);
    let opening = Arc::new(FileOpener {
        tree: Arc::clone(&tree),
        nodes: Arc::clone(&nodes),
        places: Arc::clone(&disks.places),
        stale: Arc::clone(&stale),
        behind: Arc::clone(&behind),
        manners: IoModePolicy::new(settings.pages()),
        titles: Titles::default(),
        follows: headlong_walk::RunHistory::default(),
        chunks_ahead: settings.chunk_files_ahead,
        beneath: disks.beneath.clone(),
        streams: AtomicU64::new(1),
        readers: AtomicU64::new(1),
    });
    let reading = Arc::new(ReadContext {
        runtime: runtime.clone(),
        late: Arc::clone(&late),
        opening: Arc::clone(&opening),
        revalidate: caching.revalidate,
    });
    let (files, folders) = (Arc::new(Handles::new()), Arc::new(Handles::new()));
    let status = Arc::new(StatusSources {
        runtime: runtime.clone(),
        disks: Arc::clone(&disks),
        nodes: Arc::clone(&nodes),
        files: Arc::clone(&files),
        folders: Arc::clone(&folders),
        opening: Arc::clone(&opening),
        directory: directory.display().to_string(),
        started: Instant::now(),
    });
    let parts = MountHandles {
        disks: Arc::clone(&disks),
        stale,
    };
    let mounted = HeadlongFilesystem {
        tree,
        nodes,
        disks,
        late,
        opening,
        reading,
        files,
        folders,
        status,
        caching,
    };
    Ok((mounted, parts))
}

fn options(settings: &Settings) -> Config {
    let name = settings.directory.to_string_lossy();
    // A comma would end the mount option.
    let name = format!("{}{}", point::SOURCE, name.replace([',', '\\'], "_"));
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    let mut config = Config::default();
    config.mount_options = vec![
        MountOption::FSName(name),
        MountOption::RO,
        MountOption::NoSuid,
        MountOption::NoDev,
        MountOption::DefaultPermissions,
    ];
    config.acl = match settings.allow_other {
        true => SessionACL::All,
        false => SessionACL::Owner,
    };
    config.n_threads = Some(threads.clamp(2, THREADS_MAX));
    config.clone_fd = true;
    config
}

/// Sets the kernel's readahead above the mount.
fn set_read_ahead(point: &Path, bytes: u64) {
    let Some(number) = point::number_mounted(point) else {
        return;
    };
    let (major, minor) = (major(number), minor(number));
    let file = format!("/sys/class/bdi/{major}:{minor}/read_ahead_kb");
    if let Err(error) = fs::write(&file, (bytes / KIB).to_string()) {
        tracing::info!(%error, "cannot set read_ahead: the kernel reads 128 KiB ahead of programs");
    }
}

/// Unmounts, and gives programs with open files time to close them.
fn stop(point: &Path, session: BackgroundSession) {
    if !session.guard.is_finished()
        && let Err(error) = point::detach(point)
    {
        tracing::warn!(%error, "cannot unmount; the mount ends with this process");
    }
    let end = Instant::now() + STOP_TIMEOUT;
    while !session.guard.is_finished() && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(10));
    }
    if !session.guard.is_finished() {
        tracing::info!("programs still have open files; their reads fail when this process ends");
    }
    // Dropping the session would unmount whatever is at that path by then.
    std::mem::forget(session);
}

async fn shut_down(disks: &Disks) {
    let mut stopping = tokio::task::JoinSet::new();
    for device in disks.devices().to_vec() {
        stopping.spawn(async move { device.shutdown().await });
    }
    while stopping.join_next().await.is_some() {}
}
