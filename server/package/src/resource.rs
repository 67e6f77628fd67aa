//! Names of what is made from a title: the last segment of a URL, below the path of the file.

use core::fmt;

/// Digits of a version in a name.
const VERSION_DIGITS: usize = 16;

/// The tracks that are sent together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Rendition {
    /// Whether the video is among them.
    pub(crate) video: bool,
    /// The audio track among them, from zero.
    pub(crate) audio: Option<u8>,
}

impl Rendition {
    /// The video alone.
    pub(crate) const VIDEO: Self = Self {
        video: true,
        audio: None,
    };

    /// An audio track alone.
    pub(crate) fn audio(index: u8) -> Self {
        Self {
            video: false,
            audio: Some(index),
        }
    }

    /// Reads `v1`, `a1` to `a99`, or both.
    fn parse(text: &str) -> Option<Self> {
        let (video, rest) = match text.strip_prefix("v1") {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let audio = match rest {
            "" => None,
            _ => {
                let digits = rest.strip_prefix('a')?;
                let number = plain_number(digits, 2)?;
                Some(u8::try_from(number.checked_sub(1)?).ok()?)
            }
        };
        (video || audio.is_some()).then_some(Self { video, audio })
    }
}

impl fmt::Display for Rendition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.video {
            f.write_str("v1")?;
        }
        match self.audio {
            Some(audio) => write!(f, "a{}", u32::from(audio) + 1),
            None => Ok(()),
        }
    }
}

/// Something that is made from a title.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Resource {
    /// `master.m3u8`: the HLS multivariant playlist.
    Master,
    /// `manifest.mpd`: the DASH manifest.
    Manifest,
    /// `steering.json`: the servers among which the player chooses, the preferred one first.
    Steering,
    /// `v1a1.m3u8`: an HLS media playlist.
    Playlist(Rendition),
    /// `v1a1-VERSION-init.mp4`: the headers of a rendition.
    Init(Rendition, Version),
    /// `v1a1-VERSION-1.m4s`: a segment, counted from one.
    Segment(Rendition, Version, u32),
}

/// The version of a file in a name, so that a player never mixes segments of two, and a cache never
/// needs to ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Version(pub u64);

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl Version {
    fn parse(text: &str) -> Option<Self> {
        let is_plain = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        let is_version = text.len() == VERSION_DIGITS && text.bytes().all(is_plain);
        is_version.then(|| u64::from_str_radix(text, 16).ok().map(Self))?
    }
}

impl Resource {
    /// The resource of a name, also of a playlist by nginx-vod-module; `None` if it is not one.
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            // A player takes either kind of playlist.
            "master.m3u8" | "index.m3u8" => return Some(Self::Master),
            "manifest.mpd" => return Some(Self::Manifest),
            "steering.json" => return Some(Self::Steering),
            _ => {}
        }
        let (stem, extension) = name.rsplit_once('.')?;
        if let Some(tracks) = stem.strip_prefix("index-").filter(|_| extension == "m3u8") {
            return Rendition::parse(&tracks.replacen("-a", "a", 1)).map(Self::Playlist);
        }
        let mut words = stem.split('-');
        let rendition = Rendition::parse(words.next()?)?;
        let version = words.next();
        let what = words.next();
        if words.next().is_some() {
            return None;
        }
        match (extension, version, what) {
            ("m3u8", None, None) => Some(Self::Playlist(rendition)),
            ("mp4", Some(version), Some("init")) => {
                Some(Self::Init(rendition, Version::parse(version)?))
            }
            ("m4s", Some(version), Some(number)) => {
                let number = plain_number(number, 9).filter(|number| *number > 0)?;
                Some(Self::Segment(rendition, Version::parse(version)?, number))
            }
            _ => None,
        }
    }

    /// The version that it names; playlists are of the current one.
    pub fn version(self) -> Option<Version> {
        match self {
            Self::Master | Self::Manifest | Self::Steering | Self::Playlist(_) => None,
            Self::Init(_, version) | Self::Segment(_, version, _) => Some(version),
        }
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Master => f.write_str("master.m3u8"),
            Self::Manifest => f.write_str("manifest.mpd"),
            Self::Steering => f.write_str("steering.json"),
            Self::Playlist(rendition) => write!(f, "{rendition}.m3u8"),
            Self::Init(rendition, version) => write!(f, "{rendition}-{version}-init.mp4"),
            Self::Segment(rendition, version, number) => {
                write!(f, "{rendition}-{version}-{number}.m4s")
            }
        }
    }
}

/// A number as this module writes it: without a sign or leading zeros.
fn plain_number(digits: &str, digits_max: usize) -> Option<u32> {
    let is_plain = !digits.starts_with('0') && digits.bytes().all(|byte| byte.is_ascii_digit());
    (is_plain && digits.len() <= digits_max).then(|| digits.parse().ok())?
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    #[test]
    fn names_are_read_as_they_are_written_and_no_others() {
        for name in [
            "master.m3u8",
            "manifest.mpd",
            "steering.json",
            "v1.m3u8",
            "a12.m3u8",
            "v1a1-00000000000000ff-init.mp4",
            "v1-0123456789abcdef-120.m4s",
        ] {
            let resource = Resource::parse(name).expect(name);
            assert_eq!(resource.to_string(), name);
        }
        for name in [
            "",
            "film.m3u8",
            "v2.m3u8",
            "a0.m3u8",
            "a01.m3u8",
            "a1v1.m3u8",
            "-1.m4s",
            "v1-0123456789abcdef-0.m4s",
            "v1-0123456789abcdef-+1.m4s",
            "v1-0123456789ABCDEF-1.m4s",
            "v1-1.m4s",
            "v1-0123456789abcdef-1-2.m4s",
            "v1-0123456789abcdef-9999999999.m4s",
            "v1a1-init.mp4",
        ] {
            assert_eq!(Resource::parse(name), None, "{name}");
        }
    }

    #[test]
    fn playlists_of_nginx_vod_module_have_other_names() {
        for (name, of_ours) in [
            ("index.m3u8", "master.m3u8"),
            ("index-v1-a1.m3u8", "v1a1.m3u8"),
            ("index-v1.m3u8", "v1.m3u8"),
            ("index-a2.m3u8", "a2.m3u8"),
        ] {
            let resource = Resource::parse(name).expect(name);
            assert_eq!(resource.to_string(), of_ours);
        }
        for name in [
            "index-.m3u8",
            "index-v2.m3u8",
            "index-v1-a1.ts",
            "index-v1-a1-a2.m3u8",
        ] {
            assert_eq!(Resource::parse(name), None, "{name}");
        }
    }
}
