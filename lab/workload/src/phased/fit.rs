//! From what was measured on a log to a specification that makes one like it.
//!
//! The one idea: most parameters are measured as they are. Those that act together (a session is
//! shorter if its viewer skips; a short probe is a chain of its own only if nothing continues it)
//! are corrected by trial: generate a few sessions, measure them alike, move each parameter by what
//! its figure is off, and again. Same measurements, same specification.
//!
//! What comes back, on a log of 3,000 sessions and more: slope of popularity within 0.1; session
//! lengths and the survival of chains (at any length) within 0.06, as the largest distance of
//! distribution functions; shares of phases within 4 % of all time. The tests hold these.

use alloc::vec;
use alloc::vec::Vec;

use headlong_characterise::{DeviceSeen, Observed, Points, Popularity, ViewingSeen};
use headlong_random::{Empirical, Generator};

use super::Kind;
use super::catalogue::{Catalogue, popularity};
use super::measure::observe;
use super::specification::{Device, Form, Rates, Rendition, Specification};

/// Trials.
const ROUNDS: usize = 4;
/// Sessions of a trial: enough for shares within a percent or two.
const TRIAL_SESSIONS: u64 = 2_000;
/// Steps of a curve that is corrected.
const STEPS: usize = 40;
/// Rounds and draws of a round in which the law of popularity is found.
const POPULARITY_ROUNDS: u32 = 6;
const POPULARITY_DRAWS: u64 = 4;
/// With more sessions than this, what is measured is the law.
const SESSIONS_DRAWN: u64 = 200_000;
/// Longest wait of a full buffer, s: with its variation it stays below the 40 s of a chain.
const SPACING_MAX_S: f64 = 28.0;
/// Bounds of curves as the keys have them.
const FOREVER: f64 = 1e7;

/// The specification of what was seen. What was not measured is as in `netflix-2014-catalog`.
pub fn fit(seen: &Observed) -> Specification {
    let mut specification = guess(seen);
    if seen.sessions == 0 {
        return specification;
    }
    correct_popularity(&mut specification, &seen.titles.popularity);
    for round in 0..ROUNDS {
        let sessions = specification.sessions.count.min(TRIAL_SESSIONS);
        let trial = specification.clone().scaled(sessions);
        let catalogue = Catalogue::of(&trial.catalogue);
        let got = observe(&trial, &catalogue, 1000 + round as u64);
        correct(&mut specification, seen, &got);
    }
    specification
}

fn base() -> Specification {
    // The preset is part of the program, and a test reads it.
    Specification::preset("netflix-2014-catalog", &[]).expect("the preset is well formed")
}

fn curve(points: &Points, from: f64, to: f64) -> Option<Empirical> {
    let points = points
        .iter()
        .map(|(value, share)| (value.clamp(from, to), *share));
    Empirical::new(points.collect()).ok()
}

fn set(value: &mut Empirical, points: &Points, from: f64, to: f64) {
    if let Some(curve) = curve(points, from, to) {
        *value = curve;
    }
}

/// Files of a kind for each title up to which titles have one bit rate each: a few may have been
/// replaced within the log.
const FILES_OF_ONE: f64 = 1.05;

/// Whether no title has content in several bit rates, so that no player adapts.
fn has_one_rate(seen: &Observed) -> bool {
    let files = |kind: Kind| -> f64 {
        let of_kind = seen.renditions.iter().filter(|one| one.kind == kind);
        of_kind.map(|one| one.titles_share).sum()
    };
    let content = files(Kind::Video) + files(Kind::Combined);
    content > 0.0 && content <= FILES_OF_ONE && files(Kind::Audio) <= FILES_OF_ONE
}

