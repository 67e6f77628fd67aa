//! An MP4 file in words: the first is how many bytes long it is made with zeros, if it is shorter.
//!
//! `(moov` begins a box whose length is counted, `)` ends it; `0x00ff` are bytes, `*20` so many
//! zeros, `1000` a number in four bytes; any other word stands for itself, so that `9 free x` is a
//! box whose length was written by hand.

use std::fs::File;
use std::io::Write as _;

use headlong_library::read_mp4_header;
use rustix::fs::{MemfdFlags, memfd_create};

/// Files are made no longer than this.
const FILE_BYTES_MAX: u64 = 128 << 20;
/// Zeros that one word makes at most.
const ZEROS_MAX: usize = 4096;
/// Tracks kept of one file.
const TRACKS_MAX: usize = 64;

/// Either a header of bounded size, or one sentence that says why not.
pub fn run(data: &[u8]) {
    let mut words = data
        .split(u8::is_ascii_whitespace)
        .filter(|word| !word.is_empty());
    let size_min = crate::number(words.next().unwrap_or_default()) % FILE_BYTES_MAX;
    let bytes = assemble(words);
    let file = memfd_create("mp4_header", MemfdFlags::CLOEXEC).expect("memory for a file");
    let mut file = File::from(file);
    file.write_all(&bytes).expect("memory for its bytes");
    let size = size_min.max(bytes.len() as u64);
    file.set_len(size).expect("memory for its end");
    match read_mp4_header(&file, size) {
        Ok(header) => {
            assert!(header.tracks.len() <= TRACKS_MAX);
            let rate = header.bit_rate(size);
            assert!(rate.is_none_or(|rate| rate.0 > 0));
        }
        Err(error) => {
            let text = error.to_string();
            assert!(!text.contains('\n') && text.len() < 200, "{text}");
        }
    }
}

fn assemble<'a>(words: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
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

/// Writes the length of a box in front of it.
fn close(bytes: &mut [u8], start: Option<usize>) {
    if let Some(start) = start {
        let length = (bytes.len() - start) as u32;
        bytes[start..start + 4].copy_from_slice(&length.to_be_bytes());
    }
}
