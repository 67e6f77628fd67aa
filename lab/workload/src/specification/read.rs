//! Parses a [`Specification`] from TOML: every key with its kind.

use alloc::string::String;
use alloc::vec::Vec;
use alloc::{format, vec};
use core::str::FromStr;

use headlong_settings::{
    Document, Mistakes, Rejection, Value, ValueKind, bit_rate, choice, flag, number, parsed, size,
    text, time, whole,
};
use headlong_units::{Bytes, Duration};

use super::arrivals::{arrival_rate, is_of_phases, take_playing};
use super::check::{BYTES_MAX, BYTES_MIN, DURATION_SECONDS_MAX, check};
use super::players::{check_players, players};
use super::{
    ArrivalDistribution, RequestSettings, RequestSize, SESSIONS_MAX, SessionArrivals,
    Specification, StartPosition, TITLES_MAX, TitleGroup, TraceExtent, ViewingRange,
};
use crate::keys::{KeyVisitor, curve_within, document, no_new_tables, no_preset, real, share};
use crate::{NetworkClass, ViewerIdentity, phased, preset};

/// Largest number of bytes per segment in a table of offsets.
const ENTRY_BYTES_MAX: u64 = 4096;

impl Specification {
    /// Reads a specification from TOML. `source` is the name of the text in errors; each of
    /// `overrides` (`sessions.rate`, `40MiB/s`) replaces the value of that key.
    ///
    /// # Errors
    /// All mistakes in either.
    pub fn read(
        source: &str,
        text: &str,
        overrides: &[(String, String)],
    ) -> Result<Self, Mistakes> {
        if is_of_phases(text) {
            return phased::keys::read(source, text, overrides);
        }
        let mut table = document(source, text, overrides);
        no_new_tables(&mut table, &["title", "network"], text, overrides);
        let specification = Self::take(&mut table);
        check(&specification, &mut table);
        check_players(&specification, &mut table);
        table.finish(specification)
    }

    /// The preset of that name, with overrides.
    ///
    /// # Errors
    /// If there is none, with the nearest name; or if an override is invalid.
    pub fn preset(name: &str, overrides: &[(String, String)]) -> Result<Self, Mistakes> {
        let text = preset::text(name).ok_or_else(|| no_preset(name, preset::names()))?;
        Self::read(name, text, overrides)
    }

    fn take(table: &mut Document) -> Self {
        let mut read = Self::default();
        table.key("name", text(), &mut read.name);
        read.groups = groups(table);
        table.key("catalogue.seed", whole(), &mut read.catalogue_seed);
        let form = "a size such as \"512KiB\", or \"segment\", or \"off\"";
        table.key("catalogue.chunk", parsed(form), &mut read.storage.form);
        let pad = size().between(1, BYTES_MAX);
        table.key("catalogue.pad", pad, &mut read.storage.pad_bytes);
        take_sessions(table, &mut read.sessions);
        take_viewing(&mut table.section("viewing"), &mut read.viewing);
        take_requests(&mut table.section("requests"), &mut read.requests);
        read.players = players(table);
        read.classes = classes(table);
        read
    }
}

fn groups(table: &mut Document) -> Vec<TitleGroup> {
    let names = table.children("title");
    names.into_iter().map(|name| group(table, name)).collect()
}

fn group(table: &mut Document, name: String) -> TitleGroup {
    let prefix = format!("title.{name}");
    let key = |key: &str| format!("{prefix}.{key}");
    let mut it = TitleGroup::default();
    if !table.is_written(&key("count")) {
        table.wrong(&key("count"), "is missing; write how many titles there are");
    }
    let sizes = table.get(&key("segment_bytes"), &segment_bytes());
    let renditions = table.get(&key("renditions"), &bit_rate().list());
    // If both are present, an override takes precedence.
    let sizes_count = sizes.is_some()
        && renditions.is_some()
        && !table.wins(&key("renditions"), &key("segment_bytes"));
    it.segment_bytes = sizes.unwrap_or(it.segment_bytes);
    it.renditions = renditions.filter(|_| !sizes_count).unwrap_or_default();
    let mut keys = table.section(&prefix);
    let count = |least| whole().between(least, TITLES_MAX as u32);
    keys.key("count", count(1), &mut it.count);
    keys.key("zipf_alpha", real(0.0, 10.0), &mut it.zipf_alpha);
    keys.key("weight", real(0.0, 1e9), &mut it.weight);
    let durations = curve_within(true, 0.0, DURATION_SECONDS_MAX);
    keys.key("durations", durations, &mut it.durations);
    keys.key("median_durations", count(0), &mut it.median_durations);
    let segment = time().between(Duration::from_millis(1), Duration::from_secs(86_400));
    keys.key("segment_time", segment, &mut it.segment_time);
    let variation = &mut it.segment_variation;
    keys.key("segment_variation", real(0.0, 0.99), variation);
    let entry = whole().between(0, ENTRY_BYTES_MAX);
    keys.key("table_entry_bytes", entry, &mut it.table_entry_bytes);
    it.name = name;
    it
}

