//! Presets of SSDs.

use alloc::string::ToString;
use alloc::vec;

use crate::flash::{FlashReadSpec, FlashWriteSpec, Mapping, SolidStateSpec, WriteTier};
use crate::spec::DriveSpec;

const MEGABYTE: u64 = 1_000_000;
const GIGABYTE: u64 = 1_000_000_000;

pub(super) fn sata_low_end(name: &'static str) -> DriveSpec {
    DriveSpec::SolidState(SolidStateSpec {
        name: name.to_string(),
        sources: "Reading (410 MB/s, 0.13 to 0.18 ms for one sector): a SanDisk SATA SSD of 30 GB seen \
                  by diskinfo (gist dlangille/2f9bac7d). Synthetic: everything about writing, lanes, \
                  and the capacity of 240 GB."
            .to_string(),
        capacity_bytes: 240 * GIGABYTE,
        queue_depth: 32,
        command_overhead_us: 30,
        interface_bytes_per_s: 550 * MEGABYTE,
        read: FlashReadSpec {
            lanes: 8,
            page_bytes: 16_384,
            page_us: 120,
            bytes_per_s: 410 * MEGABYTE,
            behind_write_us: 600,
        },
        write: FlashWriteSpec {
            bytes_per_s: 90 * MEGABYTE,
            tiers: vec![WriteTier {
                bytes: 6 * GIGABYTE,
                bytes_per_s: 380 * MEGABYTE,
            }],
            tiers_emptied_bytes_per_s: 90 * MEGABYTE,
            buffer_bytes: MEGABYTE,
            copy_bytes_per_s: 90 * MEGABYTE,
            erase_us: 5_000,
        },
        mapping: Mapping::Pages {
            unit_bytes: 4_096,
            superblock_bytes: 64 << 20,
            over_provisioning: 0.07,
            is_spread: false,
        },
    })
}

pub(super) fn qlc_consumer(name: &'static str) -> DriveSpec {
    DriveSpec::SolidState(SolidStateSpec {
        name: name.to_string(),
        sources: "530 MB/s for 6 + 72 GB, then 160 MB/s: Samsung 870 QVO 4 TB (kitguru; anandtech \
                  16136). Synthetic: read latency, lanes, buffer, over-provisioning, superblocks, and \
                  that the cache is emptied at the slow rate."
            .to_string(),
        capacity_bytes: 4_000 * GIGABYTE,
        queue_depth: 32,
        command_overhead_us: 20,
        interface_bytes_per_s: 560 * MEGABYTE,
        read: FlashReadSpec {
            lanes: 16,
            page_bytes: 16_384,
            page_us: 110,
            bytes_per_s: 560 * MEGABYTE,
            behind_write_us: 1_500,
        },
        write: FlashWriteSpec {
            bytes_per_s: 160 * MEGABYTE,
            tiers: vec![WriteTier {
                bytes: 78 * GIGABYTE,
                bytes_per_s: 530 * MEGABYTE,
            }],
            tiers_emptied_bytes_per_s: 160 * MEGABYTE,
            buffer_bytes: 4 * MEGABYTE,
            copy_bytes_per_s: 160 * MEGABYTE,
            erase_us: 10_000,
        },
        mapping: Mapping::Pages {
            unit_bytes: 4_096,
            superblock_bytes: 1 << 30,
            over_provisioning: 0.07,
            is_spread: true,
        },
    })
}

pub(super) fn nvme_data_centre(name: &'static str) -> DriveSpec {
    DriveSpec::SolidState(SolidStateSpec {
        name: name.to_string(),
        sources:
            "Intel P4500 2 TB (Lenovo product guide): 4 KB reads 490,000/s at 85 us, 4 KB writes \
                  38,000/s, sequential writes 1.05 GB/s. Derived: 39 lanes (490,000/s x 79 us, the page's part of 85), \
                  over-provisioning 0.08 (the write amplification of 6.7 between the last two). \
                  Synthetic: sequential reads 3.2 GB/s, buffer, superblocks."
                .to_string(),
        capacity_bytes: 2_000 * GIGABYTE,
        queue_depth: 1_024,
        command_overhead_us: 5,
        interface_bytes_per_s: 3_600 * MEGABYTE,
        read: FlashReadSpec {
            lanes: 39,
            page_bytes: 16_384,
            page_us: 79,
            bytes_per_s: 3_200 * MEGABYTE,
            behind_write_us: 30,
        },
        write: FlashWriteSpec {
            bytes_per_s: 1_050 * MEGABYTE,
            tiers: vec![],
            tiers_emptied_bytes_per_s: 0,
            buffer_bytes: 16 * MEGABYTE,
            copy_bytes_per_s: 1_050 * MEGABYTE,
            erase_us: 5_000,
        },
        mapping: Mapping::Pages {
            unit_bytes: 4_096,
            superblock_bytes: 1 << 30,
            over_provisioning: 0.08,
            is_spread: true,
        },
    })
}

pub(super) fn ocz_core_v2(name: &'static str) -> DriveSpec {
    DriveSpec::SolidState(SolidStateSpec {
        name: name.to_string(),
        sources: "4 KB reads 14.8 MB/s, 4 KB writes 0.02 MB/s, spikes of 800 to 1000 ms among random \
                  writes of 8 MB, optimal block 16 MB: flashstream (MM 2013) sections 2 and 3.1. \
                  Derived: blocks of 16 MiB in which order is kept, a copy rate of 82 MB/s (a 4 KB \
                  write that copies such a block at 0.02 MB/s), 8 of them open (8 halves copied make a \
                  spike of that length). Synthetic: sequential 120 MB/s reading and 80 writing, \
                  lanes, erase."
            .to_string(),
        capacity_bytes: 120 * GIGABYTE,
        queue_depth: 1,
        command_overhead_us: 20,
        interface_bytes_per_s: 280 * MEGABYTE,
        read: FlashReadSpec {
            lanes: 8,
            page_bytes: 4_096,
            page_us: 222,
            bytes_per_s: 120 * MEGABYTE,
            behind_write_us: 800,
        },
        write: FlashWriteSpec {
            bytes_per_s: 80 * MEGABYTE,
            tiers: vec![],
            tiers_emptied_bytes_per_s: 0,
            buffer_bytes: 0,
            copy_bytes_per_s: 82 * MEGABYTE,
            erase_us: 1_500,
        },
        mapping: Mapping::Blocks {
            block_bytes: 16 << 20,
            open_blocks: 8,
        },
    })
}
