//! Paths of files as text.
//!
//! A file name of Linux is bytes, usually UTF-8. The text of a path is those bytes; each byte that
//! is no UTF-8 is one character of U+EF80 to U+EFFF, as in OPTU-8 of MirBSD, and so is each byte of
//! a character that lies in that range itself. Every path thus has one text, and every text one
//! path; ASCII, and so slashes, dots and extensions, stays as it is.

use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;

/// Character of the byte 0; only those of bytes from 0x80 on occur.
const ESCAPE: u32 = 0xEF00;

/// The character for a byte that is no UTF-8.
fn escape(byte: u8) -> char {
    char::from_u32(ESCAPE + u32::from(byte)).unwrap_or(char::REPLACEMENT_CHARACTER)
}

/// The byte that a character stands for, if it stands for one.
fn escaped(character: char) -> Option<u8> {
    let byte = u32::from(character).checked_sub(ESCAPE)?;
    u8::try_from(byte).ok().filter(|byte| *byte >= 0x80)
}

/// The text of a path. Borrowed if the path is UTF-8 without characters of U+EF80 to U+EFFF.
pub fn path_text(path: &[u8]) -> Cow<'_, str> {
    if let Ok(text) = core::str::from_utf8(path)
        && !has_escapes(text)
    {
        return Cow::Borrowed(text);
    }
    let mut text = String::with_capacity(path.len() + 16);
    for chunk in path.utf8_chunks() {
        for character in chunk.valid().chars() {
            match escaped(character) {
                Some(_) => {
                    let mut bytes = [0; 4];
                    let bytes = character.encode_utf8(&mut bytes).bytes();
                    text.extend(bytes.map(escape));
                }
                None => text.push(character),
            }
        }
        text.extend(chunk.invalid().iter().copied().map(escape));
    }
    Cow::Owned(text)
}

/// The path of a text, the inverse of [`path_text`].
pub fn path_bytes(text: &str) -> Cow<'_, [u8]> {
    if !has_escapes(text) {
        return Cow::Borrowed(text.as_bytes());
    }
    let mut path = Vec::with_capacity(text.len());
    for character in text.chars() {
        match escaped(character) {
            Some(byte) => path.push(byte),
            None => {
                let mut bytes = [0; 4];
                path.extend_from_slice(character.encode_utf8(&mut bytes).as_bytes());
            }
        }
    }
    Cow::Owned(path)
}

/// A text for people: U+FFFD stands for what is no UTF-8.
pub fn shown_path(text: &str) -> Cow<'_, str> {
    match path_bytes(text) {
        Cow::Borrowed(_) => Cow::Borrowed(text),
        Cow::Owned(path) => Cow::Owned(String::from_utf8_lossy(&path).into_owned()),
    }
}

fn has_escapes(text: &str) -> bool {
    // The first byte of their encoding, which rules out ASCII quickly.
    text.as_bytes().contains(&0xEE) && text.chars().any(|of| escaped(of).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn utf8_path_is_its_own_text() {
        for text in ["a/b c.mp4", "été/ü.mp4", "\u{f8ff}\u{ee00}\u{f000}", ""] {
            assert!(matches!(path_text(text.as_bytes()), Cow::Borrowed(of) if of == text));
            assert_eq!(&*path_bytes(text), text.as_bytes());
            assert_eq!(shown_path(text), text);
        }
    }

    #[test]
    fn bytes_outside_utf8_are_kept_and_shown_as_replacement() {
        let path = b"old/caf\xe9.mp4";
        let text = path_text(path);
        assert_eq!(text, "old/caf\u{efe9}.mp4");
        assert_eq!(&*path_bytes(&text), path);
        assert_eq!(shown_path(&text), "old/caf\u{fffd}.mp4");
    }

    #[test]
    fn two_paths_never_have_one_text() {
        let mut seen: BTreeMap<String, Vec<u8>> = BTreeMap::new();
        let parts: [&[u8]; 7] = [
            b"a",
            b"\xe9",
            b"\xee",
            b"\xbe\x80",
            "\u{ef80}".as_bytes(),
            "\u{efe9}".as_bytes(),
            "ü".as_bytes(),
        ];
        for first in parts {
            for second in parts {
                for third in parts {
                    let path = [first, second, third].concat();
                    let text = path_text(&path).into_owned();
                    assert_eq!(*path_bytes(&text), path);
                    let before = seen.insert(text, path.clone());
                    assert!(before.is_none_or(|before| before == path), "{path:?}");
                }
            }
        }
    }
}
