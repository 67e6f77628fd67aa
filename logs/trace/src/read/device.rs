//! Device types derived from user agents, for logs without a better one.

use crate::names::{Interner, hash};

/// Words in user agents and their device types, most specific first.
const WORDS: &[(&str, &str)] = &[
    ("CrKey", "chromecast"),
    ("AppleTV", "apple-tv"),
    ("Apple TV", "apple-tv"),
    ("tvOS", "apple-tv"),
    ("Roku", "roku"),
    ("AFT", "fire-tv"),
    ("PlayStation", "playstation"),
    ("Xbox", "xbox"),
    ("Nintendo", "nintendo"),
    ("Tizen", "samsung-tv"),
    ("SMART-TV", "smart-tv"),
    ("SmartTV", "smart-tv"),
    ("Web0S", "lg-tv"),
    ("webOS", "lg-tv"),
    ("BRAVIA", "android-tv"),
    ("Android TV", "android-tv"),
    ("iPad", "ipad"),
    ("iPhone", "iphone"),
    ("AppleCoreMedia", "apple"),
    ("Android", "android"),
    ("CrOS", "chrome-os"),
    ("Windows", "windows"),
    ("Macintosh", "mac"),
    ("Linux", "linux"),
];

/// The device type of a user agent: by a known word, otherwise its first product.
pub(crate) fn of(agent: &[u8]) -> &[u8] {
    let known = WORDS
        .iter()
        .find(|(word, _)| memchr::memmem::find(agent, word.as_bytes()).is_some());
    if let Some((_, device)) = known {
        return device.as_bytes();
    }
    let end = agent
        .iter()
        .position(|byte| matches!(byte, b'/' | b' ' | b'%' | b'('));
    &agent[..end.unwrap_or(agent.len()).min(40)]
}

/// Cache of device numbers by agent: there are few agents and many lines.
#[derive(Debug, Default)]
pub(crate) struct DeviceCache {
    known: Vec<Option<(u64, u32)>>,
}

const REMEMBERED: usize = 1024;

impl DeviceCache {
    /// The provisional number of an agent's device type.
    pub(crate) fn number(&mut self, agent: &[u8], devices: &Interner) -> u32 {
        let key = hash(agent);
        if self.known.is_empty() {
            self.known = vec![None; REMEMBERED];
        }
        let place = (key % REMEMBERED as u64) as usize;
        if let Some((remembered, number)) = self.known[place]
            && remembered == key
        {
            return number;
        }
        let number = devices.intern(of(agent)).0;
        self.known[place] = Some((key, number));
        number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_type_is_found_in_the_user_agent() {
        let of = |agent: &str| String::from_utf8_lossy(of(agent.as_bytes())).into_owned();
        let chromecast = "Mozilla/5.0 (X11; Linux armv7l) AppleWebKit/537.36 CrKey/1.56.500000";
        assert_eq!(of(chromecast), "chromecast");
        assert_eq!(of("Mozilla/5.0 (Linux; Android 14; Pixel 8)"), "android");
        assert_eq!(of("VLC/3.0.20 LibVLC/3.0.20"), "VLC");
        assert_eq!(of(""), "");
    }
}
