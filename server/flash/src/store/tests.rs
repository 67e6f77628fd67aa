//! Compares the store with a simple model of an SSD.

use std::collections::BTreeMap;
use std::vec;
use std::vec::Vec;

use proptest::prelude::*;

use super::*;
use crate::spec::{ProbeResult, RecordEntry, RecoveredBlock, SsdSpec};

const PIECE: u64 = 8192;
const BLOCK: u32 = 64 << 10;
const SUMMARY: u32 = 4096;

/// Records staged into each block since it was last dropped, and how far it was written.
#[derive(Debug, Default, Clone)]
struct SsdContent {
    staged: Vec<RecordEntry>,
    written: u32,
    sealed: Option<u64>,
}

struct StoreWorld {
    now: Instant,
    room: FlashStore,
    media: BTreeMap<u32, SsdContent>,
    doing: Vec<StoreCommand>,
    written: Vec<(Instant, u64)>,
    last_sequence: BTreeMap<u32, u64>,
    /// Blocks of each SSD.
    blocks: u32,
}

fn spec(ssds: u32, blocks: u32, is_fresh: bool) -> FlashSpec {
    let ssd = |of: u32| SsdSpec {
        ssd: SsdId(of as u16),
        blocks: BlockId(of * blocks)..BlockId((of + 1) * blocks),
        is_fresh,
    };
    FlashSpec {
        block_bytes: BLOCK,
        summary_bytes: SUMMARY,
        records_max: 5,
        seal_bytes: SUMMARY,
        written_bytes: 0,
        is_recovering: false,
        ssds: (0..ssds).map(ssd).collect(),
    }
}

fn piece(file: u8, piece: u32) -> PieceId {
    PieceId {
        file: FileKey(u128::from(file) << 70),
        piece,
    }
}

impl StoreWorld {
    fn new(config: StoreConfig, spec: &FlashSpec) -> Self {
        Self {
            now: Instant::ZERO,
            room: FlashStore::new(Instant::ZERO, config, PIECE, spec).expect("valid tier"),
            media: BTreeMap::new(),
            doing: Vec::new(),
            written: Vec::new(),
            last_sequence: BTreeMap::new(),
            blocks: spec.ssds[0].blocks.end.0,
        }
    }

    fn offer(&mut self, of: PieceId, length: u32, is_soon: bool) -> bool {
        let Some(place) = self.room.offer(self.now, of, length, is_soon) else {
            return false;
        };
        while let Some(block) = self.room.poll_dropped() {
            self.media.remove(&block.0);
        }
        let media = self.media.entry(place.block.0).or_default();
        let entry = RecordEntry {
            offset: place.offset,
            piece: of,
            length,
        };
        assert!(media.sealed.is_none() && place.offset >= media.written);
        let end = media.staged.last();
        let end = end.map_or(0, |last| last.offset + record_bytes(last.length));
        assert_eq!(place.offset, end, "records are contiguous");
        assert!(place.offset + record_bytes(length) <= BLOCK - SUMMARY);
        media.staged.push(entry);
        true
    }

    fn drain(&mut self) {
        while let Some(command) = self.room.poll_command(self.now) {
            match command {
                StoreCommand::Drop(block) => {
                    self.media.remove(&block.0);
                }
                StoreCommand::Probe(_) => self.doing.push(command),
                StoreCommand::Write { block, from, to } => {
                    assert!(from < to && from % 4096 == 0 && to % 4096 == 0);
                    assert_eq!(from, self.media[&block.0].written);
                    self.count(u64::from(to - from));
                    self.doing.push(command);
                }
                StoreCommand::Seal { block, from, .. } => {
                    let media = &self.media[&block.0];
                    let last = media.staged.last().expect("a sealed block has records");
                    assert_eq!(media.written, last.offset + record_bytes(last.length));
                    assert_eq!(media.written, from);
                    self.count(u64::from(BLOCK - from + SUMMARY));
                    self.doing.push(command);
                }
            }
        }
        self.room.check_invariants();
    }

    fn count(&mut self, bytes: u64) {
        self.written.push((self.now, bytes));
    }

