//! The paper's SSDs (Table 2): their rates with small requests, and their latencies with small and
//! large writes (Figures 1 to 3), by the probe of `headlong disk probe` on modelled drives.

use headlong_drive::{
    Direction, DriveSpec, FlashReadSpec, FlashWriteSpec, Mapping, Request, SECTOR_BYTES,
    SolidStateSpec, closed_loop, random_rate,
};
use headlong_random::Generator;
use headlong_survey::probe::{BlockSize, WritePlan, find_block_size};
use headlong_units::Instant;
use headlong_vdisk::ModelTarget;
use serde::Serialize;

const MEGABYTE: u64 = 1_000_000;
const SMALL_BYTES: u64 = 4_096;
const READS: u64 = 20_000;
const WRITES: u64 = 4_000;
/// A drive of this size represents the whole one: it only has to be full.
const SMALL_DRIVE_BYTES: u64 = 8 << 30;

/// SSD B, the OCZ Core V2 of this repository's presets.
pub(super) fn ssd_b() -> DriveSpec {
    headlong_drive::preset("ssd-ocz-core-v2").expect("a preset of this repository")
}

/// SSD A, the Intel X25-M: fitted to the two figures of Table 2 only.
pub(super) fn ssd_a() -> DriveSpec {
    DriveSpec::SolidState(SolidStateSpec {
        name: "intel-x25-m-like".to_owned(),
        sources: "flashstream (MM 2013) Table 2: 4 KB reads 15.5 MB/s, 4 KB writes 3.25 MB/s. \
                  Fitted to them: page time and copy rate. Synthetic: everything else."
            .to_owned(),
        capacity_bytes: 80_000 * MEGABYTE,
        queue_depth: 32,
        command_overhead_us: 20,
        interface_bytes_per_s: 280 * MEGABYTE,
        read: FlashReadSpec {
            lanes: 10,
            page_bytes: 4_096,
            page_us: 228,
            bytes_per_s: 250 * MEGABYTE,
            behind_write_us: 400,
        },
        write: FlashWriteSpec {
            bytes_per_s: 80 * MEGABYTE,
            tiers: Vec::new(),
            tiers_emptied_bytes_per_s: 0,
            buffer_bytes: 0,
            copy_bytes_per_s: 24 * MEGABYTE,
            erase_us: 2_000,
        },
        mapping: Mapping::Pages {
            unit_bytes: 4_096,
            superblock_bytes: 64 << 20,
            over_provisioning: 0.07,
            is_spread: true,
        },
    })
}

/// Random 4 KB reads and writes, one at a time, MB/s.
pub(super) fn small_rates(spec: &DriveSpec) -> (f64, f64) {
    let read = random_rate(&mut *spec.build(), SMALL_BYTES, READS, 1) / 1e6;
    let spec = spec.scaled_to(SMALL_DRIVE_BYTES);
    let mut drive = spec.build();
    let write = |from: u64, bytes: u64| Request {
        sector: from / SECTOR_BYTES,
        sectors: (bytes / SECTOR_BYTES) as u32,
        direction: Direction::Write,
    };
    let fill = (0..SMALL_DRIVE_BYTES >> 20).map(|index| write(index << 20, 1 << 20));
    let filled = closed_loop(&mut *drive, Instant::ZERO, 1, fill, |_| ());
    let places = SMALL_DRIVE_BYTES / SMALL_BYTES;
    let mut chance = Generator::new(1);
    // A page-mapping drive has spare flash, which must be used up first.
    let settling = match spec {
        DriveSpec::SolidState(SolidStateSpec {
            mapping: Mapping::Pages { .. },
            ..
        }) => places / 2,
        _ => 0,
    };
    let mut any = |count: u64| -> Vec<Request> {
        let places = (0..count).map(|_| chance.below(places) * SMALL_BYTES);
        places.map(|place| write(place, SMALL_BYTES)).collect()
    };
    let settled = closed_loop(&mut *drive, filled.ended, 1, any(settling), |_| ());
    let written = closed_loop(&mut *drive, settled.ended, 1, any(WRITES), |_| ());
    (read, written.bytes_per_s() / 1e6)
}

