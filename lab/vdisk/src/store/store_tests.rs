//! The store against a plain array of bytes.

use proptest::prelude::*;

use super::*;

const PAGES: u64 = 48;
const CAPACITY: usize = PAGES as usize * PAGE_BYTES;

#[derive(Debug, Clone)]
enum WriteOperation {
    /// A part of one long sequence: its bytes at this offset, as if it filled the whole disk.
    Title {
        seed: u64,
        offset: usize,
        length: usize,
    },
    Noise {
        seed: u64,
        offset: usize,
        length: usize,
    },
    Zero {
        offset: usize,
        length: usize,
    },
    Reopen,
}

fn place() -> impl Strategy<Value = (usize, usize)> {
    // Whole pages, sectors, and arbitrary bytes.
    let unit = prop_oneof![5 => Just(PAGE_BYTES), 3 => Just(512), 1 => Just(1)];
    (unit, 0..CAPACITY, 1..6 * PAGE_BYTES).prop_map(|(unit, offset, length)| {
        let offset = offset / unit * unit;
        let length = length.next_multiple_of(unit).min(CAPACITY - offset);
        (offset, length)
    })
}

fn op() -> impl Strategy<Value = WriteOperation> {
    prop_oneof![
        5 => (0..3u64, place())
            .prop_map(|(seed, (offset, length))| WriteOperation::Title { seed, offset, length }),
        2 => (any::<u64>(), place())
            .prop_map(|(seed, (offset, length))| WriteOperation::Noise { seed, offset, length }),
        2 => place().prop_map(|(offset, length)| WriteOperation::Zero { offset, length }),
        1 => Just(WriteOperation::Reopen),
    ]
}

fn title(seed: u64, offset: usize, length: usize) -> Vec<u8> {
    let sequence = WordSequence {
        first: seed,
        step: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15),
    };
    let mut all = vec![0; CAPACITY];
    sequence.fill(&mut all);
    all[offset..offset + length].to_vec()
}

fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    (0..length).map(|_| next()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn reads_return_latest_writes(ops in prop::collection::vec(op(), 1..40)) {
        let directory = tempfile::tempdir().expect("a directory");
        let open = || {
            ContentStore::open(directory.path(), "any", CAPACITY as u64, false).expect("open")
        };
        let mut disk = open();
        let mut model = vec![0; CAPACITY];
        let mut found = vec![0; CAPACITY];
        for op in ops {
            match op {
                WriteOperation::Title { seed, offset, length } => {
                    let data = title(seed, offset, length);
                    disk.write(offset as u64, &data).expect("write");
                    model[offset..offset + length].copy_from_slice(&data);
                }
                WriteOperation::Noise { seed, offset, length } => {
                    let data = noise(seed, length);
                    disk.write(offset as u64, &data).expect("write");
                    model[offset..offset + length].copy_from_slice(&data);
                }
                WriteOperation::Zero { offset, length } => {
                    disk.zero(offset as u64, length as u64).expect("zero");
                    model[offset..offset + length].fill(0);
                }
                WriteOperation::Reopen => {
                    disk.sync().expect("sync");
                    drop(disk);
                    disk = open();
                }
            }
        }
        disk.read(0, &mut found).expect("read");
        prop_assert!(found == model);
        for (offset, length) in [(1, 5), (511, 4097), (4095, 2), (CAPACITY - 3, 3)] {
            disk.read(offset as u64, &mut found[..length]).expect("read");
            prop_assert!(found[..length] == model[offset..offset + length]);
        }
    }
}

#[test]
fn title_is_one_run_without_space() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = ContentStore::temporary(directory.path(), CAPACITY as u64);
    let data = title(5, 0, CAPACITY);
    for (at, part) in data.chunks(5 * PAGE_BYTES).enumerate() {
        store
            .write((at * 5 * PAGE_BYTES) as u64, part)
            .expect("write");
    }
    let usage = store.usage();
    assert_eq!((usage.runs, usage.literal_bytes), (1, 0));
    assert_eq!(
        std::fs::read_dir(directory.path()).expect("list").count(),
        0
    );
}

#[test]
fn unclosed_store_is_rejected_with_remedy() {
    let directory = tempfile::tempdir().expect("a directory");
    let open = |force| ContentStore::open(directory.path(), "any", CAPACITY as u64, force);
    let store = open(false).expect("new");
    store.write(0, &noise(1, PAGE_BYTES)).expect("write");
    store.sync().expect("sync");
    // Synced and unchanged is equivalent to closed.
    drop(store);
    let store = open(false).expect("again");
    assert!(store.manifest().expect("kept").is_clean);
    store.write(0, &noise(2, 512)).expect("write");
    drop(store);
    let error = open(false).expect_err("unclean").to_string();
    assert!(error.contains("--force-new"), "{error}");
    let store = open(true).expect("anew");
    assert_eq!(store.usage(), StoreUsage::default());
}

#[test]
fn unsuitable_store_is_rejected() {
    let directory = tempfile::tempdir().expect("a directory");
    let open = |capacity| ContentStore::open(directory.path(), "any", capacity, false);
    let store = open(1 << 20).expect("new");
    let error = open(1 << 20).expect_err("in use").to_string();
    assert!(error.contains("another emulated disk"), "{error}");
    store.sync().expect("sync");
    drop(store);
    let error = open(1 << 21).expect_err("another size").to_string();
    assert!(error.contains("--size 1048576"), "{error}");

    let other = tempfile::tempdir().expect("a directory");
    std::fs::write(other.path().join("thesis.txt"), "dear").expect("a file");
    let error = ContentStore::open(other.path(), "any", 1 << 20, false).expect_err("not ours");
    assert!(error.to_string().contains("thesis.txt"), "{error}");
    let error =
        ContentStore::open(other.path(), "any", 1 << 20, true).expect_err("not ours either");
    assert!(error.to_string().contains("thesis.txt"), "{error}");
}

#[test]
fn label_is_kept() {
    let directory = tempfile::tempdir().expect("a directory");
    let open = || ContentStore::open(directory.path(), "wd-red", 1 << 20, false).expect("open");
    let store = open();
    store
        .change_manifest(|manifest| manifest.label = "28,000 titles".into())
        .expect("write");
    store.sync().expect("sync");
    drop(store);
    let manifest = open().manifest().expect("kept");
    assert_eq!(
        (manifest.label.as_str(), manifest.drive.as_str()),
        ("28,000 titles", "wd-red")
    );
}
