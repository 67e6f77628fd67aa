//! What the server tells a player about an object and its reply: Common Media Server Data
//! (CTA-5006).
//!
//! The one idea: only what is true and already known. A key that would have to be guessed or read for
//! is left out; so is a field without keys. What a connection can carry (`etp`) is known where the
//! kernel has measured it, and not otherwise.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use headlong_units::{BitRate, Duration};

use crate::media_type::media_type;

/// What is known of a file.
#[derive(Debug, Clone, Copy)]
pub struct Object<'a> {
    /// Its name, of which the extension counts.
    pub file_name: &'a str,
    /// The bit rate of its title or rendition.
    pub bit_rate: Option<BitRate>,
}

impl Object<'_> {
    /// The field `CMSD-Static`: `br` in kilobits a second, `ot` and `sf` where the type of the file
    /// leaves no doubt.
    pub fn cmsd_static(&self) -> Option<String> {
        let (object, format) = match media_type(self.file_name) {
            "application/vnd.apple.mpegurl" => (Some("m"), Some("h")),
            "application/dash+xml" => (Some("m"), Some("d")),
            "application/vnd.ms-sstr+xml" => (Some("m"), Some("s")),
            name if name.starts_with("text/vtt") => (Some("c"), None),
            "application/x-subrip" | "application/ttml+xml" => (Some("c"), None),
            name if name.starts_with("audio/") => (Some("a"), None),
            _ => (None, None),
        };
        let is_media = !matches!(object, Some("m" | "c"));
        let rate = self.bit_rate.filter(|_| is_media).map(kbps);
        let keys = [
            rate.map(|rate| format!("br={rate}")),
            object.map(|object| format!("ot={object}")),
            format.map(|format| format!("sf={format}")),
        ];
        let keys: Vec<String> = keys.into_iter().flatten().collect();
        (!keys.is_empty()).then(|| keys.join(","))
    }
}

/// The field `CMSD-Dynamic` of this server: `etp`, what the connection was last measured to carry, in
/// kilobits a second, to a hundred of them; `mb`, the highest bit rate that a player can play from
/// it, in kilobits a second, if replies are bounded; and `rd`, the milliseconds that this one took
/// to begin. What a reply is paced by is no `mb`: another rendition has another pace.
pub fn cmsd_dynamic(
    throughput: Option<BitRate>,
    bytes_per_second_max: u64,
    delay: Duration,
) -> String {
    let throughput = throughput.map_or(0, |rate| kbps(rate).saturating_add(50) / 100 * 100);
    let throughput = match throughput {
        0 => String::new(),
        kbps => format!(";etp={kbps}"),
    };
    let most = match bytes_per_second_max / 125 {
        0 => String::new(),
        kbps => format!(";mb={kbps}"),
    };
    format!("\"headlong\"{throughput}{most};rd={}", delay.0 / 1_000_000)
}

fn kbps(rate: BitRate) -> u64 {
    rate.0 / 1000
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(file_name: &str, kbps: Option<u64>) -> Object<'_> {
        let bit_rate = kbps.map(BitRate::from_kbps);
        Object {
            file_name,
            bit_rate,
        }
    }

    #[test]
    fn only_what_is_known_of_an_object_is_said() {
        let said = |name, kbps| object(name, kbps).cmsd_static();
        assert_eq!(said("a.m3u8", Some(5000)).as_deref(), Some("ot=m,sf=h"));
        assert_eq!(said("a.mpd", None).as_deref(), Some("ot=m,sf=d"));
        assert_eq!(said("a.vtt", None).as_deref(), Some("ot=c"));
        assert_eq!(said("a.m4a", Some(128)).as_deref(), Some("br=128,ot=a"));
        assert_eq!(said("a.ts", Some(5000)).as_deref(), Some("br=5000"));
        assert_eq!(said("a.ts", None), None);
    }

    #[test]
    fn a_bound_on_replies_is_the_highest_bit_rate_and_a_delay_is_in_milliseconds() {
        let delay = Duration::from_millis(12);
        let said = |max| cmsd_dynamic(None, max, delay);
        assert_eq!(said(250_000), "\"headlong\";mb=2000;rd=12");
        assert_eq!(said(0), "\"headlong\";rd=12");
    }

    #[test]
    fn what_a_connection_carries_is_said_to_a_hundred_kilobits_if_it_is_known() {
        let said = |kbps| {
            let rate = Some(BitRate::from_kbps(kbps));
            cmsd_dynamic(rate, 0, Duration::ZERO)
        };
        assert_eq!(said(8_149), "\"headlong\";etp=8100;rd=0");
        assert_eq!(said(8_150), "\"headlong\";etp=8200;rd=0");
        assert_eq!(said(49), "\"headlong\";rd=0");
    }
}
