//! Axes: the measured quantity, the range and the ticks.

use crate::table::Cell;

/// The target number of ticks.
const TICKS: f64 = 6.0;
/// Maximum number of ticks of a logarithmic axis; with more, some are omitted.
const LOG_TICKS_MAX: usize = 10;

/// Largest number that is shown. No measurement is close to it; beyond it differences overflow.
const MAGNITUDE_MAX: f64 = 1e100;

/// How values are mapped to positions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ScaleShape {
    Linear,
    Log10,
    Log2,
}

/// One axis: a quantity, its unit, and the range that is shown.
#[derive(Debug, Clone, PartialEq)]
pub struct Axis {
    quantity: String,
    unit: String,
    shape: ScaleShape,
    from: Option<f64>,
    to: Option<f64>,
}

impl Axis {
    /// A linear axis that covers all data. `unit` can be empty.
    pub fn new(quantity: impl Into<String>, unit: impl Into<String>) -> Self {
        Self {
            quantity: quantity.into(),
            unit: unit.into(),
            shape: ScaleShape::Linear,
            from: None,
            to: None,
        }
    }

    /// Makes the axis logarithmic. Values of zero and below have no position on it and are omitted.
    pub fn log(mut self) -> Self {
        self.shape = ScaleShape::Log10;
        self
    }

    /// Makes the axis logarithmic with ticks at powers of two, for sizes that double.
    pub fn log2(mut self) -> Self {
        self.shape = ScaleShape::Log2;
        self
    }

    /// Sets the start of the axis, regardless of the data.
    pub fn from(mut self, from: f64) -> Self {
        self.from = from.is_finite().then_some(from);
        self
    }

    /// Sets the end of the axis, regardless of the data.
    pub fn to(mut self, to: f64) -> Self {
        self.to = to.is_finite().then_some(to);
        self
    }

    /// Quantity and unit, as the axis label.
    pub(crate) fn label(&self) -> String {
        match self.unit.as_str() {
            "" => self.quantity.clone(),
            unit => format!("{} ({unit})", self.quantity),
        }
    }

    pub(crate) fn is_log(&self) -> bool {
        self.shape != ScaleShape::Linear
    }

    pub(crate) fn has_place_for(&self, value: f64) -> bool {
        value.abs() <= MAGNITUDE_MAX && (!self.is_log() || value >= 1.0 / MAGNITUDE_MAX)
    }

    /// Maps the axis to the pixels `near` to `far`, so that it covers `values`.
    pub(crate) fn laid(&self, values: impl Iterator<Item = f64>, near: f64, far: f64) -> Scale {
        let shown = values.filter(|value| self.has_place_for(*value));
        let (low, high) = shown.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
            (low.min(value), high.max(value))
        });
        let usable = |end: &f64| self.has_place_for(*end);
        let (low, high) = if low > high { (1.0, 1.0) } else { (low, high) };
        let low = self.from.filter(usable).unwrap_or(low);
        let high = self.to.filter(usable).unwrap_or(high);
        let (from, to, ticks) = match self.shape {
            ScaleShape::Linear => self.linear(low, high),
            ScaleShape::Log10 => self.logarithmic(low, high, 10.0),
            ScaleShape::Log2 => self.logarithmic(low, high, 2.0),
        };
        Scale {
            is_log: self.is_log(),
            from,
            to,
            near,
            far,
            ticks,
        }
    }

    fn linear(&self, low: f64, high: f64) -> (f64, f64, Vec<f64>) {
        // A span that is negligible compared with the values would give ticks with the same label.
        let least = low.abs().max(high.abs()) * 1e-9;
        let wide = low + low.abs().max(1.0);
        let high = if high - low > least { high } else { wide };
        let step = nice_step((high - low) / TICKS);
        // Ends that were not set are moved outwards to a tick.
        let from = self.from.unwrap_or((low / step).floor() * step);
        let to = match self.to {
            Some(to) if to > from => to,
            _ => (high / step - 1e-9).ceil() * step,
        };
        let first = (from / step - 1e-9).ceil();
        let count = ((to - from) / step).floor().clamp(0.0, 50.0) as u32;
        let ticks = (0..=count + 1).map(|i| (first + f64::from(i)) * step);
        (from, to, ticks.filter(|t| *t <= to + step * 1e-9).collect())
    }

    fn logarithmic(&self, low: f64, high: f64, base: f64) -> (f64, f64, Vec<f64>) {
        let power = |value: f64| value.ln() / base.ln();
        let bottom = (power(low) + 1e-9).floor();
        let top = (power(high) - 1e-9).ceil().max(bottom + 1.0);
        let from = self
            .from
            .filter(|from| *from > 0.0)
            .unwrap_or(base.powf(bottom));
        let to = self.to.filter(|to| *to > from).unwrap_or(base.powf(top));
        // f64 has at most about 2100 powers of two, so the loop terminates.
        let powers = (bottom as i32..=top as i32).map(|exponent| base.powi(exponent));
        let all: Vec<f64> = match base == 10.0 && top - bottom <= 2.0 {
            true => powers.flat_map(|p| [p, 2.0 * p, 5.0 * p]).collect(),
            false => powers.collect(),
        };
        let inside = |t: &f64| *t >= from * (1.0 - 1e-9) && *t <= to * (1.0 + 1e-9);
        let all: Vec<f64> = all.into_iter().filter(inside).collect();
        let every = all.len().div_ceil(LOG_TICKS_MAX).max(1);
        (from, to, all.into_iter().step_by(every).collect())
    }
}

