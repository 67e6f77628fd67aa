//! Scan of the headers of a media file, from bytes that are read for viewers, by its format.

use headlong_media::{HeaderFacts, Mp4Progress, Mp4Scan};

use crate::kind::{FileKind, file_kind};
use crate::matroska_scan::MatroskaScan;

/// The scan of one version of one file.
#[derive(Debug)]
pub(crate) enum HeaderScan {
    Mp4(Mp4Scan),
    Matroska(MatroskaScan),
}

/// Progress of a scan.
#[derive(Debug)]
pub(crate) enum HeaderProgress {
    /// Some headers are missing. The facts so far; not known yet if the duration is zero.
    Scanning(HeaderFacts),
    /// All relevant headers were parsed.
    Done(HeaderFacts),
    /// The headers are unusable, with the reason.
    Failed(String),
}

impl HeaderScan {
    /// A scan of a file of `size` bytes; `None` if files of that name have no known headers.
    pub(crate) fn of(path: &str, size: u64) -> Option<Self> {
        match file_kind(path) {
            FileKind::Mp4 => Some(Self::Mp4(Mp4Scan::new(size))),
            FileKind::Matroska => Some(Self::Matroska(MatroskaScan::new(size))),
            _ => None,
        }
    }

    /// The first byte that it still needs; `None` once it has ended.
    pub(crate) fn wants(&self) -> Option<u64> {
        match self {
            Self::Mp4(scan) => scan.wants(),
            Self::Matroska(scan) => scan.wants(),
        }
    }

    /// Takes bytes of the file that begin at `offset`.
    pub(crate) fn take(&mut self, offset: u64, bytes: &[u8]) {
        match self {
            Self::Mp4(scan) => scan.take(offset, bytes),
            Self::Matroska(scan) => scan.take(offset, bytes),
        }
    }

    /// The result so far.
    pub(crate) fn progress(&self) -> HeaderProgress {
        match self {
            Self::Mp4(scan) => match scan.progress() {
                Mp4Progress::Scanning(facts) => HeaderProgress::Scanning(facts),
                Mp4Progress::Done(facts) => HeaderProgress::Done(facts),
                Mp4Progress::Failed(fault) => HeaderProgress::Failed(fault.to_string()),
            },
            Self::Matroska(scan) => match scan.result() {
                None => HeaderProgress::Scanning(HeaderFacts::default()),
                Some(Ok(facts)) => HeaderProgress::Done(facts),
                Some(Err(reason)) => HeaderProgress::Failed(reason.to_owned()),
            },
        }
    }
}
