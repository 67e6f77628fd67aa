//! Durations from the headers of media files, as records kept across restarts.

use headlong_media::HeaderFacts;
use headlong_units::Duration;

use crate::version_table::{StoredValue, word};

/// Bit of an estimated duration; a duration is shorter than three centuries.
const ESTIMATED: u64 = 1 << 63;

impl StoredValue for HeaderFacts {
    const CHECK_SEED: u64 = 0x6864_6c67_0001;
    /// Half a million files.
    const BYTES_MAX: usize = 24_000_000;
    const OTHER_VERSION: &str = "stored durations of other versions of some files are ignored; \
                                 they are read again when the files are played";

    /// Duration in nanoseconds with [`ESTIMATED`], and declared end.
    fn encode(&self, record: &mut Vec<u8>) {
        let flag = if self.is_estimated { ESTIMATED } else { 0 };
        let duration = self.duration.0 & !ESTIMATED | flag;
        record.extend(duration.to_le_bytes());
        record.extend(self.end_declared.to_le_bytes());
    }

    fn decode(bytes: &[u8]) -> Option<(Self, usize)> {
        let duration = word(bytes, 0)?;
        let facts = Self {
            duration: Duration(duration & !ESTIMATED),
            is_estimated: duration & ESTIMATED != 0,
            end_declared: word(bytes, 8)?,
        };
        Some((facts, 16))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_round_trip() {
        for is_estimated in [false, true] {
            let facts = HeaderFacts {
                duration: Duration(79),
                is_estimated,
                end_declared: 80,
            };
            let mut bytes = Vec::new();
            facts.encode(&mut bytes);
            assert_eq!(HeaderFacts::decode(&bytes), Some((facts, 16)));
            assert_eq!(HeaderFacts::decode(&bytes[..15]), None);
        }
    }
}
