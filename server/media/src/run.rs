//! Numbered files without a manifest: `seg-00012.ts` follows `seg-00011.ts`, and belongs to another
//! run than `seg-a-00012.ts`.

use alloc::vec::Vec;

/// A longer number is no count of segments.
const DIGITS_MAX: usize = 19;

/// The names that differ from `name` only in their number, in the order of the numbers; includes
/// `name` itself if it is among them. Empty if it has no number. The number is the last one before
/// the extension.
///
/// ```
/// let names: [&[u8]; 4] = [b"s10.m4s", b"s9.m4s", b"a9.m4s", b"init.m4s"];
/// assert_eq!(headlong_media::numbered_run(b"s9.m4s", names), [b"s9.m4s" as &[u8], b"s10.m4s"]);
/// ```
pub fn numbered_run<'n>(name: &[u8], names: impl IntoIterator<Item = &'n [u8]>) -> Vec<&'n [u8]> {
    let Some((before, _, behind)) = run_of(name) else {
        return Vec::new();
    };
    let numbered = names.into_iter().filter_map(|other| {
        let (start, count, end) = run_of(other)?;
        (start == before && end == behind).then_some((count, other))
    });
    let mut run: Vec<(u64, &[u8])> = numbered.collect();
    run.sort_unstable();
    run.into_iter().map(|(_, name)| name).collect()
}

/// The common parts of the names of a run, before and after the number, and the number between
/// them. `None` if there is no number.
///
/// ```
/// let parts: (&[u8], u64, &[u8]) = (b"s", 9, b".m4s");
/// assert_eq!(headlong_media::run_of(b"s9.m4s"), Some(parts));
/// ```
pub fn run_of(name: &[u8]) -> Option<(&[u8], u64, &[u8])> {
    let stem = match name.iter().rposition(|byte| *byte == b'.') {
        None | Some(0) => name.len(),
        Some(dot) => dot,
    };
    let is_digit = |byte: &u8| byte.is_ascii_digit();
    let end = name[..stem].iter().rposition(is_digit)? + 1;
    let start = name[..end].iter().rposition(|byte| !is_digit(byte));
    let start = start.map_or(0, |before| before + 1);
    let digits = &name[start..end];
    if digits.len() > DIGITS_MAX {
        return None;
    }
    let add = |count: u64, digit: &u8| count * 10 + u64::from(digit - b'0');
    Some((&name[..start], digits.iter().fold(0, add), &name[end..]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::String;

    fn run(name: &str, names: &[&str]) -> Vec<String> {
        let names = names.iter().map(|name| name.as_bytes());
        let run = numbered_run(name.as_bytes(), names);
        let text = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
        run.into_iter().map(text).collect()
    }

    #[test]
    fn segments_are_ordered_by_number_whatever_its_width() {
        let names = ["v/2", "v/10", "v/1", "v/00003"];
        assert_eq!(run("v/1", &names), ["v/1", "v/2", "v/00003", "v/10"]);
    }

    #[test]
    fn other_rendition_is_another_run() {
        let names = [
            "720p-1.m4s",
            "720p-2.m4s",
            "1080p-1.m4s",
            "720p-2.ts",
            "init.mp4",
        ];
        assert_eq!(run("720p-1.m4s", &names), ["720p-1.m4s", "720p-2.m4s"]);
    }

    #[test]
    fn number_in_extension_is_ignored() {
        assert!(run("film.mp4", &["film.mp4", "film.mp3"]).is_empty());
        assert!(run(".5", &["a"]).is_empty());
        assert!(run(&"9".repeat(20), &["1"]).is_empty());
    }
}
