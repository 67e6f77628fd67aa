//! Codec strings (RFC 6381) and properties of a track, from its sample description.

use alloc::format;
use alloc::string::{String, ToString};

use headlong_media::mp4_boxes;

use crate::fault::PackageFault;
use crate::fields::{broken, find, u16_at, u32_at};

/// Bytes of a video and an audio sample entry before the boxes inside.
const VIDEO_ENTRY_BYTES: usize = 78;
const AUDIO_ENTRY_BYTES: usize = 28;

/// The codec of a track.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Codec {
    /// As in `CODECS` and `codecs`.
    pub(crate) name: String,
    /// Pixels of a frame; zero for audio.
    pub(crate) size: (u16, u16),
    /// Channels; zero for video.
    pub(crate) channels: u16,
    /// Samples per second; zero for video.
    pub(crate) sample_rate: u32,
}

impl Codec {
    /// Reads the first entry of `stsd`; `None` if fragments of MP4 cannot carry the codec, or
    /// players do not play it there.
    pub(crate) fn read(stsd: &[u8], is_video: bool) -> Result<Option<Self>, PackageFault> {
        let entry = mp4_boxes(stsd.get(8..).ok_or(broken(b"stsd"))?).next();
        let Some(entry) = entry.transpose()? else {
            return Ok(None);
        };
        if matches!(&entry.kind, b"encv" | b"enca") {
            return Err(PackageFault::Encrypted);
        }
        match is_video {
            true => Self::video(entry.kind, entry.body),
            false => Self::audio(entry.kind, entry.body),
        }
    }

    fn video(kind: [u8; 4], body: &[u8]) -> Result<Option<Self>, PackageFault> {
        let inside = body.get(VIDEO_ENTRY_BYTES..).ok_or(broken(&kind))?;
        let configuration = |of: &[u8; 4]| {
            let found = find(inside, of)?;
            Ok::<_, PackageFault>(found.map(|found| found.body))
        };
        let entry = str::from_utf8(&kind).unwrap_or_default();
        let name = match &kind {
            b"avc1" | b"avc3" => configuration(b"avcC")?.and_then(|c| avc(entry, c)),
            b"hvc1" | b"hev1" => configuration(b"hvcC")?.and_then(|c| hevc(entry, c)),
            b"av01" => configuration(b"av1C")?.and_then(av1),
            b"vp09" => configuration(b"vpcC")?.and_then(vp9),
            _ => None,
        };
        Ok(name.map(|name| Self {
            name,
            size: (
                u16_at(body, 24).unwrap_or_default(),
                u16_at(body, 26).unwrap_or_default(),
            ),
            channels: 0,
            sample_rate: 0,
        }))
    }

    fn audio(kind: [u8; 4], body: &[u8]) -> Result<Option<Self>, PackageFault> {
        // Of QuickTime, whose entries of version 1 and 2 are longer.
        let more = match u16_at(body, 8) {
            Some(1) => 16,
            Some(2) => 36,
            _ => 0,
        };
        let inside = body.get(AUDIO_ENTRY_BYTES + more..).ok_or(broken(&kind))?;
        let name = match &kind {
            b"mp4a" => {
                let wave = find(inside, b"wave")?.map_or(inside, |wave| wave.body);
                find(wave, b"esds")?.and_then(|esds| mpeg4_audio(esds.body))
            }
            b"Opus" => Some("opus".to_string()),
            b"fLaC" => Some("fLaC".to_string()),
            b"ac-3" => Some("ac-3".to_string()),
            b"ec-3" => Some("ec-3".to_string()),
            _ => None,
        };
        Ok(name.map(|name| Self {
            name,
            size: (0, 0),
            channels: u16_at(body, 16).unwrap_or_default(),
            sample_rate: u32_at(body, 24).unwrap_or_default() >> 16,
        }))
    }
}

/// Profile, constraints and level of `avcC`.
fn avc(entry: &str, configuration: &[u8]) -> Option<String> {
    let [_, profile, constraints, level, ..] = *configuration else {
        return None;
    };
    Some(format!("{entry}.{profile:02x}{constraints:02x}{level:02x}"))
}

