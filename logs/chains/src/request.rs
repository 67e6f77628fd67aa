//! What a log says, and what becomes of it.

/// The offset of a request of which nothing says where in the file it began. It takes part in no
/// chain.
pub const UNPLACED: u64 = u64::MAX;

/// One line of a request log, its names replaced by numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// Place in the log; the last tie-break and nothing else (A9).
    pub line: u64,
    /// Whose.
    pub session: u32,
    /// Of which file.
    pub file: u32,
    /// When it was received: completion less time of service, ms from any fixed moment (A1).
    pub received_ms: i64,
    /// When it was done, ms.
    pub completed_ms: i64,
    /// First byte asked for.
    pub offset: u64,
    /// Bytes asked for; `None` for an open-ended request.
    pub asked_bytes: Option<u64>,
    /// Bytes sent.
    pub sent_bytes: u64,
    /// The drive it was served from, if the log tells; 0 otherwise.
    pub disk: u16,
    /// Type of the viewer's device, if the log tells; 0 otherwise.
    pub device: u16,
}

impl Request {
    /// Where it ended: after the bytes that were sent, asked for or not (A3, A4).
    pub const fn end(&self) -> u64 {
        self.offset.saturating_add(self.sent_bytes)
    }

    /// Whether it is known where in the file it began.
    pub const fn is_placed(&self) -> bool {
        self.offset != UNPLACED
    }

    /// Whether it is part of a chain at all: replies without a byte are not (A7), nor are such as
    /// begin where no byte can be.
    pub const fn takes_part(&self) -> bool {
        self.end() > self.offset
    }
}

/// Requests of one session for one file that continue each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chain {
    /// Whose.
    pub session: u32,
    /// Of which file.
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
    /// Whether requests of the other kind are in it too (A5).
    pub is_mixed: bool,
    /// Requests in it.
    pub requests: u32,
    /// The drive of the request at its lowest offset.
    pub disk: u16,
}

impl Chain {
    /// From its first arrival to its last completion, ms (A10).
    pub const fn duration_ms(&self) -> i64 {
        self.end_ms.saturating_sub(self.start_ms)
    }
}

/// What is in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Sound alone: 0 in a files table.
    Audio,
    /// Pictures alone: 1.
    Video,
    /// Both: 2.
    Combined,
}

impl Kind {
    /// All of them, in order of their numbers.
    pub const ALL: [Self; 3] = [Self::Audio, Self::Video, Self::Combined];

    /// Its number in a files table.
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// What tables call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Audio => "audio",
            Self::Video => "video",
            Self::Combined => "combined",
        }
    }
}

/// One line of a files table.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FileInfo {
    /// Of which title.
    pub title: u32,
    /// What is in it.
    pub kind: Kind,
    /// Its bit rate, kbit/s.
    pub kbps: u32,
    /// Its size, bytes.
    pub size_bytes: u64,
    /// The drive it lies on.
    pub disk: u16,
    /// How long it plays, s.
    pub duration_s: f64,
    /// Whether kind or bit rate were estimated because no table told them.
    pub is_estimated: bool,
}
