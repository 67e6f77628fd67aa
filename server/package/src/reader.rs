//! Reads the headers of a file: which bytes are needed next, and the index once they are there.

use alloc::vec::Vec;

use headlong_media::{Mp4BoxHeader, Mp4Fault};
use headlong_units::{ByteRange, Duration, KIB, MIB};

use crate::fault::PackageFault;
use crate::title::Title;

/// Largest `moov` that is kept in memory.
pub const MOOV_BYTES_MAX: u64 = 48 * MIB;
/// Boxes before `moov`.
const BOXES_MAX: u32 = 1000;
/// Most bytes that are wanted before `moov` was found.
const SEARCH_BYTES_MAX: u64 = MIB;
/// Size of a read in the midst of the file.
const NEXT_BYTES: u64 = 64 * KIB;

/// The next step of a reader.
#[derive(Debug)]
pub enum ReadStep {
    /// It needs these bytes of the file: not empty, and inside of it.
    Wants(ByteRange),
    /// The index can be made.
    Ready(TitleHeaders),
}

/// The headers of a file, from which its index is made.
#[derive(Debug)]
pub struct TitleHeaders {
    moov: Vec<u8>,
    size: u64,
}

impl TitleHeaders {
    /// Makes the index, for segments of about `target`; takes milliseconds for a film.
    ///
    /// # Errors
    /// The file cannot be packaged.
    pub fn index(self, target: Duration) -> Result<Title, PackageFault> {
        Title::new(self.moov, self.size, target)
    }
}

/// Reads the headers of one version of a file.
#[derive(Debug)]
pub struct HeaderReader {
    size: u64,
    /// The current box.
    next: u64,
    box_count: u32,
    /// The body of `moov`, once it was found.
    moov: Option<ByteRange>,
    kept: Vec<u8>,
}

impl HeaderReader {
    /// A reader of a file of `size` bytes.
    pub fn new(size: u64) -> Self {
        Self {
            size,
            next: 0,
            box_count: 0,
            moov: None,
            kept: Vec::new(),
        }
    }

    /// Memory that is needed as soon as the wanted bytes have arrived.
    pub fn memory_bytes(&self) -> u64 {
        self.moov.map_or(0, |moov| moov.len())
    }

    /// Takes bytes of the file and tells which ones are needed next; first called without any.
    ///
    /// # Errors
    /// The file cannot be packaged.
    pub fn step(&mut self, offset: u64, bytes: &[u8]) -> Result<ReadStep, PackageFault> {
        while self.moov.is_none() {
            let left = self.size.saturating_sub(self.next);
            if left < 8 {
                let fault = match self.next {
                    0 => Mp4Fault::NotMp4,
                    _ => Mp4Fault::NoMoov,
                };
                return Err(fault.into());
            }
            let here = from(bytes, offset, self.next);
            if (here.len() as u64) < left.min(16) {
                return Ok(ReadStep::Wants(self.header_range(left)));
            }
            self.inspect(here)?;
        }
        let moov = self.moov.unwrap_or_default();
        let at = moov.start + self.kept.len() as u64;
        let here = from(bytes, offset, at);
        let lacking = usize::try_from(moov.end - at).unwrap_or(usize::MAX);
        self.kept
            .extend_from_slice(&here[..here.len().min(lacking)]);
        let rest = ByteRange::new(moov.start + self.kept.len() as u64, moov.end);
        Ok(match rest.is_empty() {
            true => ReadStep::Ready(TitleHeaders {
                moov: core::mem::take(&mut self.kept),
                size: self.size,
            }),
            false => ReadStep::Wants(rest),
        })
    }

    fn header_range(&self, left: u64) -> ByteRange {
        let bytes = match self.next {
            // What follows is wanted next: the rest of `moov`, or the first segment.
            0 => SEARCH_BYTES_MAX,
            // Probably `moov` as a whole.
            _ if left <= SEARCH_BYTES_MAX => left,
            _ => NEXT_BYTES,
        };
        ByteRange::new(self.next, self.next + bytes.min(left))
    }

    fn inspect(&mut self, here: &[u8]) -> Result<(), PackageFault> {
        self.box_count += 1;
        let header = Mp4BoxHeader::read(here, self.next, self.size, false)?;
        let header = header.ok_or(Mp4Fault::NoMoov)?;
        if header.kind == *b"moov" {
            if header.end > self.size {
                return Err(Mp4Fault::Broken(header.kind).into());
            }
            let body = ByteRange::new(self.next + header.header_bytes, header.end);
            if body.len() > MOOV_BYTES_MAX {
                return Err(PackageFault::MoovTooLarge);
            }
            self.kept = Vec::with_capacity(body.len() as usize);
            self.moov = Some(body);
        } else if self.box_count > BOXES_MAX {
            return Err(Mp4Fault::TooLarge.into());
        }
        self.next = header.end;
        Ok(())
    }
}

/// Those of `bytes`, which begin at `offset` of the file, from `at` on.
fn from(bytes: &[u8], offset: u64, at: u64) -> &[u8] {
    let skip = at.checked_sub(offset).map(usize::try_from);
    match skip {
        Some(Ok(skip)) => bytes.get(skip..).unwrap_or_default(),
        _ => &[],
    }
}
