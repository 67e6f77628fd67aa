use std::collections::{BTreeMap, BTreeSet};
use std::println;

use super::*;

fn preset(name: &str) -> Specification {
    Specification::preset(name, &[]).unwrap_or_else(|errors| panic!("{errors}"))
}

#[test]
fn play() {
    for name in crate::preset::names() {
        let w = generate(&preset(name), 1);
        let n = w.trace.sessions.len();
        let calls: usize = w.trace.sessions.iter().map(|s| s.calls().len()).sum();
        let bytes: u64 = w
            .trace
            .sessions
            .iter()
            .flat_map(|s| s.calls())
            .map(|c| c.expected_bytes.unwrap())
            .sum();
        let mean = w
            .catalogue
            .titles
            .iter()
            .map(|t| t.duration.as_secs_f64())
            .sum::<f64>()
            / w.catalogue.titles.len() as f64;
        println!(
            "{name}: {n} sessions {calls} calls {} per session, {} GB, unique {} end {} catalogue {} GiB mean {mean}",
            calls as f64 / n as f64,
            bytes as f64 / 1e9,
            w.trace.objects.len(),
            w.trace.sessions.last().unwrap().arrival,
            w.catalogue.file_bytes() as f64 / (1u64 << 30) as f64
        );
    }
}
