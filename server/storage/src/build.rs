//! Builds everything that a device thread owns: at start-up, and for each restart of the device.

use std::sync::Arc;

use headlong_engine::{ConfigError, EngineConfig, Shard};
use headlong_kernel::raw::{Pool, SendfileCacheSize};
use headlong_units::Bytes;

use super::copier::Copier;
use super::device_config::DeviceConfig;
use super::device_flags::DeviceFlags;
use super::engine::{DeviceProperties, EngineParts};
use super::io::IoParts;
use super::link::Link;
use super::mailbox::{Mailbox, Waker};
use super::message::DeviceMessage;
use super::opener::Opener;
use super::start_error::StartError;
use super::start_io::start_io;
use super::supervise::DeviceThreadStart;
use super::thread::DeviceThread;
use crate::flash::FlashSource;

/// Builds everything that a device thread owns.
pub(super) fn make(
    config: &DeviceConfig,
    engine: EngineConfig,
    flags: Arc<DeviceFlags>,
) -> Result<DeviceThreadStart, StartError> {
    let name = &config.name;
    let wrong = |error| StartError::Config {
        name: name.clone(),
        error,
    };
    engine
        .check()
        .next()
        .map_or(Ok(()), |error| Err(wrong(error)))?;
    let short = |error| StartError::Threads {
        name: name.clone(),
        error,
    };
    let slot_count = u32::try_from(engine.slot_count()).map_err(|_| wrong(ConfigError::Memory))?;
    let no_memory = |error| StartError::Memory {
        name: name.clone(),
        memory: Bytes(engine.memory_bytes),
        error,
    };
    let hot = SendfileCacheSize::of(config.hot_bytes);
    let pool = Pool::with_sendfile_cache(slot_count, engine.piece_bytes as usize, hot)
        .map_err(no_memory)?;
    if config.memory_prefault {
        pool.prefault().map_err(no_memory)?;
    }
    // After the pool, so that the shard's tables are sized only for memory that exists.
    let mut shard = Shard::new(engine).map_err(wrong)?;
    let told = config.learned.as_deref();
    if let Some(told) = told {
        shard.restore_measurements(headlong_units::Instant::ZERO, &told.learned);
    }
    let waker = Waker::new().map_err(short)?;
    let mailbox = Mailbox::new(Arc::clone(&waker));
    let completions = Mailbox::new(Arc::clone(&waker));
    let opener = Opener::new(name).map_err(short)?;
    let parts = IoParts {
        opener: Arc::clone(&opener),
        waker,
        completions: Arc::clone(&completions),
    };
    let io = start_io(config.io, engine.outstanding_reads_max, parts).map_err(|error| {
        StartError::IoUring {
            name: name.clone(),
            error,
        }
    })?;
    let identity = DeviceProperties {
        name: name.clone(),
        roots: config.roots.clone(),
        rotational: config.rotational,
        capacity_bytes: config.capacity_bytes,
    };
    let keeper = match pool.has_hot() {
        true => Some(Copier::start(name).map_err(short)?),
        false => None,
    };
    let memory = Arc::downgrade(&pool);
    let flash = config.flash.get().map(|part| {
        let mailbox = Arc::clone(&mailbox);
        let say = Arc::new(move |done| mailbox.post(DeviceMessage::Flash(done)));
        FlashSource { part, say }
    });
    let parts = EngineParts {
        identity,
        flash,
        config: engine,
        time_scale: config.time_scale,
        shard,
        pool,
        opener,
        open_files_max: config.open_files_max,
        io_mode: io.mode(),
        completions,
        flags: Arc::clone(&flags),
        learned: config.learned.clone(),
    };
    Ok(DeviceThreadStart {
        name: name.clone(),
        config: engine,
        flags,
        memory,
        thread: DeviceThread::new(Link::new(parts, mailbox, keeper), io),
    })
}
