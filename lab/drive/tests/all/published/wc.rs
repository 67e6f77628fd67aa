//! Thesis Table 3.4: `wc` reads a catalogue, titles in random order, in files of three sizes, at
//! low and at high addresses of the HP drive.
//!
//! The drive is that of libception's Table 1 and is not fitted to these figures. The cost of the
//! file system is specified separately, as a number of visits: short reads in the same cylinder
//! group (an inode, an indirect block, a bitmap), for which the head leaves the file and returns.
//! The number of visits is not published. One for a file of 0.5 MB, two for one of 2 MB and three
//! for a whole title is what the low addresses suggest; the high addresses and all times then
//! follow without any further choice.

use headlong_drive::{Direction, Request, SECTOR_BYTES, closed_loop};
use headlong_random::Generator;
use headlong_units::Instant;

use super::PublishedFigure;
use super::spinning::spec;

/// Mean size of a title (thesis 3.2.1: 13 MB).
const TITLE_BYTES: u64 = 12_900_000;
/// Distinct titles in 7,200 sessions, a third of which hit the cache (thesis 3.2.1).
const TITLES: u64 = 4_680;
/// FreeBSD's largest transaction (libception section 5: reads are split at 128 KB).
const TRANSACTION_BYTES: u64 = 128 << 10;
/// A block of UFS: the size of a visit.
const BLOCK_BYTES: u64 = 16 << 10;
/// Half a cylinder group of UFS2 with blocks of 16 KB: the distance of a visit.
const VISIT_DISTANCE_BYTES: u64 = 94 << 20;
/// Titles read: enough for a mean accurate to one percent.
const TITLES_READ: usize = 600;

/// One of the six file sets.
#[derive(Debug, Clone, Copy)]
struct FileSet {
    /// Its name in the table.
    name: &'static str,
    /// Bytes of a file.
    file_bytes: u64,
    /// Whether it is at the end of the drive.
    is_high: bool,
    /// Visits per file.
    visits: u64,
    /// MB/s in the table.
    published: f64,
}

/// The table.
fn file_sets() -> [FileSet; 6] {
    let set = |name, file_bytes, is_high, visits, published| FileSet {
        name,
        file_bytes,
        is_high,
        visits,
        published,
    };
    [
        set("low, unchunked", TITLE_BYTES, false, 3, 94.90),
        set("low, 2 MB chunks", 2_000_000, false, 2, 57.33),
        set("low, 0.5 MB chunks", 500_000, false, 1, 34.84),
        set("high, unchunked", TITLE_BYTES, true, 3, 77.66),
        set("high, 2 MB chunks", 2_000_000, true, 2, 50.02),
        set("high, 0.5 MB chunks", 500_000, true, 1, 31.91),
    ]
}

/// Megabytes per second of `wc` on the modelled drive.
fn wc_rate(set: &FileSet) -> f64 {
    let mut drive = spec("hp-146-10k-sas").build();
    let set_sectors = TITLES * TITLE_BYTES / SECTOR_BYTES;
    let base = if set.is_high {
        drive.capacity_sectors() - set_sectors
    } else {
        // After the cylinder group's own blocks.
        2 * VISIT_DISTANCE_BYTES / SECTOR_BYTES
    };
    let mut order: Vec<u64> = (0..TITLES - 20).collect();
    Generator::new(34).shuffle(&mut order);
    let mut requests = Vec::new();
    for title in order.into_iter().take(TITLES_READ) {
        let start = base + title * TITLE_BYTES / SECTOR_BYTES;
        title_requests(set, start, &mut requests);
    }
    let run = closed_loop(&mut *drive, Instant::ZERO, 1, requests, |_| ());
    (TITLES_READ as u64 * TITLE_BYTES) as f64 / run.elapsed().as_secs_f64() / 1e6
}

/// The files of one title, consecutively.
fn title_requests(set: &FileSet, start: u64, requests: &mut Vec<Request>) {
    let read = |sector: u64, bytes: u64| Request {
        sector,
        sectors: bytes.div_ceil(SECTOR_BYTES) as u32,
        direction: Direction::Read,
    };
    let mut done_bytes = 0;
    while done_bytes < TITLE_BYTES {
        let file_bytes = set.file_bytes.min(TITLE_BYTES - done_bytes);
        // A shorter last file takes its share of the visits.
        let visits = (set.visits * file_bytes).div_ceil(set.file_bytes);
        let (mut in_file, mut visited) = (0, 0);
        while in_file < file_bytes {
            let sector = start + (done_bytes + in_file) / SECTOR_BYTES;
            if in_file * visits >= visited * file_bytes && visited < visits {
                // Not always the same block, which would have a fixed angle.
                let spread = (sector.wrapping_mul(0x9e37_79b9) % 4_096) * 32;
                let away = VISIT_DISTANCE_BYTES / SECTOR_BYTES + spread;
                requests.push(read(sector.saturating_sub(away), BLOCK_BYTES));
                visited += 1;
            }
            let bytes = TRANSACTION_BYTES.min(file_bytes - in_file);
            requests.push(read(sector, bytes));
            in_file += bytes;
        }
        done_bytes += file_bytes;
    }
}

/// The six figures, with the model's results.
pub(crate) fn wc_figures() -> Vec<PublishedFigure> {
    let figure = |set: FileSet| PublishedFigure {
        drive: "hp-146-10k-sas",
        what: format!("{}, MB/s", set.name),
        published: set.published,
        modelled: wc_rate(&set),
        // A file of 0.5 MB took 1.5 ms longer than one visit explains; that difference is not
        // modelled.
        bound: if set.visits == 1 { 0.13 } else { 0.10 },
    };
    file_sets().into_iter().map(figure).collect()
}
