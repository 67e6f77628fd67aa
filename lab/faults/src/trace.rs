//! The trace of a run, as one hash and optionally as lines of text.

use headlong_units::Instant;

/// All events in order, by disk; events without a disk are separate.
#[derive(Debug, Default)]
pub(crate) struct EventTrace {
    hashes: Vec<u64>,
    lines: Option<Vec<String>>,
}

/// The disk of an event, if any.
pub(crate) type EventDisk = Option<usize>;

impl EventTrace {
    pub(crate) fn new(disks: usize, with_lines: bool) -> Self {
        Self {
            hashes: vec![0xcbf2_9ce4_8422_2325; disks + 1],
            lines: with_lines.then(Vec::new),
        }
    }

    /// Adds an event with its name and up to three numbers.
    pub(crate) fn add(&mut self, now: Instant, owner: EventDisk, what: &'static str, of: [u64; 3]) {
        let last = self.hashes.len() - 1;
        let hash = &mut self.hashes[owner.unwrap_or(last)];
        // FNV-1a by words: equal traces have equal hashes, others almost never.
        let mut mix = |word: u64| {
            *hash = (*hash ^ word)
                .wrapping_mul(0x0100_0000_01b3)
                .rotate_left(23)
        };
        mix(now.0);
        what.bytes().for_each(|byte| mix(u64::from(byte)));
        of.into_iter().for_each(&mut mix);
        if let Some(lines) = &mut self.lines {
            let seconds = now.0 as f64 / 1e9;
            let owner = owner.map_or_else(|| "-".to_owned(), |disk| format!("disk{disk}"));
            let [a, b, c] = of;
            lines.push(format!("{seconds:>12.6} {owner:<5} {what} {a} {b} {c}"));
        }
    }

    /// One hash over everything.
    pub(crate) fn hash(&self) -> u64 {
        let fold =
            |sum: u64, hash: &u64| (sum ^ hash).wrapping_mul(0x0100_0000_01b3).rotate_left(23);
        self.hashes.iter().fold(0, fold)
    }

    /// The hash of a disk's events.
    pub(crate) fn of_disk(&self, disk: usize) -> u64 {
        self.hashes[disk]
    }

    pub(crate) fn take_lines(&mut self) -> Vec<String> {
        self.lines.take().unwrap_or_default()
    }
}
