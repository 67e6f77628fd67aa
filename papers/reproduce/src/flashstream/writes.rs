//! Latencies of the SSDs with small and large writes (Table 2, Figures 1 to 3): the probe of
//! `headlong disk probe` on modelled drives.

use headlong_drive::DriveSpec;
use headlong_survey::probe::{BlockSize, WritePlan, find_block_size};
use headlong_vdisk::ModelTarget;
use serde::Serialize;

use super::ssds::{small_rates, ssd_a, ssd_b};

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
