//! Common Media Server Data (CTA-5006): properties of an object and its reply, for players.
//!
//! Only known facts are sent. A key that would have to be estimated, or need a read, is omitted,
//! and so is a field without keys. The throughput of a connection (`etp`) is sent if the kernel has
//! measured it.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use headlong_units::{BitRate, Duration};

use crate::media_type::media_type;

/// Known properties of a file.
#[derive(Debug, Clone, Copy)]
pub struct CmsdObject<'a> {
    /// Name of the file; its extension is used.
    pub file_name: &'a str,
    /// Bit rate of its title or rendition.
    pub bit_rate: Option<BitRate>,
}

impl CmsdObject<'_> {
    /// The field `CMSD-Static`: `br` in kilobits a second; `ot` and `sf` if the file's type is
    /// unambiguous.
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

/// The field `CMSD-Dynamic`: `etp`, the last measured throughput of the connection, in kilobits a
/// second, rounded to hundreds; `mb`, the highest playable bit rate in kilobits a second, if
/// replies are limited; and `rd`, the delay of this reply in milliseconds. Pacing does not define
/// `mb`: another rendition has another pace.
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

    fn object(file_name: &str, kbps: Option<u64>) -> CmsdObject<'_> {
        let bit_rate = kbps.map(BitRate::from_kbps);
        CmsdObject {
            file_name,
            bit_rate,
        }
    }

    #[test]
    fn static_field_has_only_known_keys() {
        let said = |name, kbps| object(name, kbps).cmsd_static();
        assert_eq!(said("a.m3u8", Some(5000)).as_deref(), Some("ot=m,sf=h"));
        assert_eq!(said("a.mpd", None).as_deref(), Some("ot=m,sf=d"));
        assert_eq!(said("a.vtt", None).as_deref(), Some("ot=c"));
        assert_eq!(said("a.m4a", Some(128)).as_deref(), Some("br=128,ot=a"));
        assert_eq!(said("a.ts", Some(5000)).as_deref(), Some("br=5000"));
        assert_eq!(said("a.ts", None), None);
    }

    #[test]
    fn dynamic_field_has_limit_and_delay() {
        let delay = Duration::from_millis(12);
        let said = |max| cmsd_dynamic(None, max, delay);
        assert_eq!(said(250_000), "\"headlong\";mb=2000;rd=12");
        assert_eq!(said(0), "\"headlong\";rd=12");
    }

    #[test]
    fn throughput_is_rounded_to_hundreds_of_kilobits() {
        let said = |kbps| {
            let rate = Some(BitRate::from_kbps(kbps));
            cmsd_dynamic(rate, 0, Duration::ZERO)
        };
        assert_eq!(said(8_149), "\"headlong\";etp=8100;rd=0");
        assert_eq!(said(8_150), "\"headlong\";etp=8200;rd=0");
        assert_eq!(said(49), "\"headlong\";rd=0");
    }
}