/// A drive of this size represents the whole one: it only has to be full.
const DRIVE_BYTES: u64 = 32 << 30;
/// Presets whose optimal block size is measured in addition to that of SSD B.
const OTHERS: [&str; 2] = ["ssd-sata-low-end", "ssd-nvme-data-centre"];

/// Latencies of one size, seconds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct SizeLatencies {
    pub(super) bytes: u64,
    pub(super) sequential_s: Vec<f64>,
    pub(super) random_s: Vec<f64>,
    pub(super) divergence: f64,
}

/// Results of the block sizes of one drive.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct BlockSizeResults {
    pub(super) drive: String,
    /// Block size in MiB and divergence in nats.
    pub(super) divergences: Vec<(f64, f64)>,
    pub(super) optimal_mib: Option<f64>,
}

/// Rates of small requests of one SSD, MB/s.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct SmallRequestRates {
    pub(super) drive: String,
    pub(super) read_mb_s: f64,
    pub(super) written_mb_s: f64,
}

/// All figures.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct SsdFigures {
    pub(super) small: Vec<SmallRequestRates>,
    /// SSD B with 8 and with 16 MiB (Figures 1 and 2).
    pub(super) latencies: Vec<SizeLatencies>,
    pub(super) blocks: Vec<BlockSizeResults>,
}

/// Measures them; a quick run leaves out the SSDs that are not in the paper.
pub(super) fn figures(is_quick: bool) -> SsdFigures {
    let small = [ssd_a(), ssd_b()].map(|spec| {
        let (read_mb_s, written_mb_s) = small_rates(&spec);
        SmallRequestRates {
            drive: spec.name().to_owned(),
            read_mb_s,
            written_mb_s,
        }
    });
    let mut latencies = Vec::new();
    let mut blocks = Vec::new();
    let others = OTHERS.iter().filter(|_| !is_quick);
    let others = others.filter_map(|name| headlong_drive::preset(name).ok());
    for spec in [ssd_b()].into_iter().chain(others) {
        let (sizes, optimal) = block_sizes(&spec);
        if blocks.is_empty() {
            let shown = sizes
                .iter()
                .filter(|size| [8 << 20, 16 << 20].contains(&size.bytes));
            latencies.extend(shown.map(|size| SizeLatencies {
                bytes: size.bytes,
                sequential_s: size.sequential_s.clone(),
                random_s: size.random_s.clone(),
                divergence: size.divergence,
            }));
        }
        let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        blocks.push(BlockSizeResults {
            drive: spec.name().to_owned(),
            divergences: sizes
                .iter()
                .map(|size| (mib(size.bytes), size.divergence))
                .collect(),
            optimal_mib: optimal.map(mib),
        });
    }
    SsdFigures {
        small: small.into(),
        latencies,
        blocks,
    }
}

fn block_sizes(spec: &DriveSpec) -> (Vec<BlockSize>, Option<u64>) {
    let mut target = ModelTarget::new(&spec.scaled_to(DRIVE_BYTES));
    let plan = WritePlan::of_paper(DRIVE_BYTES);
    // A modelled drive accepts all requests within its size.
    match find_block_size(&mut target, spec.name(), &plan, &mut |_| {}) {
        Ok(found) => (found.sizes, found.optimal_bytes),
        Err(_) => (Vec::new(), None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_request_rates_match_table_2() {
        for (spec, published) in [(ssd_a(), (15.5, 3.25)), (ssd_b(), (14.8, 0.02))] {
            assert!(spec.check().is_ok());
            let (read, written) = small_rates(&spec);
            println!("{}: {read:.2} {written:.3}", spec.name());
            let near = |ours: f64, theirs: f64| (ours / theirs - 1.0).abs() < 0.1;
            assert!(near(read, published.0) && near(written, published.1));
        }
    }
}
