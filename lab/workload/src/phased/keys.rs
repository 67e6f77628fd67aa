//! The keys of a phased specification.

use alloc::string::{String, ToString as _};
use alloc::sync::Arc;
use alloc::vec::Vec;
use alloc::{format, vec};
use core::fmt::Write as _;

use headlong_random::Empirical;
use headlong_settings::{
    Document, Mistakes, Rejection, Value, ValueKind, choice, number, seconds, size, text, whole,
};
use headlong_units::Duration;

use super::ContentKind;
use super::specification::{
    BytesKnown, DeviceType, PhasedRendition, PhasedSpecification, RateSelection, RequestForm,
};
use crate::keys::{
    KeyVisitor, TomlWriter, curve_within, document, list, no_new_tables, no_preset, real, share,
};
use crate::specification::{
    ArrivalDistribution, SESSIONS_MAX, TITLES_MAX, TraceExtent, arrival_rate, is_of_phases,
    take_playing,
};
use crate::{ArrivalRate, Curve, Specification, TitleForm, ViewerIdentity, preset};

/// Value of `model` in a specification of this kind.
pub const MODEL: &str = preset::PHASED_MODEL;
/// Largest number of device types; a log has a number for each.
const DEVICES_MAX: usize = 1000;
/// Largest number of files of a kind per title.
const RENDITIONS_MAX: usize = 64;
/// Preset with the default values; it has every key.
const BASE: &str = "netflix-2014-catalog";

const FORMS: [(&str, RequestForm); 2] =
    [("chunk", RequestForm::Chunk), ("open", RequestForm::Open)];
const CONTENTS: [(&str, bool); 2] = [("separate", true), ("combined", false)];
const BYTES: [(&str, BytesKnown); 2] = [
    ("exact", BytesKnown::Exact),
    ("at-least", BytesKnown::AtLeast),
];
const RATES: [(&str, RateSelection); 2] = [
    ("several", RateSelection::Several),
    ("one", RateSelection::One),
];

impl PhasedSpecification {
    /// Reads a specification from TOML. `source` is the name of the text in errors; each of
    /// `overrides` (`sessions.count`, `1000`) replaces the value of that key. Omitted keys have the
    /// values of `netflix-2014-catalog`; devices in the text replace the preset's.
    ///
    /// # Errors
    /// All mistakes.
    pub fn read(
        source: &str,
        text: &str,
        overrides: &[(String, String)],
    ) -> Result<Self, Mistakes> {
        let read = read(source, text, overrides)?.phases;
        Ok(read.map(Arc::unwrap_or_clone).unwrap_or_default())
    }

    /// The preset of that name, with overrides.
    ///
    /// # Errors
    /// If there is none, with the nearest name; or if an override is invalid.
    pub fn preset(name: &str, overrides: &[(String, String)]) -> Result<Self, Mistakes> {
        let text = preset::text(name).ok_or_else(|| no_preset(name, preset::names()))?;
        Self::read(name, text, overrides)
    }

    /// Whether a TOML text declares itself a specification of this kind: `model = "phases"`.
    pub fn is_meant(text: &str) -> bool {
        is_of_phases(text)
    }

    /// The specification as TOML, which parses to the same specification.
    pub fn to_toml(&self) -> String {
        let mut writer = TomlWriter::default();
        let _ = writeln!(writer.text, "model = \"{MODEL}\"");
        visit(&mut self.clone(), &mut writer);
        writer.text
    }
}

/// Reads a specification with its sessions as they are played.
pub(crate) fn read(
    source: &str,
    text: &str,
    overrides: &[(String, String)],
) -> Result<Specification, Mistakes> {
    let base = preset::text(BASE).unwrap_or_default();
    let base = overlay(PhasedSpecification::default(), BASE, base, &[])?.phases;
    let base = base.map(Arc::unwrap_or_clone).unwrap_or_default();
    overlay(base, source, text, overrides)
}