fn take_sessions(table: &mut Document, it: &mut SessionArrivals) {
    let count = table.get("sessions.count", &whole().between(1, SESSIONS_MAX));
    let length = table.get("sessions.length", &time().at_least(Duration(1)));
    let count_wins = table.wins("sessions.count", "sessions.length");
    it.extent = match (count, length) {
        (Some(count), Some(_)) if count_wins => TraceExtent::Sessions(count),
        (_, Some(time)) => TraceExtent::Time(time),
        (Some(count), None) => TraceExtent::Sessions(count),
        (None, None) => it.extent,
    };
    let mut keys = table.section("sessions");
    keys.key("rate", arrival_rate(), &mut it.rate);
    let arrivals = [
        ("poisson", ArrivalDistribution::Poisson),
        ("constant", ArrivalDistribution::Constant),
    ];
    keys.key("arrivals", choice(&arrivals), &mut it.arrivals);
    take_playing(&mut keys, it);
}

fn take_viewing(keys: &mut impl KeyVisitor, it: &mut ViewingRange) {
    let starts = [
        ("beginning", StartPosition::Beginning),
        ("random-segment", StartPosition::RandomSegment),
    ];
    keys.key("start", choice(&starts), &mut it.start);
    keys.key("fraction", curve_within(false, 0.0, 1.0), &mut it.fraction);
    keys.key("early_end", share(), &mut it.early_end);
    keys.key("pause", share(), &mut it.pause);
    let pause_time = curve_within(true, 0.0, DURATION_SECONDS_MAX);
    keys.key("pause_time", pause_time, &mut it.pause_time);
    keys.key("skip", share(), &mut it.skip);
}

fn take_requests(keys: &mut impl KeyVisitor, it: &mut RequestSettings) {
    keys.key("size", request_size(), &mut it.size);
    keys.key("unpaced", whole(), &mut it.unpaced);
    keys.key("pacing", flag(), &mut it.pacing);
    let timeout = time().optional().or_word("off", None);
    keys.key("timeout", timeout, &mut it.timeout);
    keys.key("connections", whole().between(1, 64), &mut it.connections);
    keys.key("identity", choice(&ViewerIdentity::ALL), &mut it.identity);
    keys.key("open_ended", flag(), &mut it.open_ended);
}

fn classes(table: &mut Document) -> Vec<NetworkClass> {
    let throttled = table.get_or("requests.throttled", &flag(), true);
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

fn class(table: &mut Document, name: String) -> NetworkClass {
    let prefix = format!("network.{name}");
    let mut keys = table.section(&prefix);
    let mut it = NetworkClass::unlimited();
    let bandwidth = bit_rate().optional().or_word("unlimited", None);
    keys.key("bandwidth", bandwidth, &mut it.bandwidth);
    keys.key("delay", time(), &mut it.delay);
    keys.key("share", real(0.0, 1e9), &mut it.share);
    it.name = name;
    it
}

impl FromStr for RequestSize {
    type Err = String;

    /// Parses `10s` (of content) and `512KiB`.
    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(time) = text.parse() {
            return Ok(Self::Time(time));
        }
        text.parse()
            .map(|Bytes(bytes)| Self::Bytes(bytes))
            .map_err(|_| {
                format!(
                    "`{text}` is not a size; write a playing time like 10s, or bytes like 512KiB"
                )
            })
    }
}

fn request_size() -> ValueKind<RequestSize> {
    let form = "seconds of content such as \"10s\", or bytes such as \"512KiB\"";
    let read = |value: &Value| Ok(value.text().ok_or(Rejection::Unfit)?.parse()?);
    read_only(form, read)
}

/// A kind for reading only, without an output form.
fn read_only<V: 'static>(
    form: &'static str,
    read: impl Fn(&Value) -> Result<V, Rejection> + 'static,
) -> ValueKind<V> {
    ValueKind::new(form, read, |_| String::new())
}

/// `512KiB`, or a mix: `["512KiB", "2560KiB"]` in equal shares, `[["512KiB", 3], ["1MiB", 1]]` in
/// others.
fn segment_bytes() -> ValueKind<Vec<(u64, f64)>> {
    let size = size().between(BYTES_MIN, BYTES_MAX);
    read_only(
        "a size such as \"512KiB\", or a list of sizes",
        move |value| {
            let Some(items) = value.items() else {
                return Ok(vec![(size.read(value)?, 1.0)]);
            };
            let share = |item: &Value| match item.items() {
                Some([bytes, share]) => Ok((size.read(bytes)?, number().read(share)?)),
                _ => Ok((size.read(item)?, 1.0)),
            };
            let mix: Vec<(u64, f64)> = items.iter().map(share).collect::<Result<_, String>>()?;
            let sum: f64 = mix.iter().map(|(_, share)| share).sum();
            if !(sum.is_finite() && sum > 0.0 && mix.iter().all(|(_, share)| *share >= 0.0)) {
                return Err("the shares of a mix must be positive".into());
            }
            let mix = mix.into_iter();
            Ok(mix.map(|(bytes, share)| (bytes, share / sum)).collect())
        },
    )
}
