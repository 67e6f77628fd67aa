//! From TOML to a [`Specification`]: every key with its type and its default.

use alloc::borrow::ToOwned as _;
use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec;
use alloc::vec::Vec;
use core::fmt::Display;
use core::str::FromStr;

use headlong_random::Empirical;
use headlong_units::{BitRate, Bytes, Duration, KIB, MIB};

use super::players::{check_players, players};
use super::table::{Table, Value};
use super::{
    Arrivals, Extent, Ramp, Rate, RequestSize, Requests, Sessions, Specification,
    SpecificationErrors, Start, Storage, TITLES_MAX, TitleGroup, Viewing, check,
};
use crate::{Curve, Form, NetworkClass, preset};
use headlong_units::nearest;

/// Most bytes that a table of offsets may have for each segment.
const ENTRY_BYTES_MAX: u64 = 4096;

impl Specification {
    /// Reads a specification from TOML. `source` is what errors call the text; each of `overrides`
    /// (`sessions.rate`, `40MiB/s`) replaces what it says about that key.
    ///
    /// # Errors
    /// Everything that is wrong with either, at once.
    pub fn read(
        source: &str,
        text: &str,
        overrides: &[(String, String)],
    ) -> Result<Self, SpecificationErrors> {
        let mut table = Table::read(source, text, overrides);
        let specification = Self::take(&mut table);
        table.reject_unknown();
        check::check(&specification, &mut table);
        check_players(&specification, &mut table);
        table.errors.or(specification)
    }

    /// The preset of that name, with overrides.
    ///
    /// # Errors
    /// If there is none, with the nearest that there is; or if an override is wrong.
    pub fn preset(name: &str, overrides: &[(String, String)]) -> Result<Self, SpecificationErrors> {
        match preset::text(name) {
            Some(text) => Self::read(name, text, overrides),
            None => {
                let mut table = Table::read(name, "", &[]);
                let all = || preset::names().chain(preset::phased_names());
                let names: Vec<&str> = all().collect();
                let names = names.join(", ");
                let text = if preset::phased_text(name).is_some() {
                    "is a workload of phases, which cannot be used here; generate a trace of it"
                        .to_owned()
                } else {
                    let meant = nearest(name, all());
                    let meant =
                        meant.map_or(String::new(), |meant| format!("did you mean {meant}? "));
                    format!("no such preset; {meant}the presets are {names}")
                };
                table.wrong("", text);
                Err(table.errors)
            }
        }
    }

    fn take(table: &mut Table) -> Self {
        Self {
            name: table.text("name").unwrap_or_else(|| "unnamed".to_owned()),
            groups: groups(table),
            catalogue_seed: table.whole("catalogue.seed", u64::MAX).unwrap_or(1),
            storage: Storage {
                form: table.form("catalogue.chunk").unwrap_or_default(),
                pad_bytes: table.parsed("catalogue.pad").unwrap_or(Bytes(4 * KIB)).0,
            },
            sessions: sessions(table),
            viewing: viewing(table),
            requests: requests(table),
            players: players(table),
            classes: classes(table),
        }
    }
}

fn groups(table: &mut Table) -> Vec<TitleGroup> {
    let names = table.children("title");
    names.into_iter().map(|name| group(table, name)).collect()
}

fn group(table: &mut Table, name: String) -> TitleGroup {
    let key = |key: &str| format!("title.{name}.{key}");
    let count = table.whole(&key("count"), TITLES_MAX);
    if count.is_none() && !table.errors.is_about(&key("count")) {
        table.wrong(&key("count"), "is missing; write how many titles there are");
    }
    let renditions = table.bit_rates(&key("renditions"));
    let segment_bytes = table.segment_bytes(&key("segment_bytes"));
    // Of the two, the command line's counts.
    let sizes_count = segment_bytes.is_some()
        && renditions.is_some()
        && !table.wins(&key("renditions"), &key("segment_bytes"));
    TitleGroup {
        count: u32::try_from(count.unwrap_or(1)).unwrap_or(1),
        zipf_alpha: table.number(&key("zipf_alpha"), 0.0..=10.0).unwrap_or(0.8),
        weight: table.number(&key("weight"), 0.0..=1e9).unwrap_or(1.0),
        durations: table
            .curve(&key("durations"), true)
            .unwrap_or_else(|| named("youtube-2011-duration")),
        median_durations: table
            .whole(&key("median_durations"), TITLES_MAX)
            .unwrap_or(2) as u32,
        segment_time: table
            .parsed(&key("segment_time"))
            .unwrap_or(Duration::from_secs(10)),
        segment_bytes: segment_bytes.unwrap_or(vec![(512 * KIB, 1.0)]),
        renditions: renditions.filter(|_| !sizes_count).unwrap_or_default(),
        segment_variation: table
            .number(&key("segment_variation"), 0.0..=0.99)
            .unwrap_or(0.0),
        table_entry_bytes: table
            .whole(&key("table_entry_bytes"), ENTRY_BYTES_MAX)
            .unwrap_or(0),
        name,
    }
}

