//! The message and the answer.

use crate::latency::{BUCKETS, Latencies};
use crate::{MAGIC, VERSION};

/// Length of every message.
pub const MESSAGE_BYTES: usize = 184;

/// Length of every answer.
pub const ANSWER_BYTES: usize = 8;

/// Identity of a file, as returned by `fstat`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct FileKey {
    /// `st_dev`.
    pub dev: u64,
    /// `st_ino`.
    pub ino: u64,
}

/// Purpose of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MessageKind {
    /// The program is about to read bytes that are not in memory. The descriptor is attached, and
    /// the program waits for an [`Answer`].
    Ask,
    /// The program reads bytes that were in memory, of a file that it requested before. No
    /// descriptor is attached, because holding one would keep locks of the file alive. No answer.
    Note,
    /// Carries the counters only. No answer.
    Count,
    /// Requests the daemon's status. The answer is a JSON text.
    Status,
    /// The program waited for the disk at a small file. The descriptor is attached, the length is
    /// the number of small files found in memory since the last such message, and the program waits
    /// for an [`Answer`]. A daemon that does not support this kind closes the connection, and the
    /// program continues.
    Waited,
}

impl MessageKind {
    const ALL: [(Self, u16); 5] = [
        (Self::Ask, 1),
        (Self::Note, 2),
        (Self::Count, 3),
        (Self::Status, 4),
        (Self::Waited, 5),
    ];
}

/// A message of the program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Its purpose.
    pub kind: MessageKind,
    /// The file, for a [`MessageKind::Note`]; otherwise the attached descriptor identifies it.
    pub file: FileKey,
    /// First byte.
    pub offset: u64,
    /// Bytes, at most [`crate::REQUEST_BYTES_MAX`]; number of files for a [`MessageKind::Waited`].
    pub length: u64,
    /// Calls intercepted since the last message.
    pub looked_at: u32,
    /// Of those, calls whose bytes were in memory.
    pub resident: u32,
    /// Waits that timed out since the last message.
    pub given_up: u32,
    /// Latencies, including the wait, of calls whose bytes were not in memory, since the last
    /// message.
    pub latencies: Latencies,
}

impl Message {
    /// A message without counters.
    pub fn new(kind: MessageKind, file: FileKey, offset: u64, length: u64) -> Self {
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

    /// Encodes the message.
    pub fn encode(&self) -> [u8; MESSAGE_BYTES] {
        let mut bytes = [0; MESSAGE_BYTES];
        let kind = MessageKind::ALL.iter().find(|(kind, _)| *kind == self.kind);
        let mut writer = MessageWriter(&mut bytes);
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

    /// Decodes a message; `None` if it is invalid or of another version.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut reader = MessageReader(bytes);
        if bytes.len() != MESSAGE_BYTES
            || reader.take()? != MAGIC
            || u16::from_le_bytes(reader.take()?) != VERSION
        {
            return None;
        }
        let number = u16::from_le_bytes(reader.take()?);
        let kind = MessageKind::ALL
            .iter()
            .find(|(_, known)| *known == number)?
            .0;
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

/// The daemon's answer to a [`MessageKind::Ask`] or [`MessageKind::Waited`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// The bytes are in memory.
    Ready,
    /// No help now: the daemon is busy, or only counts.
    GoOn,
    /// No help with this descriptor: it is not a regular file open for reading, not on a disk, or
    /// not readable by the daemon.
    LeaveAlone,
}

impl Answer {
    /// Encodes the answer.
    pub fn encode(self) -> [u8; ANSWER_BYTES] {
        let mut bytes = [0; ANSWER_BYTES];
        let mut writer = MessageWriter(&mut bytes);
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

    /// Decodes an answer; `None` if it is invalid or of another version.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        [Self::Ready, Self::GoOn, Self::LeaveAlone]
            .into_iter()
            .find(|answer| answer.encode() == bytes)
    }
}

/// The part of a buffer still to be written.
struct MessageWriter<'a>(&'a mut [u8]);

impl MessageWriter<'_> {
    fn put(&mut self, bytes: &[u8]) {
        let whole = core::mem::take(&mut self.0);
        let (place, rest) = whole.split_at_mut(bytes.len());
        place.copy_from_slice(bytes);
        self.0 = rest;
    }
}

/// The part of a buffer still to be read.
struct MessageReader<'a>(&'a [u8]);

impl MessageReader<'_> {
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
        let mut message = Message::new(MessageKind::Note, file, 1 << 40, 4096);
        message.looked_at = 3;
        message.resident = 2;
        message.given_up = 1;
        message.latencies[31] = 5;
        message
    }

    #[test]
    fn messages_and_answers_round_trip() {
        for (kind, _) in MessageKind::ALL {
            let sent = Message { kind, ..message() };
            assert_eq!(Message::decode(&sent.encode()), Some(sent));
        }
        for answer in [Answer::Ready, Answer::GoOn, Answer::LeaveAlone] {
            assert_eq!(Answer::decode(&answer.encode()), Some(answer));
        }
    }

    #[test]
    fn invalid_messages_are_rejected() {
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
