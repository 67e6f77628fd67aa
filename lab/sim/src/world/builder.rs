//! Builds the server of a world and its disks from the setup.

use headlong_drive::{Drive, SECTOR_BYTES};
use headlong_engine::{EngineConfig, Shard};

use crate::device::QueuedDrive;
use crate::disk::SimulatedDisk;
use crate::disk_server::DiskServer;
use crate::layout::{DiskArray, Layout};
use crate::origin::Origin;
use crate::page_cache_server::PageCacheServer;
use crate::server::SimulatedServer;
use crate::setup::{ServerModel, SetupError, WorldSetup};
use crate::tier::SimulatedTier;

/// The disks for the files. The smallest drive determines the capacity.
pub(super) fn disks_of(drives: &[Box<dyn Drive>], setup: &WorldSetup) -> DiskArray {
    let sectors = drives.iter().map(|drive| drive.capacity_sectors()).min();
    DiskArray {
        count: drives.len() as u32,
        capacity_bytes: sectors.unwrap_or(0) * SECTOR_BYTES,
        placement: setup.placement,
    }
}

/// The server, with its disks.
pub(super) fn origin(
    setup: &WorldSetup,
    layout: Layout,
    drives: Vec<Box<dyn Drive>>,
) -> Result<Box<dyn Origin>, SetupError> {
    let count = drives.len() as u64;
    let device = |drive| QueuedDrive::new(drive, setup.queue_depth, setup.turnaround);
    let mut devices = drives.into_iter().map(device);
    Ok(match &setup.server {
        ServerModel::Headlong if count == 0 => return Err(SetupError::NoDisk),
        ServerModel::Headlong => {
            let config = EngineConfig {
                request_bytes_max: setup.request_bytes_max,
                // Divided as in the server.
                memory_bytes: setup.engine.memory_bytes / count,
                ..setup.engine
            };
            let mut shards = Vec::new();
            for _ in 0..count {
                shards.push(Shard::new(config)?);
            }
            let piece_bytes = config.piece_bytes;
            let is_restarted = setup.restart.is_some();
            let tier = setup.flash.as_ref();
            let tier =
                tier.map(|of| SimulatedTier::new(count as u32, piece_bytes, of, is_restarted));
            let disks = (0..).zip(shards.into_iter().zip(devices));
            let disks = disks.map(|(number, (shard, device))| {
                let disk = SimulatedDisk::new(device, setup.request_bytes_max, setup.cold_open);
                DiskServer::new(number, shard, disk)
            });
            let tier = tier.transpose()?;
            Box::new(SimulatedServer::new(disks.collect(), tier, layout, setup)?)
        }
        ServerModel::Vanilla(vanilla) => match (devices.next(), devices.next()) {
            (Some(device), None) => Box::new(PageCacheServer::new(vanilla, layout, device)),
            (None, _) => return Err(SetupError::NoDisk),
            _ => return Err(SetupError::OneDisk("a vanilla server")),
        },
    })
}