fn sessions(table: &mut Table) -> Sessions {
    let count = table.whole("sessions.count", super::SESSIONS_MAX);
    let time = table.parsed("sessions.length");
    let arrivals = [
        ("poisson", Arrivals::Poisson),
        ("constant", Arrivals::Constant),
    ];
    let ramp = |table: &mut Table, end: &str| Ramp {
        sessions: table
            .whole(&format!("sessions.ramp_{end}"), u64::MAX)
            .unwrap_or(0),
        time: table
            .parsed(&format!("sessions.ramp_{end}_time"))
            .unwrap_or(Duration::ZERO),
    };
    let count_wins = table.wins("sessions.count", "sessions.length");
    Sessions {
        extent: match (count, time) {
            (Some(count), Some(_)) if count_wins => Extent::Sessions(count),
            (_, Some(time)) => Extent::Time(time),
            (count, None) => Extent::Sessions(count.unwrap_or(1000)),
        },
        rate: table
            .parsed("sessions.rate")
            .unwrap_or(Rate::Bytes(20.0 * MIB as f64)),
        arrivals: table
            .one_of("sessions.arrivals", &arrivals)
            .unwrap_or(Arrivals::Poisson),
        ramp_up: ramp(table, "up"),
        ramp_down: ramp(table, "down"),
        warming_count: table.whole("sessions.warming", 1_000_000).unwrap_or(0),
    }
}

fn viewing(table: &mut Table) -> Viewing {
    let starts = [
        ("beginning", Start::Beginning),
        ("random-segment", Start::RandomSegment),
    ];
    let chance = |table: &mut Table, key: &str| table.number(key, 0.0..=1.0).unwrap_or(0.0);
    Viewing {
        start: table
            .one_of("viewing.start", &starts)
            .unwrap_or(Start::Beginning),
        fraction: table
            .curve("viewing.fraction", false)
            .unwrap_or_else(|| named("youtube-2011-fraction")),
        early_end: chance(table, "viewing.early_end"),
        pause: chance(table, "viewing.pause"),
        pause_time: table
            .curve("viewing.pause_time", true)
            .unwrap_or_else(|| Curve::constant(60.0)),
        skip: chance(table, "viewing.skip"),
    }
}

fn requests(table: &mut Table) -> Requests {
    Requests {
        size: table
            .parsed("requests.size")
            .unwrap_or(RequestSize::Time(Duration::from_secs(10))),
        unpaced: table
            .whole("requests.unpaced", u64::from(u32::MAX))
            .unwrap_or(3) as u32,
        pacing: table.truth("requests.pacing").unwrap_or(true),
        timeout: table
            .timeout("requests.timeout")
            .unwrap_or(Some(Duration::from_secs(10))),
        connections: table.whole("requests.connections", 64).unwrap_or(1) as u32,
        open_ended: table.truth("requests.open_ended").unwrap_or(false),
    }
}

fn classes(table: &mut Table) -> Vec<NetworkClass> {
    let throttled = table.truth("requests.throttled").unwrap_or(true);
    let names = table.children("network");
    let mut classes: Vec<NetworkClass> = names.into_iter().map(|name| class(table, name)).collect();
    if !throttled {
        for class in &mut classes {
            (class.bandwidth, class.delay) = (None, Duration::ZERO);
        }
    }
    if classes.is_empty() {
        classes.push(NetworkClass::unlimited());
    }
    let sum: f64 = classes.iter().map(|class| class.share).sum();
    if sum > 0.0 {
        classes.iter_mut().for_each(|class| class.share /= sum);
    }
    classes
}

fn class(table: &mut Table, name: String) -> NetworkClass {
    let key = |key: &str| format!("network.{name}.{key}");
    NetworkClass {
        bandwidth: table.bandwidth(&key("bandwidth")).unwrap_or(None),
        delay: table.parsed(&key("delay")).unwrap_or(Duration::ZERO),
        share: table.number(&key("share"), 0.0..=1e9).unwrap_or(1.0),
        name,
    }
}

