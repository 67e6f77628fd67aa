//! Parses a [`Specification`] from TOML: every key with its type and default.

use alloc::borrow::ToOwned as _;
use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec;
use alloc::vec::Vec;
use core::str::FromStr;

use headlong_random::Empirical;
use headlong_settings::{
    Document, Mistakes, Rejection, Value, ValueKind, ValueLocation, bit_rate, choice, flag, number,
    parsed, size, text, time, whole,
};
use headlong_units::{Bytes, Duration, KIB, MIB};

use super::players::{check_players, players};
use super::{
    ArrivalDistribution, ArrivalRate, Ramp, RequestSettings, RequestSize, SessionArrivals,
    Specification, StartPosition, TITLES_MAX, TitleGroup, TitleStorage, TraceExtent, ViewingRange,
    check,
};
use crate::{Curve, NetworkClass, TitleForm, ViewerIdentity, preset};
use headlong_units::nearest;

/// Largest number of bytes per segment in a table of offsets.
const ENTRY_BYTES_MAX: u64 = 4096;

/// Error for a workload of the other kind; all its keys would be unknown here.
const OF_PHASES: &str = "is a workload of phases, which cannot be used here; `headlong simulate plan` \
                         and `headlong workload generate` take it";

/// Whether a text declares itself a specification of the other kind.
pub(crate) fn is_of_phases(text: &str) -> bool {
    let model = document("", text, &[]).take("model");
    model.is_some_and(|model| model.text() == Some(preset::PHASED_MODEL))
}

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
            let place = ValueLocation::File(source.to_owned());
            return Err(Mistakes::at(&place, [OF_PHASES.to_owned()]));
        }
        let mut table = document(source, text, overrides);
        no_new_tables(&mut table, &["title", "network"], text, overrides);
        let specification = Self::take(&mut table);
        check::check(&specification, &mut table);
        check_players(&specification, &mut table);
        table.finish(specification)
    }

    /// The preset of that name, with overrides.
    ///
    /// # Errors
    /// If there is none, with the nearest name; or if an override is invalid.
    pub fn preset(name: &str, overrides: &[(String, String)]) -> Result<Self, Mistakes> {
        match preset::text(name) {
            Some(text) => Self::read(name, text, overrides),
            None => {
                let all = || preset::names().chain(preset::phased_names());
                let names: Vec<&str> = all().collect();
                let names = names.join(", ");
                let text = if preset::phased_text(name).is_some() {
                    OF_PHASES.to_owned()
                } else {
                    let meant = nearest(name, all());
                    let meant =
                        meant.map_or(String::new(), |meant| format!("did you mean {meant}? "));
                    format!("no such preset; {meant}the presets are {names}")
                };
                Err(Mistakes::at(&ValueLocation::File(name.to_owned()), [text]))
            }
        }
    }

    fn take(table: &mut Document) -> Self {
        Self {
            name: table
                .get("name", &text())
                .unwrap_or_else(|| "unnamed".to_owned()),
            groups: groups(table),
            catalogue_seed: table.get_or("catalogue.seed", &whole::<u64>(), 1),
            storage: TitleStorage {
                form: table.get("catalogue.chunk", &form()).unwrap_or_default(),
                pad_bytes: table.get_or("catalogue.pad", &size(), 4 * KIB),
            },
            sessions: sessions(table),
            viewing: viewing(table),
            requests: requests(table),
            players: players(table),
            classes: classes(table),
        }
    }
}

/// An override may only change an existing table: a misspelt name would create another group or
/// class, which takes its share of the viewers.
pub(crate) fn no_new_tables(
    table: &mut Document,
    parents: &[&str],
    text: &str,
    overrides: &[(String, String)],
) {
    let mut own = document("", text, &[]);
    for parent in parents {
        let names = own.children(parent);
        // If the text has none, an override is the only way to add one.
        if names.is_empty() {
            continue;
        }
        for (key, _) in overrides {
            let rest = key.strip_prefix(parent);
            let rest = rest.and_then(|rest| rest.strip_prefix('.'));
            let Some((name, _)) = rest.and_then(|rest| rest.split_once('.')) else {
                continue;
            };
            if names.iter().any(|known| known == name) {
                continue;
            }
            let all = names.join(", ");
            let told = format!("there is no {parent}.{name} to change; there are {all}");
            table.wrong(key, format!("{told}; write a new one into a file"));
        }
    }
}

fn groups(table: &mut Document) -> Vec<TitleGroup> {
    let names = table.children("title");
    names.into_iter().map(|name| group(table, name)).collect()
}