fn overlay(
    mut specification: PhasedSpecification,
    source: &str,
    text: &str,
    overrides: &[(String, String)],
) -> Result<Specification, Mistakes> {
    let mut table = document(source, text, overrides);
    let model = table.get("model", &headlong_settings::text());
    if model.is_some_and(|model| model != MODEL) {
        table.wrong("model", format!("is of another kind; write `{MODEL}`"));
    }
    no_new_tables(&mut table, &["device"], text, overrides);
    take_devices(&mut specification, &mut table, text);
    visit(&mut specification, &mut table);
    check(&specification, &mut table);
    let mut played = Specification {
        name: specification.name.clone(),
        catalogue_seed: specification.catalogue.seed,
        ..Specification::default()
    };
    take_sessions(&specification, &mut played, &mut table);
    let played = Specification {
        phases: Some(Arc::new(specification)),
        ..played
    };
    table.finish(played).map(Specification::with_phased_classes)
}

impl Specification {
    fn with_phased_classes(mut self) -> Self {
        if let Some(phases) = &self.phases {
            self.classes = super::plan::classes(phases);
        }
        self
    }

    /// The same with another number of sessions, if it is one of phases (see
    /// [`PhasedSpecification::scaled`]).
    #[must_use]
    pub fn scaled(mut self, sessions: u64) -> Self {
        if let Some(phases) = self.phases {
            let phases = Arc::unwrap_or_clone(phases).scaled(sessions);
            if self.sessions.arrivals == ArrivalDistribution::Logged {
                self.sessions.rate = ArrivalRate::Sessions(phases.sessions.per_second());
            }
            self.phases = Some(Arc::new(phases));
        }
        self
    }
}

/// How the sessions are played: as in the log, or at a constant rate if one is given.
fn take_sessions(
    specification: &PhasedSpecification,
    played: &mut Specification,
    table: &mut Document,
) {
    let log = &specification.sessions;
    let sessions = &mut played.sessions;
    let rate = table.get("sessions.rate", &arrival_rate());
    sessions.arrivals = match rate {
        Some(_) => ArrivalDistribution::Poisson,
        None => ArrivalDistribution::Logged,
    };
    sessions.rate = rate.unwrap_or(ArrivalRate::Sessions(log.per_second()));
    let is_passed = |key| table.is_overridden(key);
    sessions.extent = match is_passed("sessions.count") && !is_passed("sessions.length") {
        true => TraceExtent::Sessions(log.count),
        false => TraceExtent::Time(Duration(libm::round(log.length_s * 1e9) as u64)),
    };
    take_playing(&mut table.section("sessions"), sessions);
    let mut keys = table.section("requests");
    let identity = &mut played.requests.identity;
    keys.key("identity", choice(&ViewerIdentity::ALL), identity);
    // Each bit rate of a title is one file.
    let forms = [("off", TitleForm::Whole)];
    table.key("catalogue.chunk", choice(&forms), &mut played.storage.form);
}

/// Devices in the text replace those of the base; keys that they omit are taken from the base's
/// device of the same name.
fn take_devices(specification: &mut PhasedSpecification, table: &mut Document, text: &str) {
    let names = table.children("device");
    let own = document("", text, &[]).children("device");
    let known = |name: &String, devices: &[DeviceType]| devices.iter().any(|d| d.name == *name);
    if own.is_empty() && names.iter().all(|name| known(name, &specification.devices)) {
        return;
    }
    if names.len() > DEVICES_MAX {
        table.wrong(
            "device",
            format!("has too many entries; at most {DEVICES_MAX}"),
        );
    }
    let old = core::mem::take(&mut specification.devices);
    specification.devices = names
        .into_iter()
        .take(DEVICES_MAX)
        .map(|name| {
            let model = old
                .iter()
                .find(|device| device.name == name)
                .or(old.first());
            let mut device = model.cloned().unwrap_or_default();
            device.name = name;
            device
        })
        .collect();
}

fn check(specification: &PhasedSpecification, table: &mut Document) {
    if specification.devices.is_empty() {
        table.wrong(
            "device",
            "is missing; write at least one table like [device.tv]",
        );
    } else if specification
        .devices
        .iter()
        .all(|device| device.share <= 0.0)
    {
        table.wrong(
            "device",
            "has no share above 0; give at least one device a share",
        );
    }
    let viewing = &specification.viewing;
    if viewing.up_share + viewing.down_share > 1.0 {
        table.wrong(
            "viewing.up_share",
            "is more than 1 together with viewing.down_share",
        );
    }
    for device in &specification.devices {
        let mut needed = vec![device.content()];
        if device.is_separate {
            needed.push(ContentKind::Audio);
        }
        for kind in needed {
            let lowest = specification.catalogue.of_kind(kind).first();
            let is_content = kind == device.content();
            let key = format!("device.{}.kbps_max", device.name);
            match lowest {
                None => table.wrong(
                    &format!("catalogue.{}", kind.name()),
                    format!("is empty, but device {} reads such files", device.name),
                ),
                Some(lowest) if is_content && u64::from(lowest.kbps) > device.kbps_max => {
                    table.wrong(
                        &key,
                        format!("is below the lowest bit rate, {}", lowest.kbps),
                    );
                }
                Some(_) => {}
            }
        }
    }
}

