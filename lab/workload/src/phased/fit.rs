//! Fits a specification to the measurements of a log.
//!
//! Most parameters are measured directly. Those that interact (a session is shorter if its viewer
//! skips; a short probe is a separate chain only if no request continues it) are corrected
//! iteratively: generate a few sessions, measure them in the same way, adjust each parameter by the
//! error of its figure, and repeat. Same measurements, same specification.
//!
//! Accuracy for logs of at least 3,000 sessions: exponent of popularity within 0.1; session lengths
//! and the survival of chains (at any length) within 0.06, as the largest distance of distribution
//! functions; shares of phases within 4 % of all time. The tests check these bounds.

use alloc::vec::Vec;

use headlong_characterise::{DistributionPoints, Observations, Popularity, ViewingObservations};
use headlong_random::Empirical;

use super::ContentKind;
use super::calibration::{correct, correct_popularity, curve};
use super::catalogue::PhasedCatalogue;
use super::session_statistics::observe;
use super::specification::{
    DeviceType, PhasedRendition, PhasedSpecification, RateSelection, RequestForm,
};

/// Number of trials.
const ROUNDS: usize = 4;
/// Sessions of a trial: enough for shares accurate to a percent or two.
const TRIAL_SESSIONS: u64 = 2_000;
/// Upper bound of curves, as in the keys.
const FOREVER: f64 = 1e7;

/// The specification of the observed log. Parameters without measurements keep the values of
/// `netflix-2014-catalog`.
pub fn fit(seen: &Observations) -> PhasedSpecification {
    let mut specification = guess(seen);
    if seen.sessions_kept == 0 {
        return specification;
    }
    correct_popularity(
        &mut specification,
        &seen.titles.popularity,
        seen.sessions_kept,
    );
    for round in 0..ROUNDS {
        let sessions = specification.sessions.count.min(TRIAL_SESSIONS);
        let trial = specification.clone().scaled(sessions);
        let catalogue = PhasedCatalogue::of(&trial.catalogue);
        let got = observe(&trial, &catalogue, 1000 + round as u64);
        correct(&mut specification, seen, &got);
    }
    specification
}

fn base() -> PhasedSpecification {
    // The preset is part of the program and covered by a test.
    PhasedSpecification::preset("netflix-2014-catalog", &[]).expect("the preset is well formed")
}

fn set(value: &mut Empirical, points: &DistributionPoints, from: f64, to: f64) {
    if let Some(curve) = curve(points, from, to) {
        *value = curve;
    }
}

/// Largest mean number of files of a kind per title for which titles count as having a single bit
/// rate: some files may have been replaced during the log.
const FILES_OF_ONE: f64 = 1.05;

/// Whether no title has content at several bit rates, so that players cannot adapt.
fn has_one_rate(seen: &Observations) -> bool {
    let files = |kind: ContentKind| -> f64 {
        let of_kind = seen.renditions.iter().filter(|one| one.kind == kind);
        of_kind.map(|one| one.titles_share).sum()
    };
    let content = files(ContentKind::Video) + files(ContentKind::Combined);
    content > 0.0 && content <= FILES_OF_ONE && files(ContentKind::Audio) <= FILES_OF_ONE
}

