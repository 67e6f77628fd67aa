//! Input: an MP4 file as words. The first is the minimal file size; shorter files are zero-padded.
//!
//! `(moov` opens a box whose length is computed, `)` closes it; `0x00ff` are bytes, `*20` is 20
//! zeros, `1000` is a number of four bytes. Any other word is literal, so `9 free x` is a box with
//! an explicit length.

use headlong_media::{Mp4Progress, Mp4Scan};

/// Largest file size.
const FILE_BYTES_MAX: u64 = 128 << 20;
/// Most zeros of one word.
const ZEROS_MAX: usize = 4096;
/// Most bytes passed to the scan at once.
const PIECE_BYTES: usize = 4096;

/// A scan gives facts or an error of one line, and the same result for any piece size.
pub fn run(data: &[u8]) {
    let mut words = data
        .split(u8::is_ascii_whitespace)
        .filter(|word| !word.is_empty());
    let size_min = crate::input::number(words.next().unwrap_or_default()) % FILE_BYTES_MAX;
    let bytes = assemble(words);
    let size = size_min.max(bytes.len() as u64);
    let progress = scan(&bytes, size, PIECE_BYTES);
    match progress {
        Mp4Progress::Done(facts) | Mp4Progress::Scanning(facts) => {
            let rate = facts.bit_rate(size);
            assert!(rate.is_none_or(|rate| rate.0 > 0));
        }
        Mp4Progress::Failed(fault) => {
            let text = fault.to_string();
            assert!(!text.contains('\n') && text.len() < 200, "{text}");
        }
    }
    assert_eq!(scan(&bytes, size, 13), progress);
}

/// Runs a scan over a file of these bytes followed by zeros.
fn scan(bytes: &[u8], size: u64, piece_bytes: usize) -> Mp4Progress {
    let mut scan = Mp4Scan::new(size);
    while let Some(at) = scan.wants() {
        assert!(at < size, "the scan reads beyond the file");
        let rest = usize::try_from(at).ok().and_then(|at| bytes.get(at..));
        match rest.filter(|rest| !rest.is_empty()) {
            Some(rest) => scan.take(at, &rest[..rest.len().min(piece_bytes)]),
            None => {
                let left = usize::try_from(size - at).unwrap_or(piece_bytes);
                scan.take(at, &[0; PIECE_BYTES][..left.min(piece_bytes)]);
            }
        }
    }
    scan.progress()
}

/// The bytes of a file that is given as words.
pub(crate) fn assemble<'a>(words: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut open = Vec::new();
    for word in words {
        let text = str::from_utf8(word).unwrap_or_default();
        if let Some(kind) = word.strip_prefix(b"(") {
            open.push(bytes.len());
            bytes.extend([0; 4]);
            bytes.extend(kind);
        } else if word == b")" {
            close(&mut bytes, open.pop());
        } else if let Some(digits) = text.strip_prefix("0x").filter(|digits| is_hex(digits)) {
            let pairs = digits.as_bytes().chunks(2);
            let byte = |pair: &[u8]| u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok();
            bytes.extend(pairs.filter_map(byte));
        } else if let Some(count) = text.strip_prefix('*').and_then(|count| count.parse().ok()) {
            bytes.resize(bytes.len() + ZEROS_MAX.min(count), 0);
        } else if let Ok(number) = text.parse::<u32>() {
            bytes.extend(number.to_be_bytes());
        } else {
            bytes.extend(word);
        }
    }
    while !open.is_empty() {
        close(&mut bytes, open.pop());
    }
    bytes
}

fn is_hex(digits: &str) -> bool {
    digits.bytes().all(|digit| digit.is_ascii_hexdigit())
}

/// Writes the length of a box into its header.
fn close(bytes: &mut [u8], start: Option<usize>) {
    if let Some(start) = start {
        let length = (bytes.len() - start) as u32;
        bytes[start..start + 4].copy_from_slice(&length.to_be_bytes());
    }
}