fn group(table: &mut Document, name: String) -> TitleGroup {
    let key = |key: &str| format!("title.{name}.{key}");
    let count = table.get(&key("count"), &whole::<u64>().at_most(TITLES_MAX));
    if count.is_none() && !table.mistakes.is_about(&key("count")) {
        table.wrong(&key("count"), "is missing; write how many titles there are");
    }
    let renditions = table.get(&key("renditions"), &bit_rate().list());
    let segment_bytes = table.get(&key("segment_bytes"), &segment_bytes());
    // If both are present, an override takes precedence.
    let sizes_count = segment_bytes.is_some()
        && renditions.is_some()
        && !table.wins(&key("renditions"), &key("segment_bytes"));
    TitleGroup {
        count: u32::try_from(count.unwrap_or(1)).unwrap_or(1),
        zipf_alpha: table.get_or(&key("zipf_alpha"), &number().between(0.0, 10.0), 0.8),
        weight: table.get_or(&key("weight"), &number().between(0.0, 1e9), 1.0),
        durations: table
            .get(&key("durations"), &curve(true))
            .unwrap_or_else(|| named("youtube-2011-duration")),
        median_durations: table.get_or(
            &key("median_durations"),
            &whole::<u64>().at_most(TITLES_MAX),
            2,
        ) as u32,
        segment_time: table.get_or(&key("segment_time"), &time(), Duration::from_secs(10)),
        segment_bytes: segment_bytes.unwrap_or(vec![(512 * KIB, 1.0)]),
        renditions: renditions.filter(|_| !sizes_count).unwrap_or_default(),
        segment_variation: table.get_or(
            &key("segment_variation"),
            &number().between(0.0, 0.99),
            0.0,
        ),
        table_entry_bytes: table.get_or(
            &key("table_entry_bytes"),
            &whole::<u64>().at_most(ENTRY_BYTES_MAX),
            0,
        ),
        name,
    }
}

fn sessions(table: &mut Document) -> SessionArrivals {
    let count = table.get(
        "sessions.count",
        &whole::<u64>().at_most(super::SESSIONS_MAX),
    );
    let length = table.get("sessions.length", &time());
    let arrivals = [
        ("poisson", ArrivalDistribution::Poisson),
        ("constant", ArrivalDistribution::Constant),
    ];
    let ramp = |table: &mut Document, end: &str| Ramp {
        sessions: table.get_or(&format!("sessions.ramp_{end}"), &whole::<u64>(), 0),
        time: table.get_or(
            &format!("sessions.ramp_{end}_time"),
            &time(),
            Duration::ZERO,
        ),
    };
    let count_wins = table.wins("sessions.count", "sessions.length");
    SessionArrivals {
        extent: match (count, length) {
            (Some(count), Some(_)) if count_wins => TraceExtent::Sessions(count),
            (_, Some(time)) => TraceExtent::Time(time),
            (count, None) => TraceExtent::Sessions(count.unwrap_or(1000)),
        },
        rate: table.get_or(
            "sessions.rate",
            &sessions_rate(),
            ArrivalRate::Bytes(20.0 * MIB as f64),
        ),
        arrivals: table.get_or(
            "sessions.arrivals",
            &choice(&arrivals),
            ArrivalDistribution::Poisson,
        ),
        ramp_up: ramp(table, "up"),
        ramp_down: ramp(table, "down"),
        resume_time: table.get_or("sessions.resume_time", &time(), Duration::ZERO),
        warming_count: table.get_or("sessions.warming", &whole::<u64>().at_most(1_000_000), 0),
    }
}

fn viewing(table: &mut Document) -> ViewingRange {
    let starts = [
        ("beginning", StartPosition::Beginning),
        ("random-segment", StartPosition::RandomSegment),
    ];
    let chance =
        |table: &mut Document, key: &str| table.get_or(key, &number().between(0.0, 1.0), 0.0);
    ViewingRange {
        start: table.get_or("viewing.start", &choice(&starts), StartPosition::Beginning),
        fraction: table
            .get("viewing.fraction", &curve(false))
            .unwrap_or_else(|| named("youtube-2011-fraction")),
        early_end: chance(table, "viewing.early_end"),
        pause: chance(table, "viewing.pause"),
        pause_time: table
            .get("viewing.pause_time", &curve(true))
            .unwrap_or_else(|| Curve::constant(60.0)),
        skip: chance(table, "viewing.skip"),
    }
}

