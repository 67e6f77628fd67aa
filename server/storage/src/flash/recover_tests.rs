//! Tests of recovery when part of an SSD is temporarily unreadable, simulated by truncating the
//! file.

use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;

use headlong_device::flash::BlockJob;
use headlong_flash::format::{RecordName, SummaryHead, encode_record, padded_bytes};
use headlong_flash::{FileKey, PieceId, RECORD_ALIGN_BYTES, RecordEntry};

use super::super::{Formatting, format};
use super::*;

const SIZE: u64 = 40 << 20;
const OWNER: u64 = 7;

struct RecoveryRig {
    _folder: tempfile::TempDir,
    path: PathBuf,
    ssd: Ssd,
}

impl RecoveryRig {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("tier");
        let formatting = Formatting {
            size: Some(SIZE),
            block: None,
            piece: 64 << 10,
            is_forced: false,
        };
        format(&path, &formatting).expect("made");
        let ssd = Ssd::open(&path).expect("taken");
        let _folder = folder;
        Self { _folder, path, ssd }
    }

    fn start(&self, block: u32) -> u64 {
        self.ssd.tier.layout.block_start(block).expect("a block")
    }

    /// Writes the only record of a block, and its summary if it is sealed.
    fn fill(&self, block: u32, owner: u64, is_sealed: bool) {
        let entry = RecordEntry {
            offset: 0,
            piece: PieceId {
                file: FileKey(u128::from(block)),
                piece: 1,
            },
            length: 5000,
        };
        let head = SummaryHead {
            block,
            count: 1,
            filling: 5,
            sequence: u64::from(block) + 1,
            owner,
            sealed_s: now_s(),
        };
        let name = RecordName {
            device: self.ssd.tier.device,
            block,
            filling: head.filling,
            offset: entry.offset,
            piece: entry.piece,
            length: entry.length,
        };
        let mut record = vec![0; padded_bytes(5000) as usize];
        encode_record(&name, &[9; 5000], &mut record).expect("fits");
        let medium = &self.ssd.medium;
        let at = self.start(block) + u64::from(entry.offset);
        medium.write(at, &record).expect("written");
        if is_sealed {
            let entries = vec![entry];
            let bytes = Summary { head, entries }.encode(self.ssd.tier.device);
            let at = self.ssd.tier.layout.summary_start(block);
            medium.write(at.expect("a block"), &bytes).expect("written");
        }
    }

    /// The blocks that recovery finds, and the remaining result.
    fn search(&self) -> (Vec<u32>, RecoveryResult) {
        let search = RecoverySearch {
            blocks: 0..self.ssd.tier.layout.block_count(),
            owner: OWNER,
        };
        let mut found = Vec::new();
        let recovered = recover(&self.ssd, search, |summaries| {
            found.extend(summaries.iter().map(|of| of.head.block));
            true
        });
        found.sort_unstable();
        (found, recovered)
    }

    /// Empties a block for new content.
    fn empty(&self, block: u32) {
        let job = BlockJob::Empty { block };
        self.ssd.with_checkpoints(|of, medium| job.run(of, medium));
    }

    /// Runs `act` while the range from `from` on is unreadable.
    fn without<T>(&self, from: u64, act: impl FnOnce() -> T) -> T {
        let file = std::fs::File::options();
        let file = file.clone().read(true).write(true).open(&self.path);
        let file = file.expect("opens");
        let mut rest = vec![0; (SIZE - from) as usize];
        file.read_exact_at(&mut rest, from).expect("read");
        file.set_len(from).expect("shorter");
        let done = act();
        file.set_len(from).expect("as short again");
        file.set_len(SIZE).expect("longer");
        file.write_all_at(&rest, from).expect("written");
        done
    }
}

#[test]
fn temporarily_unreadable_blocks_are_found_by_next_recovery() {
    let rig = RecoveryRig::new();
    (0..4).for_each(|block| rig.fill(block, OWNER, true));
    let (found, looked) = rig.without(rig.start(2), || rig.search());
    assert_eq!(found, [0, 1]);
    assert!(!looked.is_fresh);
    assert_eq!(
        rig.search().0,
        [0, 1, 2, 3],
        "no checkpoint hides the blocks"
    );
    assert_eq!(rig.search().0, [0, 1, 2, 3]);
}

#[test]
fn temporarily_unreadable_records_are_found_by_next_recovery() {
    let rig = RecoveryRig::new();
    rig.fill(0, OWNER, true);
    rig.fill(1, OWNER, false);
    // Everything but the header of its only record is unreadable, so the summary cannot be found.
    let records = rig.start(1) + u64::from(RECORD_ALIGN_BYTES);
    assert_eq!(rig.without(records, || rig.search().0), [0]);
    // Another block of the group is filled, after which its checkpoint would be written.
    rig.empty(2);
    let end = |block| rig.ssd.with_checkpoints(|of, _| of.end(block, None));
    end(2);
    rig.empty(20);
    assert_eq!(rig.search().0, [0, 1]);
}

#[test]
fn group_gets_checkpoint_once_its_blocks_are_readable() {
    let rig = RecoveryRig::new();
    (0..4).for_each(|block| rig.fill(block, OWNER, true));
    rig.without(rig.start(2), || rig.search());
    rig.empty(0);
    rig.ssd.with_checkpoints(|of, place| {
        of.end(0, None);
        of.finish(place);
    });
    let found = headlong_flash::format::recover(&rig.ssd.tier, 0..1, rig.ssd.medium.reader());
    assert!(found.void.is_empty());
    let blocks = found.summaries.iter().map(|of| of.head.block);
    assert!(blocks.eq(1..4));
}

#[test]
fn ssd_is_fresh_only_if_fully_read_and_empty_for_all_disks() {
    let rig = RecoveryRig::new();
    let (found, looked) = rig.search();
    assert!(found.is_empty() && looked.is_fresh);
    let rig = RecoveryRig::new();
    let unread = rig.without(rig.start(3), || rig.search().1);
    assert!(!unread.is_fresh);
    let block_bytes = u64::from(rig.ssd.tier.layout.block_bytes());
    let blocks = u64::from(rig.ssd.tier.layout.block_count()) - 3;
    assert!(
        unread.written_bytes >= blocks * block_bytes,
        "unreadable blocks may have been written today"
    );
    rig.fill(0, OWNER + 1, true);
    let (found, looked) = rig.search();
    assert!(found.is_empty() && !looked.is_fresh, "another disk's block");
    assert!(looked.written_bytes >= block_bytes);
}
