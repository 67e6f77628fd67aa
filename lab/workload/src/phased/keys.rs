//! The keys of a phased specification, defined once for reading and writing.
//!
//! [`visit`] passes all keys with their bounds to a visitor, which either reads them from TOML or
//! writes them, so the two cannot disagree.

use alloc::borrow::ToOwned as _;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt::Write as _;

use headlong_settings::{Document, Mistakes, ValueLocation};
use headlong_units::nearest;

use super::specification::{
    DeviceType, NetworkSettings, PhasedSpecification, PhasedViewing, SessionSettings, TitleSettings,
};
use crate::preset;
use crate::specification::{SESSIONS_MAX, TITLES_MAX, document, is_of_phases, no_new_tables};

mod empty;
mod toml_reader;
mod toml_writer;
mod visitor;

use empty::{empty, unknown_device};
use toml_writer::TomlWriter;
use visitor::KeyVisitor;

/// Value of `model` in a specification of this kind.
pub const MODEL: &str = preset::PHASED_MODEL;
/// Largest number of device types; a log has a number for each.
const DEVICES_MAX: usize = 1000;

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
        let base = preset::phased_text(BASE).map(|text| overlay(empty(), BASE, text, &[]));
        let base = base.unwrap_or_else(|| Ok(empty()))?;
        overlay(base, source, text, overrides)
    }

    /// The preset of that name, with overrides.
    ///
    /// # Errors
    /// If there is none, with the nearest name; or if an override is invalid.
    pub fn preset(name: &str, overrides: &[(String, String)]) -> Result<Self, Mistakes> {
        if let Some(text) = preset::phased_text(name) {
            return Self::read(name, text, overrides);
        }
        let meant = nearest(name, preset::phased_names());
        let meant = meant.map_or(String::new(), |meant| format!("did you mean {meant}? "));
        let names: Vec<&str> = preset::phased_names().collect();
        let names = names.join(", ");
        let text = format!("no such preset of phases; {meant}they are {names}");
        Err(Mistakes::at(&ValueLocation::File(name.to_owned()), [text]))
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

/// Preset with the default values.
const BASE: &str = "netflix-2014-catalog";

fn overlay(
    mut specification: PhasedSpecification,
    source: &str,
    text: &str,
    overrides: &[(String, String)],
) -> Result<PhasedSpecification, Mistakes> {
    let mut table = document(source, text, overrides);
    let model = table.get("model", &headlong_settings::text());
    if model.is_some_and(|model| model != MODEL) {
        table.wrong("model", format!("is of another kind; write `{MODEL}`"));
    }
    no_new_tables(&mut table, &["device"], text, overrides);
    take_devices(&mut specification, &mut table, text);
    visit(&mut specification, &mut table);
    check(&specification, &mut table);
    table.finish(specification)
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
            let mut device = model.cloned().unwrap_or_else(unknown_device);
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
            needed.push(super::ContentKind::Audio);
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
fn visit(specification: &mut PhasedSpecification, keys: &mut impl KeyVisitor) {
    keys.text("name", &mut specification.name);
    let TitleSettings {
        seed,
        count,
        zipf_alpha,
        head_titles,
        head_factor,
        durations,
        duration_weights,
        drives,
        segment_s,
        segment_variation,
        rate_variation,
        table_entry_bytes,
        rates,
        renditions,
    } = &mut specification.catalogue;
    keys.whole("catalogue.seed", seed, 0, u64::MAX);
    keys.whole("catalogue.titles", count, 1, TITLES_MAX);
    keys.number("catalogue.zipf_alpha", zipf_alpha, 0.0, 10.0);
    keys.whole("catalogue.head_titles", head_titles, 0, TITLES_MAX);
    keys.number("catalogue.head_factor", head_factor, 0.0, 1e6);
    keys.curve("catalogue.durations", durations, 1.0, 1e6);
    keys.weights("catalogue.duration_weights", duration_weights);
    keys.whole("catalogue.drives", drives, 1, 65_535);
    keys.seconds("catalogue.segment_time", segment_s, 0.1, 3600.0);
    keys.number("catalogue.segment_variation", segment_variation, 0.0, 0.49);
    keys.number("catalogue.rate_variation", rate_variation, 0.0, 0.99);
    keys.number("catalogue.table_entry_bytes", table_entry_bytes, 0.0, 1e6);
    keys.rates("catalogue.rates", rates);
    for (kind, renditions) in super::ContentKind::ALL.iter().zip(renditions) {
        keys.renditions(&format!("catalogue.{}", kind.name()), renditions);
    }
    let SessionSettings {
        count,
        length_s,
        arrivals,
    } = &mut specification.sessions;
    keys.whole("sessions.count", count, 1, SESSIONS_MAX);
    keys.seconds("sessions.length", length_s, 60.0, 1e8);
    keys.weights("sessions.arrivals", arrivals);
    let PhasedViewing {
        start,
        glance_share,
        glance_s,
        stay,
        skips_per_hour,
        skip_s,
        pauses_per_hour,
        pause_at_start,
        pause_s,
        changes_per_hour,
        up_share,
        down_share,
        cautious_share,
    } = &mut specification.viewing;
    keys.curve("viewing.start", start, 0.0, 1.0);
    keys.number("viewing.glance_share", glance_share, 0.0, 1.0);
    keys.curve("viewing.glance_time", glance_s, 0.0, 40.0);
    keys.curve("viewing.stay", stay, 0.0, 10.0);
    keys.number("viewing.skips_per_hour", skips_per_hour, 0.0, 3600.0);
    keys.curve("viewing.skip_time", skip_s, -1e6, 1e6);
    keys.number("viewing.pauses_per_hour", pauses_per_hour, 0.0, 3600.0);
    keys.number("viewing.pause_at_start", pause_at_start, 0.0, 1.0);
    keys.curve("viewing.pause_time", pause_s, 0.0, 1e7);
    keys.number("viewing.changes_per_hour", changes_per_hour, 0.0, 3600.0);
    keys.number("viewing.up_share", up_share, 0.0, 1.0);
    keys.number("viewing.down_share", down_share, 0.0, 1.0);
    keys.number("viewing.cautious_share", cautious_share, 0.0, 1.0);
    let NetworkSettings {
        headroom,
        delay_s,
        transient_share,
    } = &mut specification.network;
    keys.curve("network.headroom", headroom, 0.01, 1e4);
    keys.seconds("network.delay", delay_s, 0.0, 60.0);
    keys.number("network.transient_share", transient_share, 0.01, 1.0);
    for device in &mut specification.devices {
        visit_device(device, keys);
    }
}

fn visit_device(device: &mut DeviceType, keys: &mut impl KeyVisitor) {
    let DeviceType {
        name,
        share,
        is_separate,
        form,
        audio_form,
        both_share,
        kbps_max,
        request_s,
        part_bytes_max,
        connections,
        audio_request_s,
        buffer_s,
        audio_buffer_s,
        spacing_s,
        audio_spacing_s,
        table_bytes,
        probes_first,
        probes_next,
        probe_s,
        audio_probes,
        resume_share,
    } = device;
    let key = |key: &str| format!("device.{name}.{key}");
    keys.number(&key("share"), share, 0.0, 1e9);
    keys.content(&key("content"), is_separate);
    keys.form(&key("requests"), form);
    keys.form(&key("audio_requests"), audio_form);
    keys.number(&key("both_share"), both_share, 0.0, 1.0);
    keys.whole(&key("kbps_max"), kbps_max, 1, 10_000_000);
    keys.seconds(&key("request_time"), request_s, 0.1, 3600.0);
    keys.bytes(&key("part_max"), part_bytes_max, 1024, 1 << 40);
    keys.whole(&key("connections"), connections, 1, 16);
    keys.seconds(&key("audio_request_time"), audio_request_s, 0.1, 3600.0);
    keys.seconds(&key("buffer"), buffer_s, 1.0, 36_000.0);
    keys.seconds(&key("audio_buffer"), audio_buffer_s, 1.0, 36_000.0);
    keys.seconds(&key("spacing"), spacing_s, 0.0, 3600.0);
    keys.seconds(&key("audio_spacing"), audio_spacing_s, 0.0, 3600.0);
    keys.bytes(&key("table"), table_bytes, 0, 1 << 30);
    keys.number(&key("probes_first"), probes_first, 0.0, 100.0);
    keys.number(&key("probes_next"), probes_next, 0.0, 100.0);
    keys.seconds(&key("probe_time"), probe_s, 0.1, 3600.0);
    keys.number(&key("audio_probes"), audio_probes, 0.0, 100.0);
    keys.number(&key("resume_share"), resume_share, 0.0, 1.0);
}