fn requests(table: &mut Document) -> RequestSettings {
    RequestSettings {
        size: table.get_or(
            "requests.size",
            &request_size(),
            RequestSize::Time(Duration::from_secs(10)),
        ),
        unpaced: table.get_or(
            "requests.unpaced",
            &whole::<u64>().at_most(u64::from(u32::MAX)),
            3,
        ) as u32,
        pacing: table.get_or("requests.pacing", &flag(), true),
        timeout: table.get_or(
            "requests.timeout",
            &time().optional().or_word("off", None),
            Some(Duration::from_secs(10)),
        ),
        connections: table.get_or("requests.connections", &whole::<u64>().at_most(64), 1) as u32,
        identity: table
            .get("requests.identity", &choice(&ViewerIdentity::ALL))
            .unwrap_or_default(),
        open_ended: table.get_or("requests.open_ended", &flag(), false),
    }
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
    let key = |key: &str| format!("network.{name}.{key}");
    NetworkClass {
        bandwidth: table.get_or(
            &key("bandwidth"),
            &bit_rate().optional().or_word("unlimited", None),
            None,
        ),
        delay: table.get_or(&key("delay"), &time(), Duration::ZERO),
        share: table.get_or(&key("share"), &number().between(0.0, 1e9), 1.0),
        name,
    }
}

fn named(name: &str) -> Curve {
    Curve::named(name).unwrap_or_else(|| Curve::constant(1.0))
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

/// The text with its overrides.
pub(crate) fn document(source: &str, text: &str, overrides: &[(String, String)]) -> Document {
    let mut document = Document::new(source, "docs/lab/workload.md", text);
    for (key, value) in overrides {
        document.set(&format!("--set {key}"), key, Value::of_word(value));
    }
    document
}

/// A kind for reading only, without an output form.
pub(crate) fn read_only<V: 'static>(
    form: &'static str,
    read: impl Fn(&Value) -> Result<V, Rejection> + 'static,
) -> ValueKind<V> {
    ValueKind::new(form, read, |_| String::new())
}

fn form() -> ValueKind<TitleForm> {
    parsed("a size such as \"512KiB\", or \"segment\", or \"off\"")
}

fn sessions_rate() -> ValueKind<ArrivalRate> {
    parsed("sessions such as \"2.5/s\", or bytes that they ask for such as \"60MiB/s\"")
}

fn request_size() -> ValueKind<RequestSize> {
    let form = "seconds of content such as \"10s\", or bytes such as \"512KiB\"";
    read_only(form, |value| {
        Ok(value.text().ok_or(Rejection::Unfit)?.parse()?)
    })
}

/// A curve by name, by its points, or a constant: `120s` (if `is_time`) or a number.
pub(crate) fn curve(is_time: bool) -> ValueKind<Curve> {
    read_only(
        "the name of a curve, its points, or a constant",
        move |value| match value {
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
                let points = "write points like [[0, 0], [60, 0.5], [120, 1]]";
                let names = names.join(", ");
                Err(
                    format!("no curve is called `{text}`{meant}; {points}, or one of {names}")
                        .into(),
                )
            }
            Value::List(points) => {
                let points: Result<Vec<_>, String> = points.iter().map(pair).collect();
                let law = Empirical::new(points?).map_err(|error| error.to_string())?;
                let name = "inline".to_owned();
                Ok(Curve { name, law })
            }
            constant => Ok(Curve::constant(
                number().read(constant).map_err(|_| Rejection::Unfit)?,
            )),
        },
    )
}

/// `512KiB`, or a mix: `["512KiB", "2560KiB"]` in equal shares, `[["512KiB", 3], ["1MiB", 1]]` in
/// others.
fn segment_bytes() -> ValueKind<Vec<(u64, f64)>> {
    read_only("a size such as \"512KiB\", or a list of sizes", |value| {
        let Some(items) = value.items() else {
            return Ok(vec![(size().read(value)?, 1.0)]);
        };
        let share = |item: &Value| match item.items() {
            Some([bytes, share]) => Ok((size().read(bytes)?, number().read(share)?)),
            _ => Ok((size().read(item)?, 1.0)),
        };
        let mix: Vec<(u64, f64)> = items.iter().map(share).collect::<Result<_, String>>()?;
        let sum: f64 = mix.iter().map(|(_, share)| share).sum();
        if !(sum.is_finite() && sum > 0.0 && mix.iter().all(|(_, share)| *share >= 0.0)) {
            return Err("the shares of a mix must be positive".into());
        }
        let mix = mix.into_iter();
        Ok(mix.map(|(bytes, share)| (bytes, share / sum)).collect())
    })
}

fn pair(value: &Value) -> Result<(f64, f64), String> {
    match value.items() {
        Some([value, share]) => Ok((number().read(value)?, number().read(share)?)),
        _ => Err("a point is [value, share at or below it]".to_owned()),
    }
}