/// What can be taken as it was measured.
fn guess(seen: &Observed) -> Specification {
    let mut specification = base();
    let (titles, visits) = (&mut specification.catalogue, &mut specification.sessions);
    if !seen.name.is_empty() {
        specification.name.clone_from(&seen.name);
    }
    if seen.sessions > 0 {
        visits.count = seen.sessions;
    }
    if seen.length_s >= 60.0 {
        visits.length_s = seen.length_s;
    }
    if seen.arrivals.iter().any(|count| *count > 0) {
        visits.arrivals = seen.arrivals.iter().map(|count| *count as f64).collect();
    }
    let known = seen.titles.listed.max(seen.titles.requested);
    if known > 0 {
        titles.count = known;
        titles.drives = u64::from(seen.titles.drives.max(1));
        let Popularity {
            slope,
            head_titles,
            head_factor,
        } = seen.titles.popularity;
        titles.zipf_alpha = slope.clamp(0.0, 10.0);
        titles.head_titles = head_titles;
        titles.head_factor = head_factor.clamp(0.0, 1e6);
    }
    set(&mut titles.durations, &seen.titles.durations_s, 1.0, 1e6);
    if !seen.titles.duration_shares.is_empty() {
        titles
            .duration_weights
            .clone_from(&seen.titles.duration_shares);
    }
    let has = |kind: Kind| {
        let mut all = seen.renditions.iter();
        all.any(|one| one.kind == kind && one.kbps > 0)
    };
    let is_whole = has(Kind::Combined) || (has(Kind::Video) && has(Kind::Audio));
    if is_whole && seen.devices.iter().any(|one| one.sessions > 0) {
        // A kind that was not seen is not there, and no device will ask for it.
        titles.renditions.iter_mut().for_each(Vec::clear);
    }
    for kind in Kind::ALL {
        let of_kind = seen
            .renditions
            .iter()
            .filter(|one| one.kind == kind && one.kbps > 0);
        let mut renditions: Vec<Rendition> = of_kind
            .map(|one| Rendition {
                kbps: one.kbps,
                titles_share: one.titles_share.clamp(0.0, 1.0),
                weight: one.seconds.max(0.0),
            })
            .collect();
        renditions.sort_by_key(|one| one.kbps);
        renditions.dedup_by_key(|one| one.kbps);
        let sum: f64 = renditions.iter().map(|one| one.weight).sum();
        for one in &mut renditions {
            // Files that nobody watched are there all the same.
            one.weight = if sum > 0.0 {
                one.weight / sum
            } else {
                one.titles_share
            };
        }
        if !renditions.is_empty() {
            titles.renditions[kind.number() as usize] = renditions;
        }
    }
    let headers = seen
        .devices
        .iter()
        .map(|one| (one.header_bytes_per_segment, one.sessions));
    let headers: Vec<_> = headers.filter(|(bytes, _)| *bytes > 0.0).collect();
    let weight: u64 = headers.iter().map(|(_, sessions)| sessions).sum();
    if weight > 0 {
        let sum: f64 = headers
            .iter()
            .map(|(bytes, sessions)| bytes * *sessions as f64)
            .sum();
        titles.table_entry_bytes = (sum / weight as f64).clamp(0.0, 1e6);
    } else if seen.devices.iter().any(|one| one.open_content_share < 0.5) {
        // Chunk requests would have shown a table.
        titles.table_entry_bytes = 0.0;
    }
    if has_one_rate(seen) {
        titles.rates = Rates::One;
    }
    guess_viewing(&mut specification, &seen.viewing, ahead_s(seen));
    guess_devices(&mut specification, seen);
    specification
}

/// How far ahead of the picture devices have read, s, on average.
fn ahead_s(seen: &Observed) -> f64 {
    let known = seen.devices.iter().filter(|one| one.ahead_s > 0.0);
    let (sum, sessions) = known.fold((0.0, 0.0), |(sum, all), one| {
        let sessions = one.sessions as f64;
        (sum + one.ahead_s * sessions, all + sessions)
    });
    if sessions > 0.0 { sum / sessions } else { 0.0 }
}

fn guess_viewing(specification: &mut Specification, seen: &ViewingSeen, ahead_s: f64) {
    if seen.session_s.is_empty() {
        return;
    }
    let viewing = &mut specification.viewing;
    set(&mut viewing.start, &seen.start_share, 0.0, 1.0);
    viewing.glance_share = seen.glance_share.clamp(0.0, 1.0);
    set(&mut viewing.glance_s, &seen.glance_s, 0.0, 40.0);
    set(&mut viewing.stay, &seen.stay_share, 0.0, 10.0);
    viewing.skips_per_hour = seen.skips_per_hour.clamp(0.0, 3600.0);
    // A log shows skips from where content was read to; viewers skip from what they see.
    let from_screen = seen.skip_s.iter().map(|(by, share)| (by + ahead_s, *share));
    set(&mut viewing.skip_s, &from_screen.collect(), -1e6, 1e6);
    viewing.pauses_per_hour = seen.pauses_per_hour.clamp(0.0, 3600.0);
    viewing.pause_at_start = seen.pause_at_start.clamp(0.0, 1.0);
    set(&mut viewing.pause_s, &seen.pause_s, 0.0, FOREVER);
    viewing.changes_per_hour = match specification.catalogue.rates {
        Rates::Several => seen.changes_per_hour.clamp(0.0, 3600.0),
        Rates::One => 0.0,
    };
    viewing.up_share = seen.up_share.clamp(0.0, 1.0);
    viewing.down_share = seen.down_share.clamp(0.0, 1.0 - viewing.up_share);
}

