//! What containers and collectors write around the lines of a log.
//!
//! A wrapper is removed from a whole block of lines before they are parsed, so that every format
//! may be inside every wrapper, and lines keep their numbers.

use super::row::{Escape, unescape};

/// Text around each line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wrapper {
    /// Docker's json-file driver: `{"log":"LINE\n","stream":"stdout","time":"..."}`.
    Docker,
    /// Container runtimes of Kubernetes: `TIME stdout F LINE`.
    Cri,
    /// Docker Compose: `name-1  | LINE`.
    Compose,
    /// `<190>1 TIME HOST PROGRAM PID ID DATA LINE` (RFC 5424).
    Syslog5424,
    /// `<190>TIME HOST name[pid]: LINE` (RFC 3164) and journald's short forms.
    Syslog,
}

impl Wrapper {
    /// All, those that are recognised most safely first.
    pub(crate) const ALL: [Self; 5] = [
        Self::Docker,
        Self::Syslog5424,
        Self::Cri,
        Self::Compose,
        Self::Syslog,
    ];

    /// How it is called in reports.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Docker => "Docker's json-file",
            Self::Cri => "CRI",
            Self::Compose => "Docker Compose",
            Self::Syslog5424 | Self::Syslog => "syslog",
        }
    }

    /// The block with the wrapper removed from each line that has it, and the number of those
    /// lines.
    pub(crate) fn unwrapped(self, block: &[u8]) -> (Vec<u8>, usize) {
        let (mut plain, mut count) = (Vec::with_capacity(block.len()), 0);
        let mut lines = block.split(|byte| *byte == b'\n').peekable();
        while let Some(line) = lines.next() {
            let length = plain.len();
            if self.put_inner(line, &mut plain).is_some() {
                count += 1;
            } else {
                plain.truncate(length);
                plain.extend_from_slice(line);
            }
            if lines.peek().is_some() {
                plain.push(b'\n');
            }
        }
        (plain, count)
    }

    /// Appends the wrapped line, without a line end.
    fn put_inner(self, line: &[u8], plain: &mut Vec<u8>) -> Option<()> {
        let inner = match self {
            Self::Docker => {
                let escaped = docker(line.trim_ascii())?;
                let text = unescape(escaped, Escape::Json);
                let text = text.strip_suffix(b"\n").unwrap_or(&text);
                // A line end within the line would change the numbers of all lines behind it.
                let one_line = text
                    .iter()
                    .map(|byte| if *byte == b'\n' { b' ' } else { *byte });
                plain.extend(one_line);
                return Some(());
            }
            Self::Cri => cri(line),
            Self::Compose => compose(line),
            Self::Syslog5424 => rfc_5424(line),
            Self::Syslog => behind_syslog(line),
        }?;
        plain.extend_from_slice(inner);
        Some(())
    }
}

/// The escaped text of the key `log`, which the driver writes first.
fn docker(line: &[u8]) -> Option<&[u8]> {
    let rest = line.strip_prefix(b"{\"log\":")?;
    let text = rest.trim_ascii_start().strip_prefix(b"\"")?;
    let mut from = 0;
    loop {
        let at = from + memchr::memchr2(b'"', b'\\', text.get(from..)?)?;
        if text[at] == b'"' {
            return Some(&text[..at]);
        }
        from = at + 2;
    }
}

fn cri(line: &[u8]) -> Option<&[u8]> {
    let (time, rest) = word(line)?;
    let (stream, rest) = word(rest)?;
    let (flag, rest) = word(rest)?;
    let is_cri = time.contains(&b'T') && matches!(stream, b"stdout" | b"stderr");
    (is_cri && matches!(flag, b"F" | b"P")).then_some(rest)
}

fn compose(line: &[u8]) -> Option<&[u8]> {
    let bar = memchr::memmem::find(line, b" | ")?;
    let name = line[..bar].trim_ascii_end();
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    (!name.is_empty() && name.iter().all(is_name)).then(|| &line[bar + 3..])
}

fn rfc_5424(line: &[u8]) -> Option<&[u8]> {
    let (priority, rest) = line
        .strip_prefix(b"<")?
        .split_at_checked(memchr::memchr(b'>', line)?.checked_sub(1)?)?;
    if !priority.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let mut rest = rest.strip_prefix(b">1 ")?;
    // Time, host, program, process and message id.
    for _ in 0..5 {
        rest = word(rest)?.1;
    }
    if let Some(nil) = rest.strip_prefix(b"- ") {
        rest = nil;
    } else {
        // `[id key="value"][id ...]`; a bracket in a value is escaped.
        let mut from = 0;
        loop {
            let end = from + memchr::memmem::find(rest.get(from..)?, b"] ")?;
            if end == 0 || rest[end - 1] != b'\\' {
                rest = rest.strip_prefix(b"[").and(rest.get(end + 2..))?;
                break;
            }
            from = end + 1;
        }
    }
    Some(rest.strip_prefix(b"\xef\xbb\xbf").unwrap_or(rest))
}

/// The text after a syslog prefix, `... name[pid]: `, which contains no bracket after a space.
pub(crate) fn behind_syslog(line: &[u8]) -> Option<&[u8]> {
    let colon = memchr::memmem::find(line, b": ")?;
    let is_prefix = memchr::memmem::find(&line[..colon], b" [").is_none();
    (is_prefix && colon > 0).then(|| &line[colon + 2..])
}

/// The first word of a text, and the text after its space.
fn word(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let space = memchr::memchr(b' ', text)?;
    Some((&text[..space], &text[space + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn wrapper_is_removed_and_other_lines_are_kept() {
        for (wrapper, line) in [
            (
                Wrapper::Docker,
                r#"{"log":"a \"b\" c\n","stream":"stdout","time":"2026-11-27T10:00:00.1Z"}"#,
            ),
            (Wrapper::Cri, "2026-11-27T10:00:00.1Z stdout F a \"b\" c"),
            (Wrapper::Compose, "nginx-1  | a \"b\" c"),
            (
                Wrapper::Syslog5424,
                "<190>1 2026-11-27T10:00:00Z w n 8 - - a \"b\" c",
            ),
            (
                Wrapper::Syslog5424,
                "<190>1 2026-11-27T10:00:00Z w n 8 - [x y=\"\\] z\"][v] \u{feff}a \"b\" c",
            ),
            (Wrapper::Syslog, "Nov 27 10:00:00 w nginx[8]: a \"b\" c"),
        ] {
            let block = format!("{line}\nother\n\n{line}");
            let (plain, count) = wrapper.unwrapped(block.as_bytes());
            let plain = String::from_utf8(plain).expect("text");
            assert_eq!(plain, "a \"b\" c\nother\n\na \"b\" c", "{line}");
            assert_eq!(count, 2);
        }
    }

    proptest! {
        #[test]
        fn no_line_makes_it_panic(line in r#"[<>\[\]1aT: |"{}\\-]{0,40}"#) {
            for wrapper in Wrapper::ALL {
                let lines = format!("{{\"log\":{line}\n<1>1 {line}\n{line}");
                let (plain, _) = wrapper.unwrapped(lines.as_bytes());
                prop_assert_eq!(memchr::memchr_iter(b'\n', &plain).count(), 2);
            }
        }
    }
}
