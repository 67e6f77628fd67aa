//! The frame of stored files: a first line that names format and version, and a checksum at the
//! end.
//!
//! The first line is text, so that `head -n 1` tells what a file is. Contents follow, and the last
//! eight bytes are the XXH3 of everything before.

use std::io::Read as _;

use headlong_characterise::SCHEMA;
use serde::Serialize;
use serde::de::DeserializeOwned;
use xxhash_rust::xxh3::xxh3_64;

use super::error::ShardError;

/// Version of all formats. It changes with every change of what is stored or how it is summed;
/// `partial_sums_keep_their_bytes` finds one.
pub(super) const FORMAT: u32 = 1;

/// Longest first line, bytes.
pub(super) const LINE_BYTES_MAX: usize = 200;
/// Decompressed contents are at most this large, and a multiple of what is compressed. Lists of zeros
/// compress to nearly nothing; those of a log's seconds have 3 MB, while a file that somebody else
/// wrote could name any length.
const PLAIN_BYTES_FREE: u64 = 16 << 20;
const PLAIN_RATIO_MAX: u64 = 256;
/// Bytes of the checksum.
pub(super) const CHECKSUM_BYTES: usize = 8;

/// A kind of file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StoredKind {
    Shard,
    Partial,
    Piece,
}

impl StoredKind {
    const fn word(self) -> &'static str {
        match self {
            Self::Shard => "shard",
            Self::Partial => "partial",
            Self::Piece => "piece",
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Shard => "a shard of a log",
            Self::Partial => "a partial sum",
            Self::Piece => "what was read of a piece of a log",
        }
    }

    const fn remedy(self) -> &'static str {
        match self {
            Self::Shard => "`headlong trace split` writes shards",
            Self::Partial => "`headlong trace characterise --partial FILE SHARD` writes one",
            Self::Piece => "`headlong.spark.characterise` makes it",
        }
    }

    const fn again(self) -> &'static str {
        match self {
            Self::Shard => "split the log again",
            Self::Partial => "sum its shard again",
            Self::Piece => "read the log again",
        }
    }

    /// The first line of such a file.
    pub(super) fn line(self) -> String {
        let version = env!("CARGO_PKG_VERSION");
        format!("headlong {} {FORMAT} {SCHEMA} {version}\n", self.word())
    }

    /// Checks the first line of a file that starts with these bytes; returns its length.
    pub(super) fn check(self, name: &str, head: &[u8]) -> Result<usize, ShardError> {
        let head = &head[..head.len().min(LINE_BYTES_MAX)];
        let ours = self.line();
        if head.starts_with(ours.as_bytes()) {
            return Ok(ours.len());
        }
        let end = memchr::memchr(b'\n', head);
        let line = end.map(|end| String::from_utf8_lossy(&head[..end]));
        let start = format!("headlong {} ", self.word());
        match line {
            Some(line) if line.starts_with(&start) => Err(ShardError::Version {
                name: name.to_owned(),
                theirs: line.into_owned(),
                ours: ours.trim_end().to_owned(),
                remedy: match self {
                    Self::Shard => "split and sum with one version",
                    Self::Partial => "sum all shards and merge with one version",
                    Self::Piece => "install one version on all machines",
                },
            }),
            _ => Err(ShardError::Kind {
                name: name.to_owned(),
                wanted: self.name(),
                remedy: self.remedy(),
            }),
        }
    }

    /// The error of a file that is cut or damaged.
    pub(super) fn damaged(self, name: &str) -> ShardError {
        ShardError::Damaged {
            name: name.to_owned(),
            remedy: self.again(),
        }
    }

    /// The bytes of a file with these contents.
    pub(crate) fn framed<T: Serialize>(self, contents: &T) -> Vec<u8> {
        let mut bytes = self.line().into_bytes();
        bytes.extend_from_slice(&packed(contents));
        let sum = xxh3_64(&bytes);
        bytes.extend_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// The contents of such a file.
    pub(crate) fn contents<T: DeserializeOwned>(
        self,
        name: &str,
        bytes: &[u8],
    ) -> Result<T, ShardError> {
        let start = self.check(name, bytes)?;
        let damaged = || self.damaged(name);
        let (whole, sum) = bytes
            .split_last_chunk::<CHECKSUM_BYTES>()
            .filter(|(whole, _)| whole.len() >= start)
            .ok_or_else(damaged)?;
        if u64::from_le_bytes(*sum) != xxh3_64(whole) {
            return Err(damaged());
        }
        unpacked(&whole[start..]).ok_or_else(damaged)
    }
}

/// Serialised.
pub(crate) fn stored<T: Serialize>(contents: &T) -> Vec<u8> {
    postcard::to_stdvec(contents).expect("plain data in memory can be serialised")
}

/// Serialised and compressed.
pub(super) fn packed<T: Serialize>(contents: &T) -> Vec<u8> {
    let plain = stored(contents);
    zstd::stream::encode_all(plain.as_slice(), 3).expect("memory can be read and written")
}

/// The reverse; `None` for damaged bytes, and for those that need more memory than a log's.
pub(super) fn unpacked<T: DeserializeOwned>(bytes: &[u8]) -> Option<T> {
    let bytes_max = PLAIN_BYTES_FREE + PLAIN_RATIO_MAX * bytes.len() as u64;
    let mut plain = Vec::new();
    let stream = zstd::stream::read::Decoder::new(bytes).ok()?;
    stream.take(bytes_max).read_to_end(&mut plain).ok()?;
    // Bytes that were cut here end within the contents.
    postcard::from_bytes(&plain).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_far_larger_than_their_file_are_damaged() {
        let zeros = |count: u64| packed(&vec![0_u8; count as usize]);
        let usual = zeros(PLAIN_BYTES_FREE / 8);
        assert!(unpacked::<Vec<u64>>(&usual).is_some());
        let bomb = zeros(PLAIN_BYTES_FREE * 5 / 4);
        assert!((bomb.len() as u64) < PLAIN_BYTES_FREE / 8 / PLAIN_RATIO_MAX);
        assert!(unpacked::<Vec<u64>>(&bomb).is_none());
    }
}