/// ISO/IEC 14496-15, annex E.
fn hevc(entry: &str, configuration: &[u8]) -> Option<String> {
    let profile = *configuration.get(1)?;
    let space = ["", "A", "B", "C"][usize::from(profile >> 6)];
    let tier = if profile & 0x20 == 0 { 'L' } else { 'H' };
    let compatible = u32_at(configuration, 2)?.reverse_bits();
    let level = *configuration.get(12)?;
    let mut constraints = configuration.get(6..12)?;
    while let [before @ .., 0] = constraints {
        constraints = before;
    }
    let constraints = constraints.iter().map(|byte| format!(".{byte:X}"));
    let profile = profile & 0x1f;
    Some(format!(
        "{entry}.{space}{profile}.{compatible:X}.{tier}{level}{}",
        constraints.collect::<String>()
    ))
}

/// AV1 codec ISO media file format binding, 5.
fn av1(configuration: &[u8]) -> Option<String> {
    let [_, profile_level, flags, ..] = *configuration else {
        return None;
    };
    let (profile, level) = (profile_level >> 5, profile_level & 0x1f);
    let tier = if flags & 0x80 == 0 { 'M' } else { 'H' };
    let depth = match (flags & 0x40 != 0, flags & 0x20 != 0) {
        (false, _) => 8,
        (true, false) => 10,
        (true, true) => 12,
    };
    Some(format!("av01.{profile}.{level:02}{tier}.{depth:02}"))
}

/// VP codec ISO media file format binding.
fn vp9(configuration: &[u8]) -> Option<String> {
    let [profile, level, depth, ..] = *configuration.get(4..)? else {
        return None;
    };
    let depth = depth >> 4;
    Some(format!("vp09.{profile:02}.{level:02}.{depth:02}"))
}

/// The object types of `esds` (ISO/IEC 14496-1, 7.2.6).
fn mpeg4_audio(esds: &[u8]) -> Option<String> {
    let stream = descriptor(esds.get(4..)?, 3)?;
    let flags = *stream.get(2)?;
    let mut at = 3;
    if flags & 0x80 != 0 {
        at += 2;
    }
    if flags & 0x40 != 0 {
        at += 1 + usize::from(*stream.get(at)?);
    }
    if flags & 0x20 != 0 {
        at += 2;
    }
    let decoder = descriptor(stream.get(at..)?, 4)?;
    let object = *decoder.first()?;
    if object != 0x40 {
        // MPEG-2 AAC, or MPEG audio.
        let is_known = matches!(object, 0x66..=0x69 | 0x6b);
        return is_known.then(|| format!("mp4a.{object:02X}"));
    }
    let specific = descriptor(decoder.get(13..)?, 5)?;
    let kind = match specific.first()? >> 3 {
        31 => 32 + (u16_at(specific, 0)? >> 5 & 0x3f),
        kind => kind.into(),
    };
    Some(format!("mp4a.40.{kind}"))
}

/// The contents of the descriptor with this tag at the start of `bytes`; its length has seven bits
/// in each of up to four bytes.
fn descriptor(bytes: &[u8], tag: u8) -> Option<&[u8]> {
    if *bytes.first()? != tag {
        return None;
    }
    let mut length = 0_usize;
    for at in 1..=4 {
        let byte = *bytes.get(at)?;
        length = length << 7 | usize::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            let contents = &bytes[at + 1..];
            return Some(&contents[..length.min(contents.len())]);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codec_strings_are_those_of_their_specifications() {
        let avcc = [1, 0x64, 0, 0x1f];
        assert_eq!(avc("avc1", &avcc).as_deref(), Some("avc1.64001f"));
        // The example of ISO/IEC 14496-15, E.3.
        let hvcc = [1, 1, 0x60, 0, 0, 0, 0xb0, 0, 0, 0, 0, 0, 93];
        assert_eq!(hevc("hvc1", &hvcc).as_deref(), Some("hvc1.1.6.L93.B0"));
        assert_eq!(av1(&[0x81, 0x04, 0x0c]).as_deref(), Some("av01.0.04M.08"));
        assert_eq!(
            vp9(&[1, 0, 0, 0, 2, 10, 0xa2]).as_deref(),
            Some("vp09.02.10.10")
        );
        let aac = [
            0, 0, 0, 0, 3, 0x80, 0x80, 0x80, 25, 0, 1, 0, 4, 17, 0x40, 0x15, 0, 0, 0, 0, 0, 0, 0,
            0, 0, 0, 0, 5, 2, 0x12, 0x10,
        ];
        assert_eq!(mpeg4_audio(&aac).as_deref(), Some("mp4a.40.2"));
        let mut mp3 = aac;
        mp3[14] = 0x6b;
        assert_eq!(mpeg4_audio(&mp3).as_deref(), Some("mp4a.6B"));
        assert_eq!(mpeg4_audio(&aac[..20]), None);
    }
}
