//! Requests, chains and files.

use serde::{Deserialize, Serialize};

/// Offset of a request whose position in the file is unknown. It belongs to no chain.
pub const UNPLACED: u64 = u64::MAX;

/// One line of a request log, with names replaced by numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// Line number in the log; used only as the last tie-break (A9).
    pub line: u64,
    /// Session number.
    pub session: u32,
    /// File number.
    pub file: u32,
    /// Time of arrival: completion minus service time, ms since a fixed epoch (A1).
    pub received_ms: i64,
    /// Time of completion, ms.
    pub completed_ms: i64,
    /// First byte requested.
    pub offset: u64,
    /// Bytes requested; `None` for an open-ended request.
    pub asked_bytes: Option<u64>,
    /// Bytes sent.
    pub sent_bytes: u64,
    /// Drive that served it, if the log has it; otherwise 0.
    pub disk: u16,
    /// Type of the viewer's device, if the log has it; otherwise 0.
    pub device: u16,
}

impl Request {
    /// End of the bytes sent, whatever was requested (A3, A4).
    pub const fn end(&self) -> u64 {
        self.offset.saturating_add(self.sent_bytes)
    }

    /// Whether its position in the file is known.
    pub const fn is_placed(&self) -> bool {
        self.offset != UNPLACED
    }

    /// Whether it can belong to a chain: replies without body bytes cannot (A7), nor can requests
    /// at impossible offsets.
    pub const fn takes_part(&self) -> bool {
        self.end() > self.offset
    }
}

/// Requests of one session for one file that continue each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chain {
    /// Session number.
    pub session: u32,
    /// File number.
    pub file: u32,
    /// Its lowest offset, bytes.
    pub start: u64,
    /// Bytes from the lowest offset to the highest end.
    pub length: u64,
    /// First arrival, ms (A10).
    pub start_ms: i64,
    /// Last completion, ms (A10).
    pub end_ms: i64,
    /// Whether the request at its lowest offset is open-ended (A5).
    pub is_open: bool,
    /// Whether it also contains requests of the other type (A5).
    pub is_mixed: bool,
    /// Number of requests.
    pub requests: u32,
    /// The drive of the request at its lowest offset.
    pub disk: u16,
}

impl Chain {
    /// From the first arrival to the last completion, ms (A10).
    pub const fn duration_ms(&self) -> i64 {
        self.end_ms.saturating_sub(self.start_ms)
    }
}

/// Contents of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum ContentKind {
    /// Audio only: 0 in a files table.
    Audio,
    /// Video only: 1.
    Video,
    /// Both: 2.
    Combined,
}

impl ContentKind {
    /// All kinds, in order of their numbers.
    pub const ALL: [Self; 3] = [Self::Audio, Self::Video, Self::Combined];

    /// Its number in a files table.
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// Its name in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Audio => "audio",
            Self::Video => "video",
            Self::Combined => "combined",
        }
    }
}

/// One row of a files table.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct FileInfo {
    /// Title number.
    pub title: u32,
    /// Contents of the file.
    pub kind: ContentKind,
    /// Nominal bit rate, kbit/s.
    pub kbps: u32,
    /// Size, bytes.
    pub size_bytes: u64,
    /// Drive that stores it.
    pub disk: u16,
    /// Play time, s.
    pub duration_s: f64,
    /// Whether kind or bit rate were estimated, because no table has them.
    pub is_estimated: bool,
}
