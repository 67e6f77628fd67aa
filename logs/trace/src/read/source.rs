//! Reads the bytes of a log, decompressed and split into blocks of whole lines.
//!
//! A free thread takes the next block under the source's lock, which costs a copy (or
//! decompression) and counting its lines, and parses it outside the lock. So a plain file is parsed
//! on all cores, several compressed files are also decompressed in parallel, and every line has its
//! number.

use std::fs::File;
use std::io::{self, Cursor, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Bytes parsed at a time, and the longest line.
pub(crate) const BLOCK_BYTES: usize = 1 << 20;

/// Bytes used to recognise formats and copies.
pub(crate) const HEAD_BYTES: usize = 64 << 10;

/// Fewer line ends than this in a head mean that its lines are long; more of it is read.
const HEAD_LINES_MIN: usize = 4;
/// Longest head.
const HEAD_BYTES_MAX: usize = 2 * BLOCK_BYTES;

/// Compression format of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Compression {
    Plain,
    Gzip,
    Zstd,
    /// A Parquet table, read by other code.
    Parquet,
    /// An unsupported format.
    Other(&'static str),
}

impl Compression {
    fn of(head: &[u8]) -> Self {
        match head {
            [0x1f, 0x8b, ..] => Self::Gzip,
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Self::Zstd,
            // A skippable frame, as at the start of pzstd files (RFC 8878, section 3.1.2).
            [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Self::Zstd,
            [b'P', b'A', b'R', b'1', ..] => Self::Parquet,
            [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Self::Other("xz"),
            [b'B', b'Z', b'h', b'1'..=b'9', ..] => Self::Other("bzip2"),
            [b'P', b'K', 3, 4, ..] => Self::Other("zip"),
            _ => Self::Plain,
        }
    }
}

/// The head of a log.
pub(crate) struct LogHead {
    /// Its first bytes, decompressed.
    pub(crate) bytes: Vec<u8>,
    pub(crate) packing: Compression,
    /// Size on disk; `None` for standard input and other streams.
    pub(crate) packed_bytes: Option<u64>,
    /// Uncompressed size, if known; an estimate for gzip.
    pub(crate) bytes_total: Option<u64>,
    /// Standard input, starting with the bytes already read.
    pub(crate) input: Option<Box<dyn Read + Send>>,
}

/// Reads the head of a log.
pub(crate) fn look(path: &Path, read_bytes: &Arc<AtomicU64>) -> io::Result<LogHead> {
    if path == Path::new("-") {
        return look_at_stream(Box::new(io::stdin()), read_bytes);
    }
    let mut file = File::open(path)?;
    let about = file.metadata()?;
    if about.is_dir() {
        return Err(io::Error::from(io::ErrorKind::IsADirectory));
    }
    if !about.is_file() {
        return look_at_stream(Box::new(file), read_bytes);
    }
    let mut magic = Vec::new();
    (&mut file).take(8).read_to_end(&mut magic)?;
    let packing = Compression::of(&magic);
    let bytes_total = match packing {
        Compression::Plain => Some(about.len()),
        Compression::Gzip => gzip_size(&mut file, about.len()),
        _ => None,
    };
    file.seek(SeekFrom::Start(0))?;
    let mut bytes = Vec::new();
    // A compressed file may be truncated within its head; the available bytes suffice.
    let unpacked = unpack(Box::new(file), packing)?;
    let outcome = read_head(unpacked, &mut bytes);
    if bytes.is_empty() {
        outcome?;
    }
    Ok(LogHead {
        bytes,
        packing,
        packed_bytes: Some(about.len()),
        bytes_total,
        input: None,
    })
}

/// Reads the head of a stream that can be read only once.
pub(crate) fn look_at_stream(
    mut stream: Box<dyn Read + Send>,
    read_bytes: &Arc<AtomicU64>,
) -> io::Result<LogHead> {
    let mut magic = Vec::new();
    stream.as_mut().take(8).read_to_end(&mut magic)?;
    let packing = Compression::of(&magic);
    let counted = CountingReader {
        inner: Box::new(Cursor::new(magic).chain(stream)),
        read_bytes: Arc::clone(read_bytes),
    };
    let mut input = unpack(Box::new(counted), packing)?;
    let mut bytes = Vec::new();
    let outcome = read_head(&mut *input, &mut bytes);
    if bytes.is_empty() {
        outcome?;
    }
    let again = Cursor::new(bytes.clone()).chain(input);
    Ok(LogHead {
        bytes,
        packing,
        packed_bytes: None,
        bytes_total: None,
        input: Some(Box::new(again)),
    })
}

/// Reads enough of a log to recognise it, which takes some whole lines.
fn read_head(mut input: impl Read, bytes: &mut Vec<u8>) -> io::Result<()> {
    let mut end = HEAD_BYTES;
    loop {
        let missing = end - bytes.len();
        input.by_ref().take(missing as u64).read_to_end(bytes)?;
        let is_whole = bytes.len() < end || end >= HEAD_BYTES_MAX;
        if is_whole || memchr::memchr_iter(b'\n', bytes).count() >= HEAD_LINES_MIN {
            return Ok(());
        }
        end *= 2;
    }
}

fn unpack(input: Box<dyn Read + Send>, packing: Compression) -> io::Result<Box<dyn Read + Send>> {
    Ok(match packing {
        Compression::Gzip => Box::new(flate2::read::MultiGzDecoder::new(input)),
        Compression::Zstd => Box::new(zstd::stream::read::Decoder::new(input)?),
        Compression::Plain | Compression::Parquet | Compression::Other(_) => input,
    })
}

/// Whether a file starts with the contents of another, both decompressed and compared in full.
pub(crate) fn is_beginning(
    (small, small_packing): (&Path, Compression),
    (large, large_packing): (&Path, Compression),
) -> io::Result<bool> {
    let open = |path: &Path, packing| unpack(Box::new(File::open(path)?), packing);
    let mut small = open(small, small_packing)?;
    let mut large = open(large, large_packing)?;
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    loop {
        ours.clear();
        theirs.clear();
        small
            .as_mut()
            .take(HEAD_BYTES as u64)
            .read_to_end(&mut ours)?;
        large
            .as_mut()
            .take(ours.len() as u64)
            .read_to_end(&mut theirs)?;
        if ours != theirs {
            return Ok(false);
        }
        if ours.is_empty() {
            return Ok(true);
        }
    }
}

/// The size stored at the end of a gzip file: that of its last member, so the total only for a
/// single member of less than 4 GiB.
fn gzip_size(file: &mut File, packed_bytes: u64) -> Option<u64> {
    if !(20..1 << 31).contains(&packed_bytes) {
        return None;
    }
    let mut size = [0; 4];
    file.seek(SeekFrom::End(-4)).ok()?;
    file.read_exact(&mut size).ok()?;
    Some(u64::from(u32::from_le_bytes(size)))
}

/// Counts bytes read, for progress reports.
struct CountingReader {
    inner: Box<dyn Read + Send>,
    read_bytes: Arc<AtomicU64>,
}

impl Read for CountingReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.read_bytes.fetch_add(count as u64, Relaxed);
        Ok(count)
    }
}

/// A block of whole lines.
#[derive(Debug, Default)]
pub(crate) struct LineBlock {
    pub(crate) bytes: Vec<u8>,
    /// Number of its first line, from 1.
    pub(crate) line_first: u64,
    /// Whether its last line ends the input without a line end.
    pub(crate) is_cut: bool,
    /// Numbers of overlong lines before it.
    pub(crate) too_long: Vec<u64>,
}

/// A log being read.
pub(crate) struct BlockReader {
    input: Box<dyn Read + Send>,
    carry: Vec<u8>,
    line: u64,
    is_ended: bool,
    is_skipping: bool,
    /// The error that ended it early.
    pub(crate) trouble: Option<io::Error>,
}

impl BlockReader {
    /// Opens a log whose head was read.
    pub(crate) fn open(
        path: &PathBuf,
        packing: Compression,
        input: Option<Box<dyn Read + Send>>,
        read_bytes: &Arc<AtomicU64>,
    ) -> io::Result<Self> {
        let input = match input {
            Some(input) => input,
            None => {
                let counted = CountingReader {
                    inner: Box::new(File::open(path)?),
                    read_bytes: Arc::clone(read_bytes),
                };
                unpack(Box::new(counted), packing)?
            }
        };
        Ok(Self::new(input))
    }

    /// Blocks of plain bytes.
    pub(crate) fn new(input: Box<dyn Read + Send>) -> Self {
        Self {
            input,
            carry: Vec::new(),
            line: 1,
            is_ended: false,
            is_skipping: false,
            trouble: None,
        }
    }

    /// Reads the next block, reusing the memory of the last; returns whether there was one.
    pub(crate) fn next(&mut self, block: &mut LineBlock) -> bool {
        let bytes = &mut block.bytes;
        bytes.clear();
        block.too_long.clear();
        block.is_cut = false;
        while !self.is_ended {
            bytes.append(&mut self.carry);
            let is_first = self.line == 1 && !self.is_skipping && bytes.is_empty();
            self.fill(bytes);
            if is_first && bytes.starts_with(b"\xef\xbb\xbf") {
                bytes.drain(..3);
            }
            if self.is_skipping && !self.skip(bytes) {
                continue;
            }
            if self.is_ended {
                break;
            }
            match memchr::memrchr(b'\n', bytes) {
                Some(end) => {
                    self.carry.extend_from_slice(&bytes[end + 1..]);
                    bytes.truncate(end + 1);
                    break;
                }
                None if bytes.len() > BLOCK_BYTES => {
                    block.too_long.push(self.line);
                    self.is_skipping = true;
                    bytes.clear();
                }
                None => std::mem::swap(bytes, &mut self.carry),
            }
        }
        block.line_first = self.line;
        block.is_cut = self.is_ended && bytes.last().is_some_and(|last| *last != b'\n');
        self.line += memchr::memchr_iter(b'\n', bytes).count() as u64;
        !bytes.is_empty() || !block.too_long.is_empty()
    }

    fn fill(&mut self, bytes: &mut Vec<u8>) {
        let outcome = self
            .input
            .as_mut()
            .take(BLOCK_BYTES as u64)
            .read_to_end(bytes);
        match outcome {
            Ok(count) => self.is_ended = count < BLOCK_BYTES,
            Err(error) => {
                self.is_ended = true;
                self.trouble = Some(error);
            }
        }
    }

    /// Skips the rest of an overlong line; returns whether its end was reached.
    fn skip(&mut self, bytes: &mut Vec<u8>) -> bool {
        match memchr::memchr(b'\n', bytes) {
            Some(end) => {
                bytes.drain(..=end);
                self.line += 1;
                self.is_skipping = false;
                true
            }
            None => {
                bytes.clear();
                false
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocks(text: Vec<u8>) -> Vec<(u64, Vec<u8>, bool, Vec<u64>)> {
        let mut blocks = BlockReader::new(Box::new(Cursor::new(text)));
        let mut block = LineBlock::default();
        let mut all = Vec::new();
        while blocks.next(&mut block) {
            all.push((
                block.line_first,
                block.bytes.clone(),
                block.is_cut,
                block.too_long.clone(),
            ));
        }
        all
    }

    #[test]
    fn blocks_hold_whole_lines_with_their_numbers() {
        let line = b"0123456789abcdef\n";
        let lines = 3 * BLOCK_BYTES / line.len();
        let text = line.repeat(lines);
        let blocks = blocks(text.clone());
        assert!(blocks.len() >= 3);
        let mut expected = 1;
        for (first, bytes, is_cut, _) in &blocks {
            assert_eq!(*first, expected);
            assert!(bytes.ends_with(b"\n") && !is_cut);
            expected += (bytes.len() / line.len()) as u64;
        }
        let joined: Vec<u8> = blocks.into_iter().flat_map(|block| block.1).collect();
        assert!(joined == text);
    }

    #[test]
    fn last_line_may_be_unterminated() {
        assert_eq!(
            blocks(b"a\nb".to_vec()),
            [(1, b"a\nb".to_vec(), true, vec![])]
        );
        assert_eq!(
            blocks(b"a\n".to_vec()),
            [(1, b"a\n".to_vec(), false, vec![])]
        );
        assert!(blocks(Vec::new()).is_empty());
    }

    #[test]
    fn overlong_line_is_skipped() {
        let mut text = b"a\n".to_vec();
        text.extend(std::iter::repeat_n(b'x', 5 * BLOCK_BYTES / 2));
        text.extend_from_slice(b"\nb\n");
        let blocks = blocks(text);
        let lines: Vec<(u64, &[u8])> = blocks.iter().map(|b| (b.0, b.1.as_slice())).collect();
        assert_eq!(lines, [(1, &b"a\n"[..]), (3, b"b\n")]);
        assert_eq!(blocks[1].3, [2]);
    }

    #[test]
    fn byte_order_mark_is_removed() {
        let blocks = blocks(b"\xef\xbb\xbfa\n".to_vec());
        assert_eq!(blocks[0].1, b"a\n");
    }
}
