//! The rules and the dashboard of `packaging/`: every metric that they name exists, and a real
//! Prometheus that scrapes a server during a disk outage raises the alert and clears it again.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use headlong_e2e_tests::library::fill_root;
use headlong_e2e_tests::prometheus::packaging;
use headlong_e2e_tests::{Library, Prometheus, eventually, have_or_skip, tier};
use headlong_testkit::client::fetch;
use headlong_testkit::server::ServerBuilder;
use headlong_testkit::slow_disk::DriveModel;
use headlong_testkit::{BlockDevice, Scratch, SlowDisk};
use serde_json::Value;

const MIB: u64 = 1 << 20;

#[test]
fn promtool_accepts_rules_and_their_unit_tests() {
    let test = "promtool_finds_the_rules_right";
    if !have_or_skip(test, "promtool") {
        return;
    }
    for arguments in [
        ["check", "rules", "alerts.yml"],
        ["test", "rules", "alerts_test.yml"],
    ] {
        let mut promtool = Command::new("promtool");
        let promtool = promtool.args(arguments);
        let output = promtool.current_dir(packaging().join("prometheus"));
        let output = output.output().expect("promtool starts");
        let told = String::from_utf8_lossy(&output.stdout).into_owned()
            + &String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {told}");
    }
}

/// Words of a text that begin like the server's metrics.
fn metrics_named(text: &str) -> BTreeSet<String> {
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let words = text.split(|c: char| !is_of_name(c));
    let words = words.filter(|word| word.starts_with("headlong_"));
    words.map(str::to_owned).collect()
}

/// Names of the series in a scrape.
fn series(scrape: &str) -> BTreeSet<String> {
    let lines = scrape.lines().filter(|line| !line.starts_with('#'));
    let name = |line: &str| line.split(['{', ' ']).next().unwrap_or_default().to_owned();
    lines.map(name).collect()
}

#[test]
fn metrics_of_rules_and_dashboard_exist_in_both_formats() {
    let library = Library::new(1, MIB).expect("a library");
    let scratch = Scratch::new("monitoring").expect("a folder");
    let flash = scratch.path().join("tier");
    tier::format(&flash, &["--size", "56MB", "--block", "512KiB"]);
    let server = tier::start(library.root(), &[&flash]);
    let reply = server.get(&library.titles[0].target);
    assert_eq!(reply.status(), 200);
    let attached = || tier::view(&server).is_some_and(|view| !view.is_null());
    eventually("the tier", attached, |is| *is);
    for format in ["text/plain;version=0.0.4", "application/openmetrics-text"] {
        let scrape = server.admin_request("GET", "/metrics", &[("Accept", format)]);
        let media_type = scrape.field("content-type").unwrap_or_default();
        let asked = format.split(';').next().unwrap_or_default();
        assert!(media_type.starts_with(asked), "{media_type}");
        let there = series(&scrape.text());
        for file in [
            "prometheus/alerts.yml",
            "prometheus/alerts_test.yml",
            "grafana/headlong.json",
            "../docs/operate/watch.md",
        ] {
            let text = fs::read_to_string(packaging().join(file)).expect(file);
            let named = metrics_named(&text);
            assert!(named.len() > 5, "{file} names {named:?}");
            let missing: Vec<_> = named.difference(&there).collect();
            assert!(missing.is_empty(), "{file}: no scrape has {missing:?}");
        }
    }
}

/// States of an alert: empty if it is not raised.
fn alerts(prometheus: &Prometheus, name: &str) -> Vec<(String, Value)> {
    let reply = fetch(prometheus.address(), "GET", "/api/v1/alerts", &[]).expect("an answer");
    let document: Value = serde_json::from_slice(&reply.body).expect("JSON");
    let alerts = document["data"]["alerts"].as_array().expect("alerts");
    let of_name = alerts
        .iter()
        .filter(|alert| alert["labels"]["alertname"] == name);
    of_name
        .map(|alert| {
            let state = alert["state"].as_str().unwrap_or_default().to_owned();
            (state, alert.clone())
        })
        .collect()
}