fn form(open_share: f64) -> Form {
    if open_share > 0.5 {
        Form::Open
    } else {
        Form::Chunk
    }
}

fn guess_devices(specification: &mut Specification, seen: &Observed) {
    let models = specification.devices.clone();
    let titles = &specification.catalogue;
    let has = |kind| !titles.of_kind(kind).is_empty();
    let devices = seen
        .devices
        .iter()
        .filter(|one| one.sessions > 0)
        .map(|one| {
            // Nobody reads what no title has.
            let is_separate = match (has(Kind::Video) && has(Kind::Audio), has(Kind::Combined)) {
                (true, true) => one.separate_share > 0.5,
                (separate, _) => separate,
            };
            let (content, sound) = (form(one.open_content_share), form(one.open_audio_share));
            let alike = |model: &&Device| {
                usize::from(model.is_separate == is_separate) * 4
                    + usize::from(model.form == content) * 2
                    + usize::from(model.audio_form == sound)
            };
            let mut device = models
                .iter()
                .max_by_key(alike)
                .cloned()
                .expect("the preset has devices");
            device.name.clone_from(&one.name);
            device.share = one.sessions as f64;
            if titles.table_entry_bytes <= 0.0 {
                device.table_bytes = 0;
            }
            if titles.rates == Rates::One {
                (device.probes_first, device.probes_next) = (0.0, 0.0);
            }
            (device.is_separate, device.form, device.audio_form) = (is_separate, content, sound);
            device.both_share = one.both_share.clamp(0.0, 1.0);
            let lowest = titles
                .of_kind(device.content())
                .first()
                .map_or(1, |one| one.kbps);
            if one.kbps_max > 0 {
                device.kbps_max = u64::from(one.kbps_max.max(lowest)).min(10_000_000);
            }
            device
        });
    let devices: Vec<Device> = devices.collect();
    if !devices.is_empty() {
        specification.devices = devices;
    }
}

/// Moves every parameter by what its figure is off.
fn correct(specification: &mut Specification, seen: &Observed, got: &Observed) {
    let viewing = &mut specification.viewing;
    let (want, have) = (&seen.viewing, &got.viewing);
    if !want.session_s.is_empty() {
        viewing.glance_share =
            (viewing.glance_share + want.glance_share - have.glance_share).clamp(0.0, 1.0);
        let shift = |curve: &mut Empirical, of: fn(&ViewingSeen) -> &Points, most: f64| {
            shift(curve, of(want), of(have), (0.0, most));
        };
        shift(&mut viewing.glance_s, |of| &of.glance_s, 40.0);
        shift(&mut viewing.stay, |of| &of.stay_share, 10.0);
        shift(&mut viewing.start, |of| &of.start_share, 1.0);
        let scale = |value: &mut f64, of: fn(&ViewingSeen) -> f64, most: f64| {
            scale(value, of(want), of(have), most);
        };
        scale(&mut viewing.skips_per_hour, |of| of.skips_per_hour, 3600.0);
        scale(
            &mut viewing.pauses_per_hour,
            |of| of.pauses_per_hour,
            3600.0,
        );
        scale(&mut viewing.pause_at_start, |of| of.pause_at_start, 1.0);
        if specification.catalogue.rates == Rates::Several {
            scale(
                &mut viewing.changes_per_hour,
                |of| of.changes_per_hour,
                3600.0,
            );
        }
        viewing.up_share = (viewing.up_share + want.up_share - have.up_share).clamp(0.0, 0.9);
        viewing.down_share = (viewing.down_share + want.down_share - have.down_share)
            .clamp(0.0, 1.0 - viewing.up_share);
        let (want, have) = (seen.phases.transient_share, got.phases.transient_share);
        let mut slowness = 1.0 / specification.network.transient_share;
        self::scale(&mut slowness, want, have, 50.0);
        specification.network.transient_share = 1.0 / slowness.max(1.0);
    }
    correct_rates(specification, seen, got);
    let is_adaptive = specification.catalogue.rates == Rates::Several;
    for device in &mut specification.devices {
        let find = |all: &Observed| {
            all.devices
                .iter()
                .find(|one| one.name == device.name)
                .cloned()
        };
        if let (Some(want), Some(have)) = (find(seen), find(got)) {
            correct_device(device, &want, &have, is_adaptive);
        }
    }
    correct_headroom(specification, seen, got);
}