    /// Completes the `nth` pending task of the SSD.
    fn end(&mut self, nth: usize, ok: bool) {
        if self.doing.is_empty() {
            return;
        }
        let command = self.doing.remove(nth % self.doing.len());
        match command {
            StoreCommand::Write { block, to, .. } => {
                if let (Some(media), true) = (self.media.get_mut(&block.0), ok) {
                    media.written = to;
                }
                self.room.handle_written(self.now, block, to, ok);
            }
            StoreCommand::Seal {
                block, sequence, ..
            } => {
                if let (Some(media), true) = (self.media.get_mut(&block.0), ok) {
                    media.sealed = Some(sequence);
                    let ssd = block.0 / self.blocks;
                    let before = self.last_sequence.insert(ssd, sequence);
                    assert!(before.is_none_or(|before| before < sequence));
                }
                self.room.handle_sealed(self.now, block, ok);
            }
            StoreCommand::Probe(ssd) => {
                let probed = ProbeResult {
                    reads: ok,
                    writes: ok,
                    took: None,
                };
                self.room.handle_probed(self.now, ssd, probed);
            }
            StoreCommand::Drop(_) => unreachable!("done at once"),
        }
    }

    /// Checks that every indexed record is on the SSD.
    fn check_media(&self) {
        for file in 0..4 {
            for number in 0..40 {
                let of = piece(file, number);
                let Some((place, length)) = self.room.locate(of) else {
                    continue;
                };
                let media = self.media.get(&place.block.0).expect("of a block in use");
                let entry = RecordEntry {
                    offset: place.offset,
                    piece: of,
                    length,
                };
                assert!(media.staged.contains(&entry), "{entry:?} is not there");
                assert!(place.offset + record_bytes(length) <= media.written);
            }
        }
    }
}

#[derive(Debug, Clone)]
enum StoreStep {
    Offer(u8, u32, u32, bool),
    Use(u8, u32),
    Read(u8, u32, bool),
    End(u8, bool),
    Wait(u64),
    Forget(u8),
}

