//! The `Server-Timing` field: source and waiting times of a reply's first bytes.

use headlong_units::Duration;
use http::HeaderValue;

/// Content of the field; see <https://www.w3.org/TR/server-timing/>.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ServerTiming {
    /// Time waiting for the device to begin the read.
    pub queue_time: Duration,
    /// Time waiting for the device to finish it.
    pub disk_time: Duration,
    /// Whether the bytes came from memory.
    pub is_from_ram: bool,
    /// Whether they came from flash.
    pub is_from_flash: bool,
}

impl ServerTiming {
    /// `queue;dur=1.2, disk;dur=8.1, tier;desc=disk`, in milliseconds.
    pub fn header_value(&self) -> Option<HeaderValue> {
        let tier = match (self.is_from_ram, self.is_from_flash) {
            (true, _) => "ram",
            (false, true) => "flash",
            (false, false) => "disk",
        };
        let (queue, disk) = (Tenths(self.queue_time), Tenths(self.disk_time));
        let text = format!("queue;dur={queue}, disk;dur={disk}, tier;desc={tier}");
        HeaderValue::from_str(&text).ok()
    }
}

struct Tenths(Duration);

impl std::fmt::Display for Tenths {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let tenths = self.0.0 / 100_000;
        write!(f, "{}.{}", tenths / 10, tenths % 10)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_has_tier_and_times_in_milliseconds() {
        let timing = ServerTiming {
            queue_time: Duration::from_micros(1_250),
            disk_time: Duration::from_micros(8_100),
            is_from_ram: false,
            is_from_flash: false,
        };
        let value = timing.header_value().expect("ASCII");
        assert_eq!(value, "queue;dur=1.2, disk;dur=8.1, tier;desc=disk");
        let ram = ServerTiming {
            is_from_ram: true,
            is_from_flash: false,
            ..ServerTiming::default()
        };
        assert_eq!(
            ram.header_value().expect("ASCII"),
            "queue;dur=0.0, disk;dur=0.0, tier;desc=ram"
        );
    }
}
