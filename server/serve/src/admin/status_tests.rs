use super::*;
use crate::admin::testing;

const GOLDEN: &str = include_str!("status_golden.json");

#[test]
fn document_matches_golden_file() {
    let (state, _trigger) = testing::state(Vec::new());
    let devices = [testing::device("sda", DeviceState::Online)];
    state.requests.observe(206, Duration::ZERO, None);
    state.requests.add_bytes_sent(99, false);
    let bytes = render(&state, &devices, 2_000, 1_000).expect("JSON");
    let document: serde_json::Value = serde_json::from_slice(&bytes).expect("JSON");
    let golden: serde_json::Value = serde_json::from_str(GOLDEN).expect("JSON");
    let pretty = serde_json::to_string_pretty(&document).expect("JSON");
    assert_eq!(document, golden, "{pretty}");
}

#[test]
fn chain_of_dropped_stream_has_empty_path() {
    let mut device = testing::device("sda", DeviceState::Online);
    device.chains[0].stream = headlong_engine::StreamId(77);
    let (state, trigger) = testing::state(Vec::new());
    trigger.drain();
    let bytes = render(&state, &[device], 0, 0).expect("JSON");
    let document: serde_json::Value = serde_json::from_slice(&bytes).expect("JSON");
    let chain = &document["devices"][0]["chains"]["shown"][0];
    assert_eq!(chain["path"], "");
    assert!(chain["bit_rate_bps"].is_null());
    assert_eq!(document["state"], "draining");
}

#[test]
fn controller_shows_result_and_reason() {
    let mut device = testing::device("sda", DeviceState::Online);
    device.control = Some(ControlView {
        mode: Mode::Auto,
        bytes: 5 << 20,
        target_bytes: 6 << 20,
        score: Some(Duration::from_millis(12)),
        reason: Some(SizeReason::Optimum),
        drive: None,
    });
    let (state, _trigger) = testing::state(Vec::new());
    let bytes = render(&state, &[device], 0, 0).expect("JSON");
    let document: serde_json::Value = serde_json::from_slice(&bytes).expect("JSON");
    let control = &document["devices"][0]["policy"]["control"];
    assert_eq!(control["name"], "auto");
    assert_eq!(control["target_bytes"], 6 << 20);
    assert_eq!(control["score_ms_per_mib"], 12.0);
    assert_eq!(control["reason"], "optimum");
}
