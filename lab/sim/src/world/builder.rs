//! Builds the server of a world and its disks from the setup.

use headlong_drive::{Drive, SECTOR_BYTES};
use headlong_engine::{EngineConfig, Shard};

use crate::device::Device;
use crate::disk::Disk;
use crate::disk_server::DiskServer;
use crate::layout::{Disks, Layout};
use crate::origin::Origin;
use crate::server::Server;
use crate::setup::{ServerKind, Setup, SetupError};
use crate::tier::Tier;
use crate::vanilla::Vanilla;

/// The disks for the files. The smallest drive determines the capacity.
pub(super) fn disks_of(drives: &[Box<dyn Drive>], setup: &Setup) -> Disks {
    let sectors = drives.iter().map(|drive| drive.capacity_sectors()).min();
    Disks {
        count: drives.len() as u32,
        capacity_bytes: sectors.unwrap_or(0) * SECTOR_BYTES,
        placement: setup.placement,
    }
}

/// The server, with its disks.
pub(super) fn origin(
    setup: &Setup,
    layout: Layout,
    drives: Vec<Box<dyn Drive>>,
) -> Result<Box<dyn Origin>, SetupError> {
    let count = drives.len() as u64;
    let device = |drive| Device::new(drive, setup.queue_depth, setup.turnaround);
    let mut devices = drives.into_iter().map(device);
    Ok(match &setup.server {
        ServerKind::Headlong if count == 0 => return Err(SetupError::NoDisk),
        ServerKind::Headlong => {
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
            let tier = tier.map(|of| Tier::new(count as u32, piece_bytes, of, is_restarted));
            let disks = (0..).zip(shards.into_iter().zip(devices));
            let disks = disks.map(|(number, (shard, device))| {
                let disk = Disk::new(device, setup.request_bytes_max, setup.cold_open);
                DiskServer::new(number, shard, disk)
            });
            let tier = tier.transpose()?;
            Box::new(Server::new(disks.collect(), tier, layout, setup)?)
        }
        ServerKind::Vanilla(vanilla) => match (devices.next(), devices.next()) {
            (Some(device), None) => Box::new(Vanilla::new(vanilla, layout, device)),
            (None, _) => return Err(SetupError::NoDisk),
            _ => return Err(SetupError::OneDisk("a vanilla server")),
        },
    })
}