/// Titles of few sessions, sorted by how many those were, look more unequal than the law that they
/// were drawn by: the law is moved until draws from it look like the log.
fn correct_popularity(specification: &mut Specification, want: &Popularity) {
    let (titles, sessions) = (&mut specification.catalogue, specification.sessions.count);
    if want.head_titles == 0 || sessions > SESSIONS_DRAWN {
        return;
    }
    for round in 0..POPULARITY_ROUNDS {
        let law = popularity(titles);
        let (mut slope, mut head_factor) = (0.0, 0.0);
        for seed in 0..POPULARITY_DRAWS {
            let mut dice = Generator::new(titles.seed).fork("popularity").fork_at(seed);
            let mut counts = vec![0_u64; law.len()];
            for _ in 0..sessions {
                let unit = dice.unit();
                let rank = law.partition_point(|share| *share <= unit);
                counts[rank.min(law.len() - 1)] += 1;
            }
            let got = Popularity::of(&mut counts, want.head_titles, titles.count);
            if got.head_titles != want.head_titles {
                // Too few for such a line: what was measured is the best that there is.
                return;
            }
            slope += got.slope / POPULARITY_DRAWS as f64;
            head_factor += got.head_factor / POPULARITY_DRAWS as f64;
        }
        // The same draws each time, so that it settles; half of the way later, so that it does not
        // swing.
        let part = if round < 2 { 1.0 } else { 0.5 };
        titles.zipf_alpha = (titles.zipf_alpha + part * (want.slope - slope)).clamp(0.0, 10.0);
        let ratio = libm::pow(want.head_factor / head_factor.max(1e-9), part);
        titles.head_factor = (titles.head_factor * ratio).clamp(1e-3, 1e3);
    }
}

fn correct_rates(specification: &mut Specification, seen: &Observed, got: &Observed) {
    for kind in Kind::ALL {
        let seconds = |all: &Observed, kbps: Option<u32>| -> f64 {
            let of_kind = all.renditions.iter().filter(|one| one.kind == kind);
            let of_kind = of_kind.filter(|one| kbps.is_none_or(|kbps| one.kbps == kbps));
            of_kind.map(|one| one.seconds).sum()
        };
        let (want_all, have_all) = (seconds(seen, None), seconds(got, None));
        if want_all <= 0.0 || have_all <= 0.0 {
            continue;
        }
        for one in &mut specification.catalogue.renditions[kind.number() as usize] {
            let want = seconds(seen, Some(one.kbps)) / want_all;
            let have = seconds(got, Some(one.kbps)) / have_all;
            // A rate that a small trial did not meet is left as it is.
            if have > 0.002 {
                scale(&mut one.weight, want, have, 1e9);
            }
        }
    }
}