#[test]
fn disk_outage_raises_alert_and_recovery_clears_it() {
    let test = "an_outage_of_a_disk_raises_the_alert";
    if !SlowDisk::available_or_skip(test) || !have_or_skip(test, "prometheus") {
        return;
    }
    let device = BlockDevice::new(128 * MIB, DriveModel::WD_RED, 20.0).expect("a device");
    let titles = fill_root(device.root(), 4, 16 * MIB).expect("titles");
    device.start().expect("start");
    let server = ServerBuilder::new([device.root()])
        .config(
            "admission = \"accept\"\nread_timeout = \"1s\"\nerrors_offline = 4\n\
             offline_retry = \"500ms\"\nprefetch = \"1MiB\"\npolicy = \"fixed\"",
        )
        .start();
    let prometheus = Prometheus::start(server.admin()).expect("Prometheus");
    let up = "/api/v1/query?query=up";
    let scraped = eventually(
        "the first scrape",
        || fetch(prometheus.address(), "GET", up, &[]).map(|reply| reply.text()),
        |reply| {
            reply
                .as_ref()
                .is_ok_and(|text| text.contains("\"headlong\"") && text.contains(",\"1\"]"))
        },
    );
    assert!(scraped.is_ok(), "{scraped:?}");
    assert_eq!(alerts(&prometheus, "HeadlongDiskOffline"), []);

    device.disk().vanish();
    let mut offset = 0;
    let raised = eventually(
        "the alert",
        || {
            // Never the same position twice: data in memory may still be served.
            let range = format!("bytes={}-{}", offset % 16 * MIB, offset % 16 * MIB + 99);
            let title = &titles[(offset / 16 % 4) as usize];
            offset += 1;
            let _ = fetch(server.address(), "GET", &title.target, &[("Range", &range)]);
            alerts(&prometheus, "HeadlongDiskOffline")
        },
        |alerts| alerts.iter().any(|(state, _)| state == "firing"),
    );
    let (_, alert) = &raised[0];
    let name = device.device_name();
    assert_eq!(alert["labels"]["device"], name.as_str(), "{alert}");
    let summary = alert["annotations"]["summary"].as_str().unwrap_or_default();
    assert!(summary.contains(&name), "{alert}");

    device.disk().heal();
    eventually(
        "the end of the alert",
        || {
            let range = [("Range", "bytes=0-99")];
            let _ = fetch(server.address(), "GET", &titles[3].target, &range);
            alerts(&prometheus, "HeadlongDiskOffline")
        },
        Vec::is_empty,
    );
    let offline = alerts(&prometheus, "HeadlongReadErrors");
    assert!(
        !offline.is_empty(),
        "errors of the last hour are still reported"
    );

    assert!(server.stop().is_some(), "the server ends");
    // It fires after a minute; this test sees it pending.
    eventually(
        "the alert for a server that has ended",
        || alerts(&prometheus, "HeadlongDown"),
        |alerts| alerts.iter().any(|(state, _)| state == "pending"),
    );
}

#[test]
fn prometheus_exemplar_is_in_the_access_log() {
    if !have_or_skip("a_real_prometheus_keeps_a_request", "prometheus") {
        return;
    }
    let library = Library::new(1, MIB).expect("a library");
    let scratch = Scratch::new("exemplars").expect("a folder");
    let log = scratch.path().join("access.log");
    let server = ServerBuilder::new([library.root()]);
    let server = server.config(&format!("[log]\naccess = {log:?}"));
    let server = server.start();
    let prometheus = Prometheus::start(server.admin()).expect("Prometheus");
    let query = "/api/v1/query_exemplars?start=1&end=33333333333\
                 &query=headlong_request_first_byte_seconds_bucket";
    let found = eventually(
        "an exemplar",
        || {
            let reply = server.get(&library.titles[0].target);
            assert_eq!(reply.status(), 200);
            let reply = fetch(prometheus.address(), "GET", query, &[]).ok()?;
            let document: Value = serde_json::from_slice(&reply.body).ok()?;
            let exemplars = &document["data"][0]["exemplars"];
            exemplars.get(0).cloned()
        },
        Option::is_some,
    );
    let found = found.expect("one");
    let id = found["labels"]["request_id"]
        .as_str()
        .expect("a request id");
    let line = format!("{{\"request_id\":\"{id}\",");
    let log = fs::read_to_string(log).expect("read");
    let line = log.lines().find(|other| other.starts_with(&line));
    let line: Value = serde_json::from_str(line.expect("its line")).expect("JSON");
    let seconds = found["value"].as_str().and_then(|text| text.parse().ok());
    assert_eq!(line["first_byte_seconds"].as_f64(), seconds, "{found}");
}