/// Parameters taken directly from the measurements.
fn guess(seen: &Observations) -> PhasedSpecification {
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
    let has = |kind: ContentKind| {
        let mut all = seen.renditions.iter();
        all.any(|one| one.kind == kind && one.kbps > 0)
    };
    let is_whole =
        has(ContentKind::Combined) || (has(ContentKind::Video) && has(ContentKind::Audio));
    if is_whole && seen.devices.iter().any(|one| one.sessions > 0) {
        // A kind without observations is absent, and no device requests it.
        titles.renditions.iter_mut().for_each(Vec::clear);
    }
    for kind in ContentKind::ALL {
        let of_kind = seen
            .renditions
            .iter()
            .filter(|one| one.kind == kind && one.kbps > 0);
        let mut renditions: Vec<PhasedRendition> = of_kind
            .map(|one| PhasedRendition {
                kbps: one.kbps,
                titles_share: one.titles_share.clamp(0.0, 1.0),
                weight: one.seconds.max(0.0),
            })
            .collect();
        renditions.sort_by_key(|one| one.kbps);
        renditions.dedup_by_key(|one| one.kbps);
        let sum: f64 = renditions.iter().map(|one| one.weight).sum();
        for one in &mut renditions {
            // Files without viewers exist, too.
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
        // A table would appear in chunk requests.
        titles.table_entry_bytes = 0.0;
    }
    if has_one_rate(seen) {
        titles.rates = RateSelection::One;
    }
    guess_viewing(&mut specification, &seen.viewing, ahead_s(seen));
    guess_devices(&mut specification, seen);
    specification
}

/// Mean distance of reads ahead of the playback position, s.
fn ahead_s(seen: &Observations) -> f64 {
    let known = seen.devices.iter().filter(|one| one.ahead_s > 0.0);
    let (sum, sessions) = known.fold((0.0, 0.0), |(sum, all), one| {
        let sessions = one.sessions as f64;
        (sum + one.ahead_s * sessions, all + sessions)
    });
    if sessions > 0.0 { sum / sessions } else { 0.0 }
}

fn guess_viewing(
    specification: &mut PhasedSpecification,
    seen: &ViewingObservations,
    ahead_s: f64,
) {
    if seen.session_s.is_empty() {
        return;
    }
    let viewing = &mut specification.viewing;
    set(&mut viewing.start, &seen.start_share, 0.0, 1.0);
    viewing.glance_share = seen.glance_share.clamp(0.0, 1.0);
    set(&mut viewing.glance_s, &seen.glance_s, 0.0, 40.0);
    set(&mut viewing.stay, &seen.stay_share, 0.0, 10.0);
    viewing.skips_per_hour = seen.skips_per_hour.clamp(0.0, 3600.0);
    // A log shows skips relative to the read position; viewers skip relative to the playback
    // position.
    let from_screen = seen.skip_s.iter().map(|(by, share)| (by + ahead_s, *share));
    set(&mut viewing.skip_s, &from_screen.collect(), -1e6, 1e6);
    viewing.pauses_per_hour = seen.pauses_per_hour.clamp(0.0, 3600.0);
    viewing.pause_at_start = seen.pause_at_start.clamp(0.0, 1.0);
    set(&mut viewing.pause_s, &seen.pause_s, 0.0, FOREVER);
    viewing.changes_per_hour = match specification.catalogue.rates {
        RateSelection::Several => seen.changes_per_hour.clamp(0.0, 3600.0),
        RateSelection::One => 0.0,
    };
    viewing.up_share = seen.up_share.clamp(0.0, 1.0);
    viewing.down_share = seen.down_share.clamp(0.0, 1.0 - viewing.up_share);
}

fn form(open_share: f64) -> RequestForm {
    if open_share > 0.5 {
        RequestForm::Open
    } else {
        RequestForm::Chunk
    }
}

fn guess_devices(specification: &mut PhasedSpecification, seen: &Observations) {
    let models = specification.devices.clone();
    let titles = &specification.catalogue;
    let has = |kind| !titles.of_kind(kind).is_empty();
    let devices = seen
        .devices
        .iter()
        .filter(|one| one.sessions > 0)
        .map(|one| {
            // A device can only read kinds that titles have.
            let is_separate = match (
                has(ContentKind::Video) && has(ContentKind::Audio),
                has(ContentKind::Combined),
            ) {
                (true, true) => one.separate_share > 0.5,
                (separate, _) => separate,
            };
            let (content, sound) = (form(one.open_content_share), form(one.open_audio_share));
            let alike = |model: &&DeviceType| {
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
            if titles.rates == RateSelection::One {
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
    let devices: Vec<DeviceType> = devices.collect();
    if !devices.is_empty() {
        specification.devices = devices;
    }
}
