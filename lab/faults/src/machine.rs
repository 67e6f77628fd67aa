//! The hardware of a world: disks with their titles and settings, and SSDs.

use headlong_engine::EngineConfig;
use headlong_units::{BitRate, Duration};

use crate::profile::Distributions;
use crate::random_source::RandomSource;
use crate::settings;

/// One disk.
#[derive(Debug, Clone)]
pub(crate) struct DiskPlan {
    pub(crate) engine: EngineConfig,
    pub(crate) position_time: Duration,
    pub(crate) rate: BitRate,
    pub(crate) titles: Vec<TitlePlan>,
    /// Resolution of its file system's timestamps, nanoseconds.
    pub(crate) tick_ns: u64,
}

/// One title.
#[derive(Debug, Clone)]
pub(crate) struct TitlePlan {
    /// Sizes of its files, in playing order.
    pub(crate) sizes: Vec<u64>,
    pub(crate) bit_rate: Option<BitRate>,
    /// Whether the disk reports the position of its files.
    pub(crate) is_placed: bool,
}

/// One SSD.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SsdPlan {
    /// Shortest times of a read and a write, microseconds.
    pub(crate) read_us: u64,
    pub(crate) write_us: u64,
    /// Blocks of each disk, and the first block of the first disk.
    pub(crate) disk_blocks: u32,
    pub(crate) first_block: u32,
}

/// A random disk.
pub(crate) fn disk_plan(
    mut draw: RandomSource,
    piece_bytes: u64,
    has_tier: bool,
    lean: &Distributions,
) -> DiskPlan {
    let titles = (0..draw.between(1, 4)).map(|_| title_plan(&mut draw, piece_bytes, lean));
    let titles = titles.collect();
    let (most, most_with_tier) = lean.slots_max;
    let slots_max = if has_tier { most_with_tier } else { most };
    DiskPlan {
        titles,
        position_time: Duration::from_micros(draw.scaled(100, 20_000)),
        rate: BitRate(8 * draw.scaled(10_000_000, 200_000_000)),
        tick_ns: draw.pick(&[1, 1, 10_000_000, 1_000_000_000]),
        engine: settings::engine(&mut draw, piece_bytes, slots_max, lean.settings_max),
    }
}

fn title_plan(draw: &mut RandomSource, piece_bytes: u64, lean: &Distributions) -> TitlePlan {
    let size = |draw: &mut RandomSource| match draw.between(0, 9) {
        0 => draw.between(0, 2),
        1 => piece_bytes * draw.between(1, 4),
        2 | 3 => draw.between(1, 3 * piece_bytes),
        _ => draw.scaled(piece_bytes, 24 * piece_bytes),
    };
    let evened = |size: u64| match lean.has_whole_pieces {
        true => size.next_multiple_of(piece_bytes),
        false => size,
    };
    let parts = draw.pick(lean.parts);
    TitlePlan {
        sizes: (0..parts).map(|_| evened(size(draw))).collect(),
        bit_rate: draw
            .percent(60)
            .then(|| BitRate::from_kbps(draw.scaled(100, 8000))),
        is_placed: draw.percent(80),
    }
}
