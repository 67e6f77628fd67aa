//! Super record: identifies an SSD as a tier, and describes its layout.

use alloc::vec::Vec;

use thiserror::Error;

use super::bytes::{ByteReader, ByteWriter, checksum};
use super::layout::{Layout, LayoutError};

/// Size of a copy.
pub const SUPER_BYTES: usize = 4096;

const MAGIC: &[u8; 8] = b"HLFLASH\0";
const FIELDS_BYTES: usize = 8 + 4 + 4 + 16 + 8 + 8 + 8;

/// Content of the super record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SuperRecord {
    /// Random number drawn when the SSD was formatted, so that older content is never accepted.
    pub device: u128,
    /// The layout.
    pub layout: Layout,
}

/// Bytes are not a super record of an SSD of this size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum SuperError {
    /// There is no super record.
    #[error("it is no flash tier; format it with `headlong flash format`")]
    Missing,
    /// Its checksum is wrong.
    #[error("its super record is damaged; format it again with `headlong flash format --force`")]
    Damaged,
    /// Another format version.
    #[error(
        "it is a flash tier of version {0}, and this is version {version}; format it again with \
         `headlong flash format --force`",
        version = super::FORMAT_VERSION
    )]
    Version(u32),
    /// The size of the SSD has changed.
    #[error(
        "it was made on {was} bytes and has {is} now; format it again with `headlong flash format \
         --force`"
    )]
    Size {
        /// Size when it was formatted.
        was: u64,
        /// Size now.
        is: u64,
    },
    /// The layout is invalid.
    #[error(
        "its super record is invalid ({0}); format it again with `headlong flash format --force`"
    )]
    Layout(LayoutError),
}

impl SuperRecord {
    /// Encodes one copy.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(SUPER_BYTES);
        bytes.extend_from_slice(MAGIC);
        bytes.u32(super::FORMAT_VERSION);
        bytes.u32(0);
        bytes.u128(self.device);
        bytes.u64(self.layout.tier_bytes());
        bytes.u64(u64::from(self.layout.block_bytes()));
        bytes.u64(u64::from(self.layout.piece_bytes()));
        let sum = checksum(&[&bytes]);
        bytes.u64(sum);
        bytes.resize(SUPER_BYTES, 0);
        bytes
    }

    /// Decodes one copy, found on an SSD of `tier_bytes`.
    ///
    /// # Errors
    /// If it is not a valid super record.
    pub fn decode(bytes: &[u8], tier_bytes: u64) -> Result<Self, SuperError> {
        let mut reader = ByteReader(bytes);
        reader.is(MAGIC).ok_or(SuperError::Missing)?;
        let mut fields = || {
            let version = reader.u32()?;
            reader.u32()?;
            let device = reader.u128()?;
            let sizes = [reader.u64()?, reader.u64()?, reader.u64()?];
            Some((version, device, sizes, reader.u64()?))
        };
        let (version, device, [was, block, piece], sum) = fields().ok_or(SuperError::Damaged)?;
        // Another version may have its checksum elsewhere.
        if version != super::FORMAT_VERSION {
            return Err(SuperError::Version(version));
        }
        if checksum(&[&bytes[..FIELDS_BYTES]]) != sum {
            return Err(SuperError::Damaged);
        }
        if was != tier_bytes {
            return Err(SuperError::Size {
                was,
                is: tier_bytes,
            });
        }
        let layout = Layout::new(was, block, piece).map_err(SuperError::Layout)?;
        Ok(Self { device, layout })
    }

    /// Decodes both copies: returns the first valid one, otherwise the error of the first that is a
    /// super record.
    ///
    /// # Errors
    /// If neither is valid.
    pub fn of_copies(copies: [&[u8]; 2], tier_bytes: u64) -> Result<Self, SuperError> {
        let [first, second] = copies.map(|copy| Self::decode(copy, tier_bytes));
        match (first, second) {
            (Ok(first), _) => Ok(first),
            (Err(_), Ok(second)) => Ok(second),
            (Err(SuperError::Missing), Err(second)) => Err(second),
            (Err(first), Err(_)) => Err(first),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some() -> SuperRecord {
        let layout = Layout::new(64 << 20, 512 << 10, 64 << 10).expect("fits");
        SuperRecord { device: 7, layout }
    }

    #[test]
    fn super_record_round_trips_from_either_copy() {
        let bytes = some().encode();
        assert_eq!(SuperRecord::decode(&bytes, 64 << 20), Ok(some()));
        let none = [0; SUPER_BYTES];
        assert_eq!(
            SuperRecord::of_copies([&none, &bytes], 64 << 20),
            Ok(some())
        );
        assert_eq!(
            SuperRecord::of_copies([&bytes, &none], 64 << 20),
            Ok(some())
        );
        let neither = SuperRecord::of_copies([&none, &none], 64 << 20);
        assert_eq!(neither, Err(SuperError::Missing));
    }

    #[test]
    fn bit_flip_in_super_record_is_detected() {
        for bit in 0..(FIELDS_BYTES + 8) * 8 {
            let mut bytes = some().encode();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(SuperRecord::decode(&bytes, 64 << 20).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn different_size_or_version_is_reported() {
        let bytes = some().encode();
        let (was, is) = (64 << 20, 65 << 20);
        assert_eq!(
            SuperRecord::decode(&bytes, is),
            Err(SuperError::Size { was, is })
        );
        let mut newer = bytes;
        newer[8] = 9;
        assert_eq!(
            SuperRecord::decode(&newer, was),
            Err(SuperError::Version(9))
        );
        assert_eq!(
            SuperRecord::decode(&newer[..20], was),
            Err(SuperError::Damaged)
        );
    }
}