fn step() -> impl Strategy<Value = StoreStep> {
    prop_oneof![
        8 => (0_u8..4, 0_u32..40, 1_u32..=8192, any::<bool>())
            .prop_map(|(file, piece, length, soon)| StoreStep::Offer(file, piece, length, soon)),
        3 => (0_u8..4, 0_u32..40).prop_map(|(file, piece)| StoreStep::Use(file, piece)),
        2 => (0_u8..4, 0_u32..40, any::<bool>())
            .prop_map(|(file, piece, right)| StoreStep::Read(file, piece, right)),
        8 => (any::<u8>(), prop::bool::weighted(0.95))
            .prop_map(|(nth, ok)| StoreStep::End(nth, ok)),
        2 => (1_u64..40_000).prop_map(StoreStep::Wait),
        1 => (0_u8..4).prop_map(StoreStep::Forget),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn located_records_exist_and_writes_stay_within_daily_budget(
        policy in 0..FlashPolicy::ALL.len(),
        blocks in 2_u32..8,
        budget in (1_u64..20).prop_map(|blocks| blocks * u64::from(BLOCK)),
        is_fresh in any::<bool>(),
        steps in prop::collection::vec(step(), 1..250),
    ) {
        let config = StoreConfig {
            policy: FlashPolicy::ALL[policy],
            write_per_day_bytes: Some(budget),
            horizon: Duration::from_secs(3600),
        };
        let mut world = StoreWorld::new(config, &spec(2, blocks, is_fresh));
        for step in steps {
            match step {
                StoreStep::Offer(file, number, length, soon) => {
                    world.offer(piece(file, number), length, soon);
                }
                StoreStep::Use(file, number) => {
                    let (now, piece) = (world.now, piece(file, number));
                    world.room.record_use(now, piece, PIECE, SEGMENT_BYTES);
                }
                StoreStep::Read(file, number, right) => {
                    let (now, piece) = (world.now, piece(file, number));
                    if let Some((place, length)) = world.room.locate(piece) {
                        world.room.begin_read(now, place.block, &[piece]);
                        let took = Duration::from_millis(1);
                        world.room.end_read(now, place.block, (took, took), 1);
                        match right {
                            true => world.room.handle_right(place.block, length),
                            false => world.room.handle_wrong(piece, place),
                        }
                        prop_assert_eq!(world.room.locate(piece).is_some(), right);
                    }
                }
                StoreStep::End(nth, ok) => world.end(nth.into(), ok),
                StoreStep::Wait(seconds) => world.now = world.now + Duration::from_secs(seconds),
                StoreStep::Forget(file) => {
                    world.room.forget(piece(file, 0).file);
                    for number in 0..40 {
                        prop_assert_eq!(world.room.locate(piece(file, number)), None);
                    }
                }
            }
            world.drain();
            world.check_media();
            let day = Duration::from_secs(86_400);
            let of_day = world.written.iter().filter(|(at, _)| world.now.since(*at) < day);
            let sum: u64 = of_day.map(|(_, bytes)| bytes).sum();
            // Plus the overhead of sealing each block of the initial fill.
            let first = if is_fresh { 2 * u64::from(blocks * (BLOCK + SUMMARY)) } else { 0 };
            prop_assert!(sum <= budget + first, "{sum} of {budget}");
            let view = world.room.view(world.now);
            prop_assert!(view.filled_bytes <= view.capacity_bytes);
        }
    }

    #[test]
    fn record_sealed_later_wins(
        order in Just(vec![0_usize, 1, 2, 3]).prop_shuffle(),
        split in 0_usize..4,
    ) {
        let mut spec = spec(1, 8, false);
        spec.is_recovering = true;
        let found = |block: u32| RecoveredBlock {
            block: BlockId(block),
            sequence: 10 + u64::from(block),
            records: vec![
                RecordEntry { offset: 0, piece: piece(0, 0), length: 100 + block },
                RecordEntry { offset: 8192, piece: piece(1, block), length: 8192 },
                // Past the end of the block, inside the summary, and larger than a piece.
                RecordEntry { offset: BLOCK - 4096, piece: piece(2, block), length: 10 },
                RecordEntry { offset: BLOCK - 8192, piece: piece(2, block), length: 10 },
                RecordEntry { offset: 20_480, piece: piece(2, block), length: 8193 },
            ],
        };
        let blocks: Vec<RecoveredBlock> = order.iter().map(|at| found(*at as u32)).collect();
        let config = StoreConfig::default();
        let mut room = FlashStore::new(Instant::ZERO, config, PIECE, &spec).expect("possible");
        room.recover(Instant::ZERO, blocks[..split].to_vec());
        let of = piece(3, 0);
        prop_assert_eq!(room.offer(Instant::ZERO, of, 8192, true), None, "recovery has not ended");
        room.recover(Instant::ZERO, blocks[split..].to_vec());
        room.end_recovery(Instant::ZERO, 0, &[SsdId(0)]);
        room.check_invariants();
        let place = room.offer(Instant::ZERO, of, 8192, true).expect("taken");
        prop_assert!(place.block.0 >= 4, "{place:?} is in a recovered block");
        let (place, length) = room.locate(piece(0, 0)).expect("there");
        prop_assert_eq!((place.block, length), (BlockId(3), 103));
        for block in 0..4 {
            prop_assert!(room.locate(piece(1, block)).is_some());
            prop_assert_eq!(room.locate(piece(2, block)), None);
        }
    }
}

#[test]
fn only_fresh_ssd_gets_initial_fill_beyond_budget() {
    let config = StoreConfig {
        write_per_day_bytes: Some(0),
        ..StoreConfig::default()
    };
    let takes = |fresh: &[SsdId], found: Vec<RecoveredBlock>| {
        let mut spec = spec(1, 8, false);
        spec.is_recovering = true;
        let mut room = FlashStore::new(Instant::ZERO, config, PIECE, &spec).expect("possible");
        room.recover(Instant::ZERO, found);
        assert!(room.offer(Instant::ZERO, piece(0, 1), 8192, true).is_none());
        let refused = room.view(Instant::ZERO).refused;
        assert_eq!((refused.recovering_bytes, refused.busy_bytes), (8192, 0));
        room.end_recovery(Instant::ZERO, 0, fresh);
        room.offer(Instant::ZERO, piece(0, 1), 8192, true).is_some()
    };
    let block = RecoveredBlock {
        block: BlockId(3),
        sequence: 7,
        records: Vec::new(),
    };
    assert!(takes(&[SsdId(0)], Vec::new()));
    assert!(!takes(&[], Vec::new()), "some blocks were unreadable");
    assert!(!takes(&[SsdId(0)], vec![block]), "it was filled before");
}

/// Fills all blocks of one SSD with pieces that were read `reads` times.
fn filled(config: StoreConfig, reads: u32) -> StoreWorld {
    let mut world = StoreWorld::new(config, &spec(1, 4, true));
    for number in 0..60 {
        let of = piece(0, number * 256);
        for _ in 0..reads {
            world
                .room
                .record_use(world.now, of, SEGMENT_BYTES, SEGMENT_BYTES);
        }
        world.offer(of, 8192, false);
        world.drain();
        while !world.doing.is_empty() {
            world.end(0, true);
            world.drain();
        }
    }
    let view = world.room.view(world.now);
    assert!(view.records >= 15, "{view:?}");
    world
}

#[test]
fn single_reads_are_admitted_only_to_empty_tier() {
    let mut world = filled(StoreConfig::default(), 1);
    let of = piece(3, 1000);
    world
        .room
        .record_use(world.now, of, SEGMENT_BYTES, SEGMENT_BYTES);
    assert!(!world.offer(of, 8192, false));
    assert!(world.room.view(world.now).refused.not_worth_bytes >= 8192);
    for _ in 0..3 {
        world
            .room
            .record_use(world.now, of, SEGMENT_BYTES, SEGMENT_BYTES);
    }
    let before = world.room.view(world.now).blocks_dropped;
    assert!(world.offer(of, 8192, false), "read by several viewers");
    assert!(world.room.view(world.now).blocks_dropped >= before);
}

#[test]
fn evicted_records_are_worth_less_than_admitted_ones() {
    let mut world = filled(StoreConfig::default(), 10);
    let of = piece(3, 1000);
    for _ in 0..4 {
        world
            .room
            .record_use(world.now, of, SEGMENT_BYTES, SEGMENT_BYTES);
    }
    assert!(
        !world.offer(of, 8192, false),
        "all records there are read more"
    );
}

#[test]
fn paper_policies_admit_everything() {
    for policy in [
        FlashPolicy::Lru,
        FlashPolicy::LfuMean,
        FlashPolicy::LfuMedian,
    ] {
        let config = StoreConfig {
            policy,
            write_per_day_bytes: Some(u64::MAX / 2),
            ..StoreConfig::default()
        };
        let mut world = filled(config, 1);
        assert!(world.offer(piece(3, 9), 8192, false), "{policy:?}");
    }
}

#[test]
fn lru_evicts_least_recently_read_block() {
    let config = StoreConfig {
        policy: FlashPolicy::Lru,
        write_per_day_bytes: Some(u64::MAX / 2),
        ..StoreConfig::default()
    };
    let mut world = filled(config, 1);
    let there: Vec<(PieceId, RecordLocation)> = (0..60)
        .map(|number| piece(0, number * 256))
        .filter_map(|of| Some((of, world.room.locate(of)?.0)))
        .collect();
    let blocks: std::collections::BTreeSet<u32> = there.iter().map(|(_, at)| at.block.0).collect();
    let spared = *blocks.first().expect("some");
    for block in blocks.iter().rev() {
        world.now = world.now + Duration::from_secs(1);
        let (of, at) = *there
            .iter()
            .find(|(_, at)| at.block.0 == *block)
            .expect("one");
        world.room.begin_read(world.now, at.block, &[of]);
        let took = Duration::from_millis(1);
        world.room.end_read(world.now, at.block, (took, took), 1);
    }
    for number in 0..6 {
        world.offer(piece(3, number), 8192, false);
        world.drain();
        while !world.doing.is_empty() {
            world.end(0, true);
            world.drain();
        }
    }
    let still = there
        .iter()
        .filter(|(of, at)| at.block.0 == spared && world.room.locate(*of) == Some((*at, 8192)));
    assert!(still.count() > 0, "the block read last stays");
}

#[test]
fn read_in_flight_prevents_eviction() {
    let config = StoreConfig {
        policy: FlashPolicy::Lru,
        write_per_day_bytes: Some(u64::MAX / 2),
        ..StoreConfig::default()
    };
    let mut world = filled(config, 1);
    let of = (0..60).map(|number| piece(0, number * 256));
    let (of, place) = of
        .filter_map(|of| Some((of, world.room.locate(of)?.0)))
        .next()
        .expect("one");
    world.room.begin_read(world.now, place.block, &[of]);
    for number in 0..200 {
        world.now = world.now + Duration::from_secs(2);
        world.offer(piece(2, number), 8192, false);
        world.drain();
        world.end(0, true);
        world.drain();
    }
    assert_eq!(world.room.locate(of), Some((place, 8192)));
}
