//! Conversion of SubRip (`.srt`) to WebVTT, as the web page's player does it.
//!
//! The result has at most three times the bytes of the file, and its cues the same times and texts.

use alloc::borrow::Cow;
use alloc::format;
use alloc::string::String;

/// Characters of Windows-1252 from 0x80 to 0x9f (WHATWG Encoding, index windows-1252); its other
/// characters are those of Latin-1.
const WINDOWS_1252: [char; 32] = [
    '\u{20ac}', '\u{81}', '\u{201a}', '\u{192}', '\u{201e}', '\u{2026}', '\u{2020}', '\u{2021}',
    '\u{2c6}', '\u{2030}', '\u{160}', '\u{2039}', '\u{152}', '\u{8d}', '\u{17d}', '\u{8f}',
    '\u{90}', '\u{2018}', '\u{2019}', '\u{201c}', '\u{201d}', '\u{2022}', '\u{2013}', '\u{2014}',
    '\u{2dc}', '\u{2122}', '\u{161}', '\u{203a}', '\u{153}', '\u{9d}', '\u{17e}', '\u{178}',
];

/// The contents of a WebVTT or SubRip file as WebVTT.
pub fn webvtt(file: &[u8]) -> String {
    let text = text(file);
    if text.starts_with("WEBVTT") {
        return text.into_owned();
    }
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    let mut vtt = String::with_capacity(text.len() + 64);
    vtt.push_str("WEBVTT\n\n");
    for line in text.split_inclusive('\n') {
        match times(line) {
            Some(times) => {
                vtt.push_str(&times);
                vtt.push('\n');
            }
            None => push_text(&mut vtt, line),
        }
    }
    vtt
}

/// UTF-8, or what older programs wrote.
fn text(file: &[u8]) -> Cow<'_, str> {
    match str::from_utf8(file) {
        Ok(text) => Cow::Borrowed(text.strip_prefix('\u{feff}').unwrap_or(text)),
        Err(_) => {
            let character = |byte: &u8| match byte {
                0x80..=0x9f => WINDOWS_1252[usize::from(byte - 0x80)],
                _ => char::from(*byte),
            };
            Cow::Owned(file.iter().map(character).collect())
        }
    }
}

/// `00:01:02,345 --> 00:01:04,5`, and whatever position follows, as times of WebVTT.
fn times(line: &str) -> Option<String> {
    let (from, to) = line.split_once("-->")?;
    let (from, rest) = time(from)?;
    let (to, _) = time(to)?;
    rest.trim().is_empty().then(|| format!("{from} --> {to}"))
}

/// A time at the start of a text, and what follows it.
fn time(text: &str) -> Option<(String, &str)> {
    let text = text.trim_start();
    let at = text.find([',', '.'])?;
    let (clock, fraction) = (&text[..at], &text[at + 1..]);
    let mut fields = clock.split(':');
    let [hours, minutes, seconds] = [fields.next()?, fields.next()?, fields.next()?];
    let is_number = |field: &str| !field.is_empty() && field.bytes().all(|b| b.is_ascii_digit());
    let is_clock = [hours, minutes, seconds].into_iter().all(is_number)
        && minutes.len() == 2
        && seconds.len() == 2
        && fields.next().is_none();
    let digits = fraction.bytes().take_while(u8::is_ascii_digit).count();
    let digits = digits.min(3);
    let (millis, rest) = fraction.split_at(digits);
    (is_clock && digits > 0).then(|| (format!("{clock:0>8}.{millis:0<3}"), rest))
}

/// Writes a line without positions of another format (`{\an8}`), which some programs leave in it.
fn push_text(vtt: &mut String, mut line: &str) {
    const START: &str = "{\\a";
    while let Some(at) = line.find(START) {
        let (before, tag) = line.split_at(at);
        vtt.push_str(before);
        let number = tag[START.len()..].trim_start_matches('n');
        let after = number.trim_start_matches(|c: char| c.is_ascii_digit());
        match after.strip_prefix('}') {
            Some(rest) if after.len() < number.len() => line = rest,
            _ => {
                vtt.push_str(START);
                line = &tag[START.len()..];
            }
        }
    }
    vtt.push_str(line);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subrip_becomes_webvtt() {
        let subrip = "1\r\n00:00:01,000 --> 00:00:02,5\r\n<i>It is, said</i>\r\n\r\n\
                      2\r\n1:02:03,004-->1:02:04.000  X1:40 X2:600\r\n{\\an8}Above {\\a}\r\n";
        assert_eq!(
            webvtt(subrip.as_bytes()),
            "WEBVTT\n\n1\n00:00:01.000 --> 00:00:02.500\n<i>It is, said</i>\n\n\
             2\n01:02:03.004 --> 01:02:04.000\nAbove {\\a}\n"
        );
    }

    #[test]
    fn webvtt_stays_without_its_mark() {
        let vtt = "WEBVTT\n\n00:01.000 --> 00:02.000\n{\\an8}, 1\n";
        assert_eq!(webvtt(vtt.as_bytes()), vtt);
        assert_eq!(webvtt(format!("\u{feff}{vtt}").as_bytes()), vtt);
    }

    #[test]
    fn older_encoding_is_read() {
        assert_eq!(webvtt(b"C\xe9 \x80"), "WEBVTT\n\nC\u{e9} \u{20ac}");
    }

    #[test]
    fn lines_that_only_resemble_times_are_text() {
        for line in [
            "-->",
            "00:00:01,000 --> soon",
            "00:00:01 --> 00:00:02",
            "0:1:2,0 --> 0:1:3,0",
            "00:00:01,000 x --> 00:00:02,000",
            ":00:01,000 --> 00:00:02,000",
            "00:00:01, --> 00:00:02,000",
        ] {
            assert_eq!(webvtt(line.as_bytes()), format!("WEBVTT\n\n{line}"));
        }
    }
}
