//! Bytes in powers of ten, as on disk labels.

use headlong_units::Bytes;

/// Formats bytes with three digits.
pub(crate) fn decimal_bytes(bytes: u64) -> String {
    let units = ["B", "KB", "MB", "GB", "TB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 999.5 && unit + 1 < units.len() {
        value /= 1000.0;
        unit += 1;
    }
    match unit {
        0 => Bytes(bytes).to_string(),
        _ => format!(
            "{value:.*} {}",
            if value < 9.995 {
                2
            } else {
                usize::from(value < 99.95)
            },
            units[unit]
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_three_digits() {
        for (bytes, text) in [
            (999, Bytes(999).to_string()),
            (1_000, "1.00 KB".into()),
            (52_428_800, "52.4 MB".into()),
            (999_600_000, "1.00 GB".into()),
            (1_000_204_886_016, "1.00 TB".into()),
            (146_815_737_856, "147 GB".into()),
        ] {
            assert_eq!(decimal_bytes(bytes), text);
        }
    }
}