/// 1, 2 or 5 times a power of ten, at least `least`.
fn nice_step(least: f64) -> f64 {
    let power = 10f64.powf(least.log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power);
    let fits = steps.into_iter().find(|step| *step >= least * (1.0 - 1e-9));
    fits.unwrap_or(10.0 * power)
}

/// An axis mapped to pixels.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Scale {
    pub(crate) is_log: bool,
    pub(crate) from: f64,
    pub(crate) to: f64,
    near: f64,
    far: f64,
    pub(crate) ticks: Vec<f64>,
}

impl Scale {
    /// The pixel position of a value that has a position on the axis.
    pub(crate) fn place(&self, value: f64) -> f64 {
        let share = if self.is_log {
            (value / self.from).ln() / (self.to / self.from).ln()
        } else {
            (value - self.from) / (self.to - self.from)
        };
        // A value far outside the visible range is clipped, but must remain a number that SVG can
        // represent.
        self.near + (self.far - self.near) * share.clamp(-10.0, 10.0)
    }

    /// The ticks with their labels.
    pub(crate) fn labels(&self) -> Vec<(f64, String)> {
        let ticks = self.ticks.iter();
        if self.is_log {
            return ticks.map(|tick| (*tick, short(*tick))).collect();
        }
        let greatest = self.from.abs().max(self.to.abs());
        let (unit, suffix) = [(1e12, " T"), (1e9, " G"), (1e6, " M")]
            .into_iter()
            .find(|(unit, _)| greatest >= *unit)
            .unwrap_or((1.0, ""));
        let step = match self.ticks.as_slice() {
            [first, second, ..] => (second - first) / unit,
            _ => 1.0,
        };
        let decimals = (-(step * 1.000_001).log10().floor()).clamp(0.0, 9.0) as usize;
        let label = |tick: &f64| match *tick / unit {
            // Zero has neither a unit nor a sign.
            value if value.abs() < step * 1e-6 => (*tick, "0".to_string()),
            value => (*tick, format!("{}{suffix}", grouped(value, decimals))),
        };
        ticks.map(label).collect()
    }
}

/// A number with its thousands separated.
fn grouped(value: f64, decimals: usize) -> String {
    let sign = if value < 0.0 { "-" } else { "" };
    format!(
        "{sign}{}",
        group_thousands(&format!("{:.decimals$}", value.abs()))
    )
}

/// Separates the thousands of a number that is not negative by narrow non-breaking spaces.
pub fn group_thousands(number: &str) -> String {
    let (whole, rest) = number.split_at(number.find('.').unwrap_or(number.len()));
    let mut parts = String::new();
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index) % 3 == 0 && whole.len() > 4 {
            parts.push('\u{202f}');
        }
        parts.push(digit);
    }
    parts + rest
}