/// All keys, in the order of the manual.
fn visit(specification: &mut PhasedSpecification, visitor: &mut impl KeyVisitor) {
    visitor.key("name", text(), &mut specification.name);
    let mut keys = visitor.section("catalogue");
    let it = &mut specification.catalogue;
    keys.key("seed", whole(), &mut it.seed);
    keys.key("titles", count(1, TITLES_MAX), &mut it.count);
    keys.key("zipf_alpha", real(0.0, 10.0), &mut it.zipf_alpha);
    keys.key("head_titles", count(0, TITLES_MAX), &mut it.head_titles);
    keys.key("head_factor", real(0.0, 1e6), &mut it.head_factor);
    keys.key("durations", law(1.0, 1e6), &mut it.durations);
    keys.key("duration_weights", weights(), &mut it.duration_weights);
    keys.key("drives", count(1, 65_535), &mut it.drives);
    keys.key("segment_time", length(0.1, 3600.0), &mut it.segment_s);
    let variation = &mut it.segment_variation;
    keys.key("segment_variation", real(0.0, 0.49), variation);
    keys.key("rate_variation", real(0.0, 0.99), &mut it.rate_variation);
    let entry = &mut it.table_entry_bytes;
    keys.key("table_entry_bytes", real(0.0, 1e6), entry);
    keys.key("rates", choice(&RATES), &mut it.rates);
    keys.key("bytes", size().between(0, 1 << 60), &mut it.bytes);
    keys.key("bytes_are", choice(&BYTES), &mut it.bytes_are);
    for (kind, all) in ContentKind::ALL.iter().zip(&mut it.renditions) {
        keys.key(kind.name(), renditions(), all);
    }
    let mut keys = visitor.section("sessions");
    let it = &mut specification.sessions;
    keys.key("count", count(1, SESSIONS_MAX), &mut it.count);
    keys.key("length", length(60.0, 1e8), &mut it.length_s);
    keys.key("arrivals", weights(), &mut it.arrivals);
    let pace = &mut it.read_bytes_per_s;
    keys.key("read_bytes_per_s", real(0.0, 1e12), pace);
    let mut keys = visitor.section("viewing");
    let it = &mut specification.viewing;
    keys.key("start", law(0.0, 1.0), &mut it.start);
    keys.key("glance_share", share(), &mut it.glance_share);
    keys.key("glance_time", law(0.0, 40.0), &mut it.glance_s);
    keys.key("stay", law(0.0, 10.0), &mut it.stay);
    keys.key("skips_per_hour", per_hour(), &mut it.skips_per_hour);
    keys.key("skip_time", law(-1e6, 1e6), &mut it.skip_s);
    keys.key("pauses_per_hour", per_hour(), &mut it.pauses_per_hour);
    keys.key("pause_at_start", share(), &mut it.pause_at_start);
    keys.key("pause_time", law(0.0, 1e7), &mut it.pause_s);
    let changes = &mut it.changes_per_hour;
    keys.key("changes_per_hour", per_hour(), changes);
    keys.key("up_share", share(), &mut it.up_share);
    keys.key("down_share", share(), &mut it.down_share);
    keys.key("cautious_share", share(), &mut it.cautious_share);
    let mut keys = visitor.section("network");
    let it = &mut specification.network;
    keys.key("headroom", law(0.01, 1e4), &mut it.headroom);
    keys.key("delay", length(0.0, 60.0), &mut it.delay_s);
    keys.key("transient_share", real(0.01, 1.0), &mut it.transient_share);
    for device in &mut specification.devices {
        let name = format!("device.{}", device.name);
        visit_device(device, &mut visitor.section(&name));
    }
}

