//! Measures recovery of a tier from its checkpoints, as the server does it: several threads read
//! and decode, one collects the results.
//!
//! `recovery FOLDER [TIER_BYTES [PIECE_BYTES [DISKS [RUN]]]]` creates a sparse file of that nominal
//! size, with checkpoints of a full tier, and removes it at the end. RUN consecutive pieces of a
//! title are contiguous (default 16: 2 MiB). The file is read through the page cache: the result is
//! the cost of processor and memory, to which an SSD adds the time to read the printed number of
//! bytes. Build with optimisation. With several disks, each has its share of the tier and its store
//! on a thread of its own.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant as Clock};

use headlong_flash::format::{
    GROUP_BLOCKS, Layout, ReadFailed, Summary, SummaryHead, SuperRecord, encode_checkpoint,
    padded_bytes, recover,
};
use headlong_flash::{
    BlockId, FileKey, FlashSpec, FlashStore, PieceId, RecordEntry, RecoveredBlock, SsdId, SsdSpec,
    StoreConfig,
};
use headlong_units::Instant;

const BLOCK_BYTES: u64 = 16 << 20;
const TITLE_BYTES: u64 = 1 << 30;
/// As in the server.
const THREADS: u32 = 16;
const GROUPS: u32 = 16;
const PARTS_MAX: usize = 4;

/// Removed on drop.
struct ImageFile(PathBuf);

impl Drop for ImageFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments
        .next()
        .ok_or("recovery FOLDER [TIER [PIECE [DISKS [RUN]]]]")?;
    let mut number = |default: u64| match arguments.next() {
        Some(text) => text.parse(),
        None => Ok(default),
    };
    let (bytes, piece, disks) = (number(4_000_000_000_000)?, number(128 << 10)?, number(1)?);
    let run = number(16)?.max(1) as u32;
    let bytes = bytes / 4096 * 4096;
    let layout = Layout::new(bytes, BLOCK_BYTES, piece)?;
    let tier = SuperRecord { device: 77, layout };
    let image = ImageFile(Path::new(&folder).join("recovery.tier"));
    let file = File::options()
        .read(true)
        .write(true)
        .create_new(true)
        .open(&image.0)?;
    file.set_len(bytes)?;
    let (entries, written) = fill(&file, &tier, run)?;
    println!(
        "{bytes} bytes, {} blocks, {entries} records; {written} bytes of checkpoints",
        layout.block_count()
    );
    for round in 0..3 {
        let disks = disks.max(1) as u32;
        let (start, cpu) = (Clock::now(), processor_seconds());
        let taken: Vec<(u64, [f64; 3])> = std::thread::scope(|scope| {
            let part = |disk: u32| {
                let cut = |of: u32| layout.block_count() / disks * of;
                cut(disk)..if disk + 1 == disks {
                    layout.block_count()
                } else {
                    cut(disk + 1)
                }
            };
            let jobs: Vec<_> = (0..disks)
                .map(|disk| {
                    let (file, tier) = (&file, &tier);
                    scope.spawn(move || take_in(file, tier, part(disk)))
                })
                .collect();
            jobs.into_iter().filter_map(|job| job.join().ok()).collect()
        });
        let seconds = start.elapsed().as_secs_f64();
        let cpu_seconds = processor_seconds() - cpu;
        let records: u64 = taken.iter().map(|(records, _)| records).sum();
        let times = taken.first().map_or([0.0; 3], |(_, times)| *times);
        let [attach, longest, end] = times;
        println!(
            "round {round}: {records} records in {seconds:.2} s, {:.1} million a second; \
             {cpu_seconds:.2} s of processor time; the engine is blocked for {attach:.1} ms, then \
             at most {longest:.1} ms at a time, then {end:.1} ms",
            records as f64 / seconds / 1e6,
        );
    }
    Ok(())
}

/// Processor time of all threads, measured in ticks of 10 ms.
fn processor_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default();
    let ticks = fields.split_whitespace().skip(11).take(2);
    ticks
        .filter_map(|ticks| ticks.parse::<f64>().ok())
        .sum::<f64>()
        / 100.0
}