/// A number at a tick of a logarithmic axis.
fn short(value: f64) -> String {
    match value {
        v if v >= 1e12 => format!("{} T", plain(v / 1e12)),
        v if v >= 1e9 => format!("{} G", plain(v / 1e9)),
        v if v >= 1e6 => format!("{} M", plain(v / 1e6)),
        v if v < 1e-4 => format!("{v:.0e}"),
        v => plain(v),
    }
}

/// A number with at most four significant digits.
pub(crate) fn plain(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return if value == 0.0 { "0".into() } else { "-".into() };
    }
    let magnitude = value.abs().log10().floor();
    let decimals = (3.0 - magnitude).clamp(0.0, 9.0) as usize;
    let text = grouped(value, decimals);
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_string(),
        false => text,
    }
}

pub(crate) fn cell(value: f64) -> Cell {
    match value.is_finite() {
        true => Cell::Number(plain(value)),
        false => Cell::Missing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn labels(axis: Axis, values: &[f64]) -> Vec<String> {
        let scale = axis.laid(values.iter().copied(), 0.0, 100.0);
        scale.labels().into_iter().map(|(_, text)| text).collect()
    }

    #[test]
    fn ticks_are_round_numbers_and_cover_the_data() {
        let axis = Axis::new("rate", "1/s").from(0.0);
        assert_eq!(
            labels(axis.clone(), &[7.0, 97.0]),
            ["0", "20", "40", "60", "80", "100"]
        );
        assert_eq!(
            labels(axis.clone(), &[0.31]),
            ["0", "0.1", "0.2", "0.3", "0.4"]
        );
        let places = ["0", "50 M", "100 M", "150 M", "200 M", "250 M"];
        assert_eq!(labels(axis.clone(), &[2.4e8]), places);
        let fine = labels(axis, &[28_000.0]);
        assert_eq!(fine.last().map(String::as_str), Some("30\u{202f}000"));
    }

    #[test]
    fn log2_axes_have_ticks_at_powers_of_two() {
        let axis = Axis::new("size", "MB").log2();
        let ticks = ["0.5", "1", "2", "4", "8", "16", "32", "64", "128"];
        assert_eq!(labels(axis, &[0.5, 128.0]), ticks);
    }

    #[test]
    fn a_short_logarithmic_axis_has_ticks_between_the_powers() {
        let axis = Axis::new("time", "ms").log();
        assert_eq!(
            labels(axis.clone(), &[3.0, 80.0]),
            ["1", "2", "5", "10", "20", "50", "100"]
        );
        assert_eq!(
            labels(axis, &[0.001, 8e6]).first().map(String::as_str),
            Some("0.001")
        );
    }

    #[test]
    fn numbers_keep_their_significant_digits() {
        for (value, text) in [
            (0.0, "0"),
            (39.2, "39.2"),
            (1234.5678, "1235"),
            (0.000_123_4, "0.0001234"),
            (123_456.0, "123\u{202f}456"),
            (-2.5, "-2.5"),
        ] {
            assert_eq!(plain(value), text);
        }
    }

    proptest! {
        #[test]
        fn every_shown_value_lies_between_the_ends(
            values in prop::collection::vec(-1e12..1e12f64, 1..20), is_log: bool,
        ) {
            let axis = Axis::new("x", "");
            let axis = if is_log { axis.log() } else { axis };
            let scale = axis.laid(values.iter().copied(), 10.0, 90.0);
            for value in values.iter().filter(|value| axis.has_place_for(**value)) {
                let place = scale.place(*value);
                prop_assert!((10.0 - 1e-6..=90.0 + 1e-6).contains(&place), "{} {:?}", place, scale);
            }
            prop_assert!(scale.ticks.len() < 60);
        }

        #[test]
        fn no_values_break_an_axis(values in prop::collection::vec(any::<f64>(), 0..6), shape in 0..3) {
            let axis = Axis::new("x", "");
            let axis = match shape { 0 => axis, 1 => axis.log(), _ => axis.log2() };
            let scale = axis.laid(values.iter().copied(), 0.0, 1.0);
            let _ = scale.labels();
            prop_assert!(scale.ticks.len() < 60);
        }
    }
}
