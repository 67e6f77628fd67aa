//! The message, and the answer.

use crate::latency::{BUCKETS, Latencies};
use crate::{MAGIC, VERSION};

/// Length of every message.
pub const MESSAGE_BYTES: usize = 184;

/// Length of every answer.
pub const ANSWER_BYTES: usize = 8;

/// Which file, as `fstat` says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct FileKey {
    /// `st_dev`.
    pub dev: u64,
    /// `st_ino`.
    pub ino: u64,
}

/// What a message is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The program is about to read bytes that are not in memory; their descriptor comes with it.
    /// It waits for an [`Answer`].
    Ask,
    /// The program reads bytes that were in memory, of a file that it asked for before. No
    /// descriptor: who has one keeps locks of the file alive. Nobody waits.
    Note,
    /// Nothing is read; for the counters only. Nobody waits.
    Count,
    /// How is it? The answer is a text in JSON.
    Status,
    /// The program waited for the disk at a small file; its descriptor comes with it. The length
    /// is how many it found in memory since it last did. It waits for an [`Answer`]. A reception that
    /// does not know this closes the connection, and the program goes on.
    Waited,
}

impl Kind {
    const ALL: [(Self, u16); 5] = [
        (Self::Ask, 1),
        (Self::Note, 2),
        (Self::Count, 3),
        (Self::Status, 4),
        (Self::Waited, 5),
    ];
}

/// What a program says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// What for.
    pub kind: Kind,
    /// The file, of a [`Kind::Note`]; else it is the descriptor's.
    pub file: FileKey,
    /// First byte.
    pub offset: u64,
    /// Bytes, at most [`crate::ASK_BYTES_MAX`]; files, of a [`Kind::Waited`].
    pub length: u64,
    /// Calls that were looked at since the last message.
    pub looked_at: u32,
    /// Of those, calls for bytes that were in memory.
    pub resident: u32,
    /// Waits that the program gave up at its limit, since the last message.
    pub given_up: u32,
    /// How long calls took that were not for bytes in memory, with the wait, since the last message.
    pub latencies: Latencies,
}

impl Message {
    /// A message without counters.
    pub fn new(kind: Kind, file: FileKey, offset: u64, length: u64) -> Self {
        Self {
            kind,
            file,
            offset,
            length,
            looked_at: 0,
            resident: 0,
            given_up: 0,
            latencies: [0; BUCKETS],
        }
    }

    /// As it is sent.
    pub fn encode(&self) -> [u8; MESSAGE_BYTES] {
        let mut bytes = [0; MESSAGE_BYTES];
        let kind = Kind::ALL.iter().find(|(kind, _)| *kind == self.kind);
        let mut writer = Writer(&mut bytes);
        writer.put(&MAGIC);
        writer.put(&VERSION.to_le_bytes());
        writer.put(&kind.map_or(0, |(_, number)| *number).to_le_bytes());
        for number in [self.file.dev, self.file.ino, self.offset, self.length] {
            writer.put(&number.to_le_bytes());
        }
        for number in [self.looked_at, self.resident, self.given_up, 0] {
            writer.put(&number.to_le_bytes());
        }
        for count in self.latencies {
            writer.put(&count.to_le_bytes());
        }
        bytes
    }

    /// What was received; `None` if it is no message of this version.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader(bytes);
        if bytes.len() != MESSAGE_BYTES
            || reader.take()? != MAGIC
            || u16::from_le_bytes(reader.take()?) != VERSION
        {
            return None;
        }
        let number = u16::from_le_bytes(reader.take()?);
        let kind = Kind::ALL.iter().find(|(_, known)| *known == number)?.0;
        let mut long = || reader.take().map(u64::from_le_bytes);
        let file = FileKey {
            dev: long()?,
            ino: long()?,
        };
        let mut message = Self::new(kind, file, long()?, long()?);
        let mut short = || reader.take().map(u32::from_le_bytes);
        message.looked_at = short()?;
        message.resident = short()?;
        message.given_up = short()?;
        short()?;
        for count in &mut message.latencies {
            *count = short()?;
        }
        Some(message)
    }
}

/// What the reception says to a [`Kind::Ask`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// The bytes are in memory.
    Ready,
    /// It does not help now: it is busy, or only counts.
    GoOn,
    /// It will not help with this descriptor: it is of no regular file that is open for reading, of
    /// one that lies on no disk, or of one that the reception may not open.
    LeaveAlone,
}

impl Answer {
    /// As it is sent.
    pub fn encode(self) -> [u8; ANSWER_BYTES] {
        let mut bytes = [0; ANSWER_BYTES];
        let mut writer = Writer(&mut bytes);
        writer.put(&MAGIC);
        writer.put(&VERSION.to_le_bytes());
        let number: u16 = match self {
            Self::Ready => 1,
            Self::GoOn => 2,
            Self::LeaveAlone => 3,
        };
        writer.put(&number.to_le_bytes());
        bytes
    }

    /// What was received; `None` if it is no answer of this version.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        [Self::Ready, Self::GoOn, Self::LeaveAlone]
            .into_iter()
            .find(|answer| answer.encode() == bytes)
    }
}

/// What is left to be written.
struct Writer<'a>(&'a mut [u8]);

impl Writer<'_> {
    fn put(&mut self, bytes: &[u8]) {
        let whole = core::mem::take(&mut self.0);
        let (place, rest) = whole.split_at_mut(bytes.len());
        place.copy_from_slice(bytes);
        self.0 = rest;
    }
}

/// What is left to be read.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message() -> Message {
        let file = FileKey { dev: 7, ino: 9 };
        let mut message = Message::new(Kind::Note, file, 1 << 40, 4096);
        message.looked_at = 3;
        message.resident = 2;
        message.given_up = 1;
        message.latencies[31] = 5;
        message
    }

    #[test]
    fn what_is_sent_is_what_is_received() {
        for (kind, _) in Kind::ALL {
            let sent = Message { kind, ..message() };
            assert_eq!(Message::decode(&sent.encode()), Some(sent));
        }
        for answer in [Answer::Ready, Answer::GoOn, Answer::LeaveAlone] {
            assert_eq!(Answer::decode(&answer.encode()), Some(answer));
        }
    }

    #[test]
    fn what_is_no_message_of_this_version_is_none() {
        let good = message().encode();
        for at in [0, 4, 6] {
            let mut bad = good;
            bad[at] ^= 0x40;
            assert_eq!(Message::decode(&bad), None, "byte {at}");
        }
        assert_eq!(Message::decode(&good[1..]), None);
        assert_eq!(Message::decode(&[]), None);
        assert_eq!(Answer::decode(&good), None);
    }
}