/// Writes the checkpoints of a tier full of whole pieces; returns their records and bytes.
fn fill(file: &File, tier: &SuperRecord, run_pieces: u32) -> std::io::Result<(u64, u64)> {
    let layout = &tier.layout;
    let per_block = (u64::from(layout.records_end()) / padded_bytes(layout.piece_bytes())) as u32;
    let pieces = (TITLE_BYTES / u64::from(layout.piece_bytes())) as u32;
    let (mut entries, mut written) = (0, 0);
    let mut run = 0_u32;
    for group in 0..layout.group_count() {
        let summary = |block: u32| {
            let entry = |row: u32| {
                if row.is_multiple_of(run_pieces) {
                    run += 1;
                }
                // Titles alternate, as with concurrent viewers.
                let (titles, runs) = (
                    u32::max(layout.block_count() / 64, 1),
                    (pieces / run_pieces).max(1),
                );
                let title = run % titles;
                let piece = (run / titles % runs) * run_pieces + row % run_pieces;
                RecordEntry {
                    offset: row * padded_bytes(layout.piece_bytes()) as u32,
                    piece: PieceId {
                        file: FileKey(
                            u128::from(title).wrapping_mul(0x9e37_79b9_7f4a_7c15_1234_5678),
                        ),
                        piece,
                    },
                    length: layout.piece_bytes(),
                }
            };
            let head = SummaryHead {
                block,
                count: per_block,
                filling: u64::from(block),
                sequence: u64::from(block),
                owner: 1,
                sealed_s: 0,
            };
            let entries = (0..per_block).map(entry).collect();
            Summary { head, entries }
        };
        let summaries: Vec<Summary> = layout.group_blocks(group).map(summary).collect();
        let bytes = encode_checkpoint(group, summaries.iter(), tier.device, layout);
        if let Some((bytes, (at, _))) = bytes.zip(layout.checkpoint_place(group)) {
            file.write_all_at(&bytes, at)?;
            written += bytes.len() as u64;
            entries += summaries.len() as u64 * u64::from(per_block);
        }
    }
    Ok((entries, written))
}

/// Recovers one disk's share. Returns the number of records, and for how many milliseconds the
/// engine would be blocked: at the start, at most by one part of the records, and at the end.
fn take_in(file: &File, tier: &SuperRecord, blocks: Range<u32>) -> (u64, [f64; 3]) {
    let layout = tier.layout;
    let spec = FlashSpec {
        block_bytes: layout.block_bytes(),
        summary_bytes: layout.summary_bytes(),
        records_max: layout.records_max(),
        seal_bytes: layout.checkpoint_bytes() as u32,
        written_bytes: 0,
        is_recovering: true,
        ssds: vec![SsdSpec {
            ssd: SsdId(0),
            blocks: BlockId(blocks.start)..BlockId(blocks.end),
            is_fresh: false,
        }],
    };
    let now = Instant::ZERO;
    let piece_bytes = u64::from(layout.piece_bytes());
    let begun = Clock::now();
    let room = FlashStore::new(now, StoreConfig::default(), piece_bytes, &spec);
    let mut room = room.expect("a layout that fits");
    let attached = begun.elapsed();
    let mut longest = Duration::ZERO;
    let end = blocks.end.div_ceil(GROUP_BLOCKS);
    let next = AtomicU32::new(blocks.start / GROUP_BLOCKS);
    std::thread::scope(|scope| {
        let (give, given) = sync_channel(PARTS_MAX);
        for _ in 0..THREADS {
            let (give, next) = (give.clone(), &next);
            scope.spawn(move || {
                let read =
                    |at: u64, into: &mut [u8]| file.read_exact_at(into, at).map_err(|_| ReadFailed);
                loop {
                    let from = next.fetch_add(GROUPS, Ordering::Relaxed);
                    if from >= end {
                        return;
                    }
                    let found = recover(tier, from..end.min(from + GROUPS), read);
                    if give.send(found.summaries).is_err() {
                        return;
                    }
                }
            });
        }
        drop(give);
        for summaries in given {
            let block = |Summary { head, entries }: Summary| RecoveredBlock {
                block: BlockId(head.block),
                sequence: head.sequence,
                records: entries,
            };
            let own = summaries
                .into_iter()
                .filter(|of| blocks.contains(&of.head.block));
            let found = own.map(block).collect();
            let begun = Clock::now();
            room.recover(now, found);
            longest = longest.max(begun.elapsed());
        }
    });
    let begun = Clock::now();
    room.end_recovery(now, 0, &[]);
    let times = [attached, longest, begun.elapsed()];
    (
        room.view(now).records,
        times.map(|time| time.as_secs_f64() * 1e3),
    )
}
