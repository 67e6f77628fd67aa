//! The models against published figures of real drives.

use headlong_drive::{DriveSpec, fit, measure, preset, presets};

fn all_met(figures: Vec<crate::published::PublishedFigure>) {
    let wrong: Vec<String> = figures
        .iter()
        .filter(|figure| !figure.is_met())
        .map(crate::published::PublishedFigure::row)
        .collect();
    assert!(!figures.is_empty() && wrong.is_empty(), "{wrong:#?}");
    written_down(&figures);
}

/// Checks that every figure is in the manual with its current value.
fn written_down(figures: &[crate::published::PublishedFigure]) {
    let manual = include_str!("../../../../docs/lab/drives.md");
    for row in figures.iter().map(crate::published::PublishedFigure::row) {
        assert!(
            manual.contains(&row),
            "docs/lab/drives.md lacks {row}; take the tables from `cargo run --release -p \
             headlong-drive --example validate`"
        );
    }
}

#[test]
fn manual_has_sources_of_every_preset() {
    let manual = include_str!("../../../../docs/lab/drives.md");
    for preset in presets() {
        let (name, spec) = (preset.name, preset.spec());
        let row = format!("| `{name}` | {} | {} |", preset.summary, spec.sources());
        assert!(manual.contains(&row), "docs/lab/drives.md lacks {row}");
    }
}

#[test]
fn diskinfo_figures_match_libception_table_1() {
    all_met(crate::published::diskinfo_figures());
}

#[test]
fn random_and_sequential_rates_match_thesis_5_6_2() {
    all_met(crate::published::thesis_figures());
}

#[test]
fn random_rates_are_near_three_parameter_model() {
    all_met(crate::published::prediction_figures());
}

#[test]
fn wc_rates_are_near_thesis_table_3_4() {
    let figures = crate::published::wc_figures();
    // Whatever the file system does, larger files and lower addresses are faster.
    let rates: Vec<f64> = figures.iter().map(|figure| figure.modelled).collect();
    assert!(rates[0] > rates[1] && rates[1] > rates[2], "{rates:?}");
    assert!((0..3).all(|i| rates[i] > rates[i + 3]), "{rates:?}");
    all_met(figures);
}

#[test]
fn ssd_figures_match_published_ones() {
    all_met(crate::published::flash_figures());
}

#[test]
fn ocz_divergence_falls_below_tenth_at_16_mib() {
    let divergence =
        |mebibytes: u64| crate::published::divergence_of("ssd-ocz-core-v2", mebibytes << 20);
    assert!(divergence(8) > 0.1 && divergence(16) < 0.1);
}

#[test]
fn fit_to_own_measurements_gives_same_drive() {
    for name in presets().iter().map(|preset| preset.name) {
        let Ok(DriveSpec::HardDrive(original)) = preset(name) else {
            continue;
        };
        let measured = measure(&DriveSpec::HardDrive(original.clone()));
        let fitted = fit(name, &measured);
        let close = |a: f64, b: f64| (a / b - 1.0).abs() < 0.025;
        for part in [0.0, 0.25, 0.5, 0.75, 1.0] {
            let (a, b) = (fitted.rate_at(part), original.rate_at(part));
            assert!(close(a, b), "{name}: {a} {b} at {part}");
        }
        for stroke in [0.25, 0.4, 0.5, 0.75, 1.0] {
            let (a, b) = (fitted.seek.time_ns(stroke), original.seek.time_ns(stroke));
            assert!(close(a as f64, b as f64), "{name}: {a} {b} at {stroke}");
        }
    }
}