fn correct_device(device: &mut Device, want: &DeviceSeen, have: &DeviceSeen, is_adaptive: bool) {
    if have.sessions < 20 {
        return;
    }
    let scale = |value: &mut f64, of: fn(&DeviceSeen) -> f64, most: f64| {
        scale(value, of(want), of(have), most);
    };
    scale(&mut device.both_share, |of| of.both_share, 1.0);
    scale(&mut device.probe_s, |of| of.probe_s, 3600.0);
    device.probe_s = device.probe_s.max(0.1);
    let add = |value: &mut f64, of: fn(&DeviceSeen) -> f64, (from, to): (f64, f64)| {
        let (want, have) = (of(want), of(have));
        if want > 0.0 && have > 0.0 {
            *value = (*value + want - have).clamp(from, to);
        }
    };
    if is_adaptive {
        add(&mut device.probes_first, |of| of.probes_first, (0.0, 100.0));
        add(&mut device.probes_next, |of| of.probes_next, (0.0, 100.0));
    }
    add(&mut device.audio_probes, |of| of.audio_chains, (0.0, 100.0));
    add(&mut device.buffer_s, |of| of.ahead_s, (1.0, 36_000.0));
    add(
        &mut device.audio_buffer_s,
        |of| of.audio_ahead_s,
        (1.0, 36_000.0),
    );
    if device.form == Form::Chunk {
        scale(&mut device.spacing_s, |of| of.spacing_s, 3600.0);
        scale(&mut device.request_s, |of| of.request_s, 3600.0);
        device.request_s = device.request_s.max(0.1);
        let mut part = device.part_bytes_max as f64;
        scale(&mut part, |of| of.request_bytes, 1e12);
        device.part_bytes_max = (libm::round(part) as u64).max(1024);
        // A whole number that is measured too high by requests that ended within one second.
        if want.connections.abs_diff(have.connections) >= 2 {
            let ratio = f64::from(want.connections) / f64::from(have.connections.max(1));
            let connections = libm::round(device.connections as f64 * ratio);
            device.connections = (connections as u64).clamp(1, 16);
        }
        // Longer waits would cut chains, which nobody would measure as waits.
        device.spacing_s = device.spacing_s.min(SPACING_MAX_S);
    }
    if device.is_separate && device.audio_form == Form::Chunk {
        scale(&mut device.audio_request_s, |of| of.audio_request_s, 3600.0);
        device.audio_request_s = device.audio_request_s.max(0.1);
    }
}

/// All devices share one curve: that of the device with most values decides.
fn correct_headroom(specification: &mut Specification, seen: &Observed, got: &Observed) {
    let measured = seen.devices.iter().filter(|one| one.headroom.len() > 20);
    let Some(want) = measured.max_by_key(|one| one.sessions) else {
        return;
    };
    let Some(have) = got.devices.iter().find(|one| one.name == want.name) else {
        return;
    };
    let (want, have) = (
        curve(&want.headroom, 0.01, 1e4),
        curve(&have.headroom, 0.01, 1e4),
    );
    let (Some(want), Some(have)) = (want, have) else {
        return;
    };
    let headroom = &mut specification.network.headroom;
    let points = (0..=STEPS).map(|step| {
        let share = step as f64 / STEPS as f64;
        // The ends are single values: they follow their neighbours.
        let inner = share.clamp(0.02, 0.98);
        let ratio = (want.quantile(inner) / have.quantile(inner)).clamp(0.5, 2.0);
        ((headroom.quantile(share) * ratio).clamp(0.01, 1e4), share)
    });
    *headroom = rising(points.collect()).unwrap_or_else(|| headroom.clone());
}

/// Multiplies by how far a figure is off, at most by two.
fn scale(value: &mut f64, want: f64, have: f64, most: f64) {
    if want <= 0.0 {
        *value = if have > 0.0 { *value / 2.0 } else { *value };
    } else if have <= 0.0 {
        *value = (*value * 2.0).clamp(0.0, most);
    } else {
        // The root damps: several figures move together.
        let ratio = libm::pow(want / have, 0.7).clamp(0.5, 2.0);
        *value = (*value * ratio).clamp(0.0, most);
    }
}

/// Adds to every quantile what it is off.
fn shift(value: &mut Empirical, want: &Points, have: &Points, (from, to): (f64, f64)) {
    let (Some(want), Some(have)) = (
        Empirical::new(want.clone()).ok(),
        Empirical::new(have.clone()).ok(),
    ) else {
        return;
    };
    let points = (0..=STEPS).map(|step| {
        let share = step as f64 / STEPS as f64;
        let off = want.quantile(share) - have.quantile(share);
        ((value.quantile(share) + off).clamp(from, to), share)
    });
    if let Some(shifted) = rising(points.collect()) {
        *value = shifted;
    }
}

/// Points that never fall.
fn rising(mut points: Points) -> Option<Empirical> {
    let mut last = f64::NEG_INFINITY;
    for point in &mut points {
        last = libm::fmax(last, point.0);
        point.0 = last;
    }
    Empirical::new(points).ok()
}