fn named(name: &str) -> Curve {
    Curve::named(name).unwrap_or_else(|| Curve::constant(1.0))
}

impl FromStr for RequestSize {
    type Err = String;

    /// Reads `10s` (of content) and `512KiB`.
    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(time) = text.parse() {
            return Ok(Self::Time(time));
        }
        text.parse()
            .map(|Bytes(bytes)| Self::Bytes(bytes))
            .map_err(|_| {
                format!(
                    "`{text}` is no size; write seconds of content like 10s, or bytes like 512KiB"
                )
            })
    }
}

/// Typed values. Each returns `None` for a key that was not written, and for one that was written
/// wrongly, after complaining.
impl Table {
    pub(crate) fn take_as<T>(
        &mut self,
        key: &str,
        read: impl FnOnce(&Value) -> Result<T, String>,
    ) -> Option<T> {
        let value = self.take(key)?;
        match read(&value) {
            Ok(value) => Some(value),
            Err(text) => {
                self.wrong(key, text);
                None
            }
        }
    }

    pub(crate) fn text(&mut self, key: &str) -> Option<String> {
        self.take_as(key, |value| match value {
            Value::Text(text) => Ok(text.clone()),
            other => Err(format!("is {}; write a text", other.kind())),
        })
    }

    pub(crate) fn parsed<T: FromStr>(&mut self, key: &str) -> Option<T>
    where
        T::Err: Display,
    {
        self.take_as(key, |value| match value {
            Value::Text(text) => text.parse().map_err(|error: T::Err| error.to_string()),
            Value::Whole(number) => number
                .to_string()
                .parse()
                .map_err(|error: T::Err| error.to_string()),
            other => Err(format!(
                "is {}; write a text with a number and a unit",
                other.kind()
            )),
        })
    }

    pub(crate) fn whole(&mut self, key: &str, max: u64) -> Option<u64> {
        self.take_as(key, |value| match value {
            Value::Whole(number) => u64::try_from(*number)
                .ok()
                .filter(|number| *number <= max)
                .ok_or_else(|| format!("{number} is out of bounds; write 0 to {max}")),
            other => Err(format!("is {}; write a whole number", other.kind())),
        })
    }

    pub(crate) fn number(
        &mut self,
        key: &str,
        bounds: core::ops::RangeInclusive<f64>,
    ) -> Option<f64> {
        self.take_as(key, |value| {
            let number = number(value)?;
            let (from, to) = (bounds.start(), bounds.end());
            let is_within = bounds.contains(&number);
            is_within
                .then_some(number)
                .ok_or_else(|| format!("{number} is out of bounds; write {from} to {to}"))
        })
    }

    fn truth(&mut self, key: &str) -> Option<bool> {
        self.take_as(key, |value| match value {
            Value::Truth(truth) => Ok(*truth),
            other => Err(format!("is {}; write true or false", other.kind())),
        })
    }

    pub(crate) fn one_of<T: Copy>(&mut self, key: &str, names: &[(&str, T)]) -> Option<T> {
        self.take_as(key, |value| {
            let all: Vec<&str> = names.iter().map(|(name, _)| *name).collect();
            let all = all.join(" or ");
            let Value::Text(text) = value else {
                return Err(format!("is {}; write {all}", value.kind()));
            };
            let found = names.iter().find(|(name, _)| name == text);
            found
                .map(|(_, value)| *value)
                .ok_or_else(|| format!("`{text}` is unknown; write {all}"))
        })
    }

    fn form(&mut self, key: &str) -> Option<Form> {
        self.take_as(key, |value| match value {
            Value::Text(text) => text.parse(),
            other => Err(format!(
                "is {}; write a size like 512KiB, or segment, or off",
                other.kind()
            )),
        })
    }

    fn timeout(&mut self, key: &str) -> Option<Option<Duration>> {
        self.take_as(key, |value| match value {
            Value::Text(text) if text == "off" => Ok(None),
            Value::Text(text) => text
                .parse()
                .map(Some)
                .map_err(|error: headlong_units::ParseError| error.to_string()),
            other => Err(format!(
                "is {}; write a time like 10s, or off",
                other.kind()
            )),
        })
    }

