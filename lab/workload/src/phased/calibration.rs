//! Iterative correction: each parameter is adjusted by the error of its figure.

use alloc::vec;

use headlong_characterise::{
    DeviceObservations, DistributionPoints, Observations, Popularity, ViewingObservations,
};
use headlong_random::{Empirical, Generator};

use super::ContentKind;
use super::catalogue::popularity;
use super::specification::{DeviceType, PhasedSpecification, RateSelection, RequestForm};

/// Longest wait with a full buffer, s: with its variation it stays below the 40 s that end a chain.
const SPACING_MAX_S: f64 = 28.0;
/// Steps of a corrected curve.
const STEPS: usize = 40;
/// Rounds of the correction of popularity.
const POPULARITY_ROUNDS: u32 = 6;
const POPULARITY_DRAWS: u64 = 4;
/// With more sessions than this, measured popularity equals the distribution.
const SESSIONS_DRAWN: u64 = 200_000;

/// Adjusts every parameter by the error of its figure.
pub(super) fn correct(
    specification: &mut PhasedSpecification,
    seen: &Observations,
    got: &Observations,
) {
    let viewing = &mut specification.viewing;
    let (want, have) = (&seen.viewing, &got.viewing);
    if !want.session_s.is_empty() {
        viewing.glance_share =
            (viewing.glance_share + want.glance_share - have.glance_share).clamp(0.0, 1.0);
        let shift = |curve: &mut Empirical,
                     of: fn(&ViewingObservations) -> &DistributionPoints,
                     most: f64| {
            shift(curve, of(want), of(have), (0.0, most));
        };
        shift(&mut viewing.glance_s, |of| &of.glance_s, 40.0);
        shift(&mut viewing.stay, |of| &of.stay_share, 10.0);
        shift(&mut viewing.start, |of| &of.start_share, 1.0);
        let scale = |value: &mut f64, of: fn(&ViewingObservations) -> f64, most: f64| {
            scale(value, of(want), of(have), most);
        };
        scale(&mut viewing.skips_per_hour, |of| of.skips_per_hour, 3600.0);
        scale(
            &mut viewing.pauses_per_hour,
            |of| of.pauses_per_hour,
            3600.0,
        );
        scale(&mut viewing.pause_at_start, |of| of.pause_at_start, 1.0);
        if specification.catalogue.rates == RateSelection::Several {
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
    let is_adaptive = specification.catalogue.rates == RateSelection::Several;
    for device in &mut specification.devices {
        let find = |all: &Observations| {
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

/// Titles with few sessions, sorted by session count, look less equal than the distribution they
/// were drawn from. The exponent is adjusted until draws from it look like the log, whose
/// popularity was measured on `sessions` sessions.
pub(super) fn correct_popularity(
    specification: &mut PhasedSpecification,
    want: &Popularity,
    sessions: u64,
) {
    let titles = &mut specification.catalogue;
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
                // Too few sessions for a fit: keep the measured value.
                return;
            }
            slope += got.slope / POPULARITY_DRAWS as f64;
            head_factor += got.head_factor / POPULARITY_DRAWS as f64;
        }
        // The same draws each time, for convergence; damped by half in later rounds, against
        // oscillation.
        let part = if round < 2 { 1.0 } else { 0.5 };
        titles.zipf_alpha = (titles.zipf_alpha + part * (want.slope - slope)).clamp(0.0, 10.0);
        let ratio = libm::pow(want.head_factor / head_factor.max(1e-9), part);
        titles.head_factor = (titles.head_factor * ratio).clamp(1e-3, 1e3);
    }
}

fn correct_rates(specification: &mut PhasedSpecification, seen: &Observations, got: &Observations) {
    for kind in ContentKind::ALL {
        let seconds = |all: &Observations, kbps: Option<u32>| -> f64 {
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
            // A rate absent from a small trial is kept.
            if have > 0.002 {
                scale(&mut one.weight, want, have, 1e9);
            }
        }
    }
}

fn correct_device(
    device: &mut DeviceType,
    want: &DeviceObservations,
    have: &DeviceObservations,
    is_adaptive: bool,
) {
    if have.sessions < 20 {
        return;
    }
    let scale = |value: &mut f64, of: fn(&DeviceObservations) -> f64, most: f64| {
        scale(value, of(want), of(have), most);
    };
    scale(&mut device.both_share, |of| of.both_share, 1.0);
    scale(&mut device.probe_s, |of| of.probe_s, 3600.0);
    device.probe_s = device.probe_s.max(0.1);
    let add = |value: &mut f64, of: fn(&DeviceObservations) -> f64, (from, to): (f64, f64)| {
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
    if device.form == RequestForm::Chunk {
        scale(&mut device.spacing_s, |of| of.spacing_s, 3600.0);
        scale(&mut device.request_s, |of| of.request_s, 3600.0);
        device.request_s = device.request_s.max(0.1);
        let mut part = device.part_bytes_max as f64;
        scale(&mut part, |of| of.request_bytes, 1e12);
        device.part_bytes_max = (libm::round(part) as u64).max(1024);
        // Requests that end within the same second inflate the measured number.
        if want.connections.abs_diff(have.connections) >= 2 {
            let ratio = f64::from(want.connections) / f64::from(have.connections.max(1));
            let connections = libm::round(device.connections as f64 * ratio);
            device.connections = (connections as u64).clamp(1, 16);
        }
        // Longer waits would split chains, and then are not measured as waits.
        device.spacing_s = device.spacing_s.min(SPACING_MAX_S);
    }
    if device.is_separate && device.audio_form == RequestForm::Chunk {
        scale(&mut device.audio_request_s, |of| of.audio_request_s, 3600.0);
        device.audio_request_s = device.audio_request_s.max(0.1);
    }
}

/// All devices share one curve: that of the device with the most values is used.
fn correct_headroom(
    specification: &mut PhasedSpecification,
    seen: &Observations,
    got: &Observations,
) {
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

/// Multiplies by the error of a figure, at most by two.
fn scale(value: &mut f64, want: f64, have: f64, most: f64) {
    if want <= 0.0 {
        *value = if have > 0.0 { *value / 2.0 } else { *value };
    } else if have <= 0.0 {
        *value = (*value * 2.0).clamp(0.0, most);
    } else {
        // The root damps: several figures change together.
        let ratio = libm::pow(want / have, 0.7).clamp(0.5, 2.0);
        *value = (*value * ratio).clamp(0.0, most);
    }
}

/// Adds the error to every quantile.
fn shift(
    value: &mut Empirical,
    want: &DistributionPoints,
    have: &DistributionPoints,
    (from, to): (f64, f64),
) {
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

/// Makes points non-decreasing.
fn rising(mut points: DistributionPoints) -> Option<Empirical> {
    let mut last = f64::NEG_INFINITY;
    for point in &mut points {
        last = libm::fmax(last, point.0);
        point.0 = last;
    }
    Empirical::new(points).ok()
}

/// A curve through points, within bounds; none if there are no points.
pub(super) fn curve(points: &DistributionPoints, from: f64, to: f64) -> Option<Empirical> {
    let points = points
        .iter()
        .map(|(value, share)| (value.clamp(from, to), *share));
    Empirical::new(points.collect()).ok()
}
