//! The headers of a file as they were read, also as bytes for the next process.

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::fields::u64_at;
use crate::fragment_index::FragmentIndex;
use crate::fragmented::{FragmentHeads, Fragments, TABLE_BYTES_MAX};

/// Most bytes of the `moof` boxes of a file: twice those of a film of two hours.
pub(crate) const MOOF_BYTES_MAX: usize = TABLE_BYTES_MAX;

/// The headers of a file, from which its index is made, or those of a segment.
#[derive(Debug)]
pub struct TitleHeaders {
    /// The body of `moov`.
    pub(crate) kept: Vec<u8>,
    /// Of all fragments; of the first one, if there is an index.
    pub(crate) heads: FragmentHeads,
    pub(crate) size: u64,
    pub(crate) heads_bytes_max: usize,
    pub(crate) index: Option<Box<FoundIndex>>,
}

/// The index of the fragments that a file has.
#[derive(Debug)]
pub(crate) struct FoundIndex {
    pub(crate) index: FragmentIndex,
    /// The heads of further fragments that were read together with the first one.
    pub(crate) read_ahead: FragmentHeads,
    /// The heads of the last ones, if the index needs them.
    pub(crate) last: FragmentHeads,
}

impl TitleHeaders {
    /// The headers of a file whose heads were all read, to be stored; `None` if they are of fewer
    /// fragments, or take more bytes.
    pub fn to_bytes(&self, fragments_min: usize, bytes_max: u64) -> Option<Vec<u8>> {
        let places = &self.heads.in_file;
        let numbers = [self.size, self.kept.len() as u64, places.len() as u64];
        let length = 8 * (numbers.len() + places.len()) + self.kept.len() + self.heads.bytes.len();
        if self.index.is_some() || places.len() < fragments_min || length as u64 > bytes_max {
            return None;
        }
        let mut bytes = Vec::with_capacity(length + 64);
        let numbers = numbers.iter().chain(places);
        bytes.extend(numbers.flat_map(|number| number.to_be_bytes()));
        bytes.extend_from_slice(&self.kept);
        bytes.extend_from_slice(&self.heads.bytes);
        Some(bytes)
    }

    /// Headers that were stored; `None` if these are none.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let number = |index: usize| u64_at(bytes, index.checked_mul(8)?);
        let count = usize::try_from(number(2)?).ok()?;
        let kept_at = count.checked_add(3)?.checked_mul(8)?;
        let (kept, heads) = bytes
            .get(kept_at..)?
            .split_at_checked(usize::try_from(number(1)?).ok()?)?;
        let in_file = (3..count + 3).map(number).collect::<Option<Vec<u64>>>()?;
        Some(Self {
            kept: kept.to_vec(),
            heads: FragmentHeads {
                bytes: heads.to_vec(),
                in_file,
            },
            size: number(0)?,
            heads_bytes_max: MOOF_BYTES_MAX,
            index: None,
        })
    }

    /// The fragments of a segment.
    pub(crate) fn fragments<'a>(&'a self, moov: &'a [u8]) -> Fragments<'a> {
        Fragments {
            table_bytes_max: self.heads_bytes_max,
            ..Fragments::of(moov, &self.heads, self.size)
        }
    }
}