    fn bandwidth(&mut self, key: &str) -> Option<Option<BitRate>> {
        self.take_as(key, |value| match value {
            Value::Text(text) if text == "unlimited" => Ok(None),
            Value::Text(text) => text
                .parse()
                .map(Some)
                .map_err(|error: headlong_units::ParseError| error.to_string()),
            other => Err(format!(
                "is {}; write a rate like 10Mbps, or unlimited",
                other.kind()
            )),
        })
    }

    /// A curve by name, by its points, or a constant: `120s` (if `is_time`) or a number.
    pub(crate) fn curve(&mut self, key: &str, is_time: bool) -> Option<Curve> {
        self.take_as(key, |value| match value {
            Value::Text(text) => {
                if let Some(curve) = Curve::named(text) {
                    return Ok(curve);
                }
                if let (true, Ok(Duration(time))) = (is_time, text.parse()) {
                    return Ok(Curve::constant(time as f64 / 1e9));
                }
                let meant = nearest(text, Curve::names());
                let meant = meant.map_or(String::new(), |name| format!("; did you mean {name}?"));
                let names: Vec<&str> = Curve::names().collect();
                let names = names.join(", ");
                Err(format!("no curve is called `{text}`{meant}; write points like [[0, 0], [60, 0.5], [120, 1]], or one of {names}"))
            }
            Value::List(points) => {
                let points: Result<Vec<_>, String> = points.iter().map(pair).collect();
                let law = Empirical::new(points?).map_err(|error| error.to_string())?;
                Ok(Curve { name: "inline".to_owned(), law })
            }
            Value::Number(_) | Value::Whole(_) => Ok(Curve::constant(number(value)?)),
            other => Err(format!("is {}; write the name of a curve or its points", other.kind())),
        })
    }

    /// `["235kbps", "560kbps"]`.
    fn bit_rates(&mut self, key: &str) -> Option<Vec<BitRate>> {
        self.take_as(key, |value| {
            let Value::List(items) = value else {
                let text = "write bit rates, upwards, like [\"235kbps\", \"560kbps\"]";
                return Err(format!("is {}; {text}", value.kind()));
            };
            let rate = |item: &Value| match item {
                Value::Text(text) => text
                    .parse()
                    .map_err(|error: headlong_units::ParseError| error.to_string()),
                other => Err(format!(
                    "has {} in it; write rates like 235kbps",
                    other.kind()
                )),
            };
            items.iter().map(rate).collect()
        })
    }

    /// `512KiB`, or a mix: `["512KiB", "2560KiB"]` in equal shares, `[["512KiB", 3], ["1MiB", 1]]`
    /// in others.
    fn segment_bytes(&mut self, key: &str) -> Option<Vec<(u64, f64)>> {
        self.take_as(key, |value| {
            let size = |value: &Value| match value {
                Value::Text(text) => {
                    let bytes: Result<Bytes, _> = text.parse();
                    bytes
                        .map(|bytes| bytes.0)
                        .map_err(|error| error.to_string())
                }
                other => Err(format!("is {}; write a size like 512KiB", other.kind())),
            };
            let Value::List(items) = value else {
                return Ok(vec![(size(value)?, 1.0)]);
            };
            let share = |item: &Value| match item {
                Value::List(pair) if pair.len() == 2 => Ok((size(&pair[0])?, number(&pair[1])?)),
                item => Ok((size(item)?, 1.0)),
            };
            let mix: Vec<(u64, f64)> = items.iter().map(share).collect::<Result<_, String>>()?;
            let sum: f64 = mix.iter().map(|(_, share)| share).sum();
            let is_good =
                sum.is_finite() && sum > 0.0 && mix.iter().all(|(_, share)| *share >= 0.0);
            if !is_good {
                return Err("the shares of a mix must be positive".to_owned());
            }
            Ok(mix
                .into_iter()
                .map(|(bytes, share)| (bytes, share / sum))
                .collect())
        })
    }
}

pub(crate) fn number(value: &Value) -> Result<f64, String> {
    match value {
        Value::Number(number) if number.is_finite() => Ok(*number),
        Value::Whole(number) => Ok(*number as f64),
        other => Err(format!("is {}; write a number", other.kind())),
    }
}

fn pair(value: &Value) -> Result<(f64, f64), String> {
    match value {
        Value::List(pair) if pair.len() == 2 => Ok((number(&pair[0])?, number(&pair[1])?)),
        _ => Err("a point is [value, share at or below it]".to_owned()),
    }
}