fn visit_device(it: &mut DeviceType, keys: &mut impl KeyVisitor) {
    let (request, spacing) = (|| length(0.1, 3600.0), || length(0.0, 3600.0));
    let (buffer, mean) = (|| length(1.0, 36_000.0), || real(0.0, 100.0));
    keys.key("share", real(0.0, 1e9), &mut it.share);
    keys.key("content", choice(&CONTENTS), &mut it.is_separate);
    keys.key("requests", choice(&FORMS), &mut it.form);
    keys.key("audio_requests", choice(&FORMS), &mut it.audio_form);
    keys.key("both_share", share(), &mut it.both_share);
    keys.key("kbps_max", count(1, 10_000_000), &mut it.kbps_max);
    keys.key("request_time", request(), &mut it.request_s);
    let part = size().between(1024, 1 << 40);
    keys.key("part_max", part, &mut it.part_bytes_max);
    keys.key("connections", count(1, 16), &mut it.connections);
    keys.key("audio_request_time", request(), &mut it.audio_request_s);
    keys.key("buffer", buffer(), &mut it.buffer_s);
    keys.key("audio_buffer", buffer(), &mut it.audio_buffer_s);
    keys.key("spacing", spacing(), &mut it.spacing_s);
    keys.key("audio_spacing", spacing(), &mut it.audio_spacing_s);
    let table = size().between(0, 1 << 30);
    keys.key("table", table, &mut it.table_bytes);
    keys.key("probes_first", mean(), &mut it.probes_first);
    keys.key("probes_next", mean(), &mut it.probes_next);
    keys.key("probe_time", request(), &mut it.probe_s);
    keys.key("audio_probes", mean(), &mut it.audio_probes);
    keys.key("resume_share", share(), &mut it.resume_share);
}

fn per_hour() -> ValueKind<f64> {
    real(0.0, 3600.0)
}

fn count(from: u64, to: u64) -> ValueKind<u64> {
    whole().between(from, to)
}

fn length(from: f64, to: f64) -> ValueKind<f64> {
    seconds().between(from, to)
}

/// A curve without a name.
fn law(from: f64, to: f64) -> ValueKind<Empirical> {
    curve_within(true, from, to).map(|curve| curve.law, Curve::inline)
}

/// Weights, not all 0.
fn weights() -> ValueKind<Vec<f64>> {
    let read = |value: &Value| {
        let items = value.items().ok_or(Rejection::Unfit)?;
        let weights = items.iter().map(|item| number().read(item));
        let weights: Vec<f64> = weights.collect::<Result<_, _>>()?;
        let sum: f64 = weights.iter().sum();
        let is_good = sum > 0.0 && sum.is_finite() && weights.iter().all(|w| *w >= 0.0);
        match is_good && weights.len() <= 100_000 {
            true => Ok(weights),
            false => Err(Rejection::Unfit),
        }
    };
    let form = "weights like [1, 0.5, 2], one for each part";
    ValueKind::new(form, read, |weights: &Vec<f64>| {
        list(weights, f64::to_string)
    })
}

/// `[[kbps, share of titles, weight], ...]`.
fn renditions() -> ValueKind<Vec<PhasedRendition>> {
    let one = |item: &Value| {
        let Some([kbps, share, weight]) = item.items() else {
            return Err(Rejection::Unfit);
        };
        Ok(PhasedRendition {
            kbps: number().between(1.0, 1e7).read(kbps)? as u32,
            titles_share: number().between(0.0, 1.0).read(share)?,
            weight: number().between(0.0, 1e9).read(weight)?,
        })
    };
    let read = move |value: &Value| {
        let items = value.items().ok_or(Rejection::Unfit)?;
        if items.len() > RENDITIONS_MAX {
            let count = items.len();
            return Err(format!("has {count} bit rates; at most {RENDITIONS_MAX}").into());
        }
        let all: Vec<PhasedRendition> = items.iter().map(one).collect::<Result<_, _>>()?;
        let is_ascending = all.windows(2).all(|pair| pair[0].kbps < pair[1].kbps);
        is_ascending.then_some(all).ok_or(Rejection::Unfit)
    };
    let form = "[[kbps, share of titles that have it, weight], ...], bit rates ascending";
    ValueKind::new(form, read, |all: &Vec<PhasedRendition>| {
        let one =
            |one: &PhasedRendition| format!("[{}, {}, {}]", one.kbps, one.titles_share, one.weight);
        list(all, one)
    })
}
