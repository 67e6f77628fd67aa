use std::collections::{HashMap, HashSet};

use headlong_net::{ListenAddress, bind, shutdown};
use http_body_util::BodyExt;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::*;
use crate::admin::testing;
use crate::pending_scans::PendingScans;

async fn ask(state: &AdminState, method: Method, path: &str) -> (StatusCode, String) {
    let request = Request::builder().method(method).uri(path);
    let request = request
        .header("host", "localhost")
        .header("accept", "application/openmetrics-text")
        .body(())
        .expect("a request");
    let (parts, body) = answer(state, request).await.into_parts();
    let bytes = body.collect().await.expect("in memory").to_bytes();
    (
        parts.status,
        String::from_utf8(bytes.to_vec()).expect("text"),
    )
}

fn two_devices() -> Vec<DeviceSnapshot> {
    vec![
        testing::device("sda", DeviceState::Online),
        testing::device("sd\"b\\\n", DeviceState::Offline),
    ]
}

/// Checks the text like a scraper: every line is a comment or `name{labels} value`, every series is
/// declared first, and none appears twice.
fn check_metrics(text: &str) -> HashMap<String, f64> {
    let mut kinds = HashMap::new();
    let mut series = HashMap::new();
    let mut helped = HashSet::new();
    assert!(text.ends_with("# EOF\n"), "complete");
    for line in text.lines().filter(|line| *line != "# EOF") {
        if let Some(comment) = line.strip_prefix("# ") {
            let words: Vec<_> = comment.splitn(3, ' ').collect();
            assert_eq!(words.len(), 3, "{line}");
            assert!(words[1].starts_with("headlong_"), "{line}");
            match words[0] {
                "HELP" => assert!(helped.insert(words[1]), "helped twice: {line}"),
                "TYPE" => assert!(
                    kinds.insert(words[1], words[2]).is_none(),
                    "typed twice: {line}"
                ),
                "UNIT" => assert!(words[1].ends_with(words[2]), "unit is the suffix: {line}"),
                other => panic!("unknown comment {other}"),
            }
            continue;
        }
        let (name_and_labels, value) = line.rsplit_once(' ').expect("a value");
        let value: f64 = value.parse().expect("a number");
        let name = name_and_labels.split('{').next().expect("a name");
        let family = ["_total", "_bucket", "_count", "_sum", "_info", ""]
            .into_iter()
            .find_map(|suffix| kinds.get_key_value(name.strip_suffix(suffix)?));
        let (_, kind) = family.unwrap_or_else(|| panic!("undeclared: {line}"));
        assert_eq!(*kind == "counter", name.ends_with("_total"), "{line}");
        let known = series.insert(name_and_labels.to_owned(), value);
        assert!(known.is_none(), "twice: {line}");
    }
    series
}

#[tokio::test]
async fn metrics_are_well_formed_and_contain_every_device() {
    let (state, _trigger) = testing::state(two_devices());
    let time = headlong_units::Duration::from_millis(3);
    state.requests.observe(206, time, Some(time));
    state.requests.observe(999, time, None);
    let (status, text) = ask(&state, Method::GET, "/metrics").await;
    assert_eq!(status, StatusCode::OK);
    let series = check_metrics(&text);
    for (name, value) in [
        ("headlong_device_requests_total{device=\"sda\"}", 7.0),
        (
            "headlong_device_read_bytes_total{device=\"sda\"}",
            8_388_608.0,
        ),
        ("headlong_device_busy_seconds_total{device=\"sda\"}", 1.5),
        (
            "headlong_device_memory_bytes{device=\"sda\",class=\"unread\"}",
            4.0,
        ),
        (
            "headlong_device_state{device=\"sda\",state=\"online\"}",
            1.0,
        ),
        (
            "headlong_device_state{device=\"sda\",state=\"offline\"}",
            0.0,
        ),
        ("headlong_device_chains_live{device=\"sda\"}", 41.0),
        ("headlong_device_queue_jobs{device=\"sda\"}", 3.0),
        (
            "headlong_device_requests_total{device=\"sd\\\"b\\\\\\n\"}",
            7.0,
        ),
        ("headlong_responses_total{class=\"2xx\"}", 1.0),
        ("headlong_responses_total{class=\"5xx\"}", 1.0),
        ("headlong_request_first_byte_seconds_count", 1.0),
        ("headlong_build_info{version=\"1.2.3\"}", 1.0),
        ("headlong_start_time_seconds", 1.0),
    ] {
        assert_eq!(series.get(name), Some(&value), "{name} in\n{text}");
    }
    let info = series
        .keys()
        .find(|name| name.starts_with("headlong_device_info"));
    let info = info.expect("an info metric");
    assert!(
        info.contains("policy=\"square-root\"") && info.contains("order="),
        "{info}"
    );
}

#[tokio::test]
async fn metrics_are_well_formed_without_devices() {
    let (state, _trigger) = testing::state(Vec::new());
    check_metrics(&ask(&state, Method::GET, "/metrics").await.1);
}

#[tokio::test]
async fn health_names_unscanned_roots() {
    let (mut state, _trigger) = testing::state(vec![testing::device("sda", DeviceState::Online)]);
    assert_eq!(ask(&state, Method::GET, "/healthz").await.1, "ok");
    state.unscanned = Arc::new(PendingScans::new(vec!["/srv/far".into()]));
    let (status, words) = ask(&state, Method::GET, "/healthz").await;
    assert_eq!(status, StatusCode::OK);
    let expected = "ok, but not all roots are scanned\nsda: online\n/srv/far: not scanned yet\n";
    assert_eq!(words, expected);
}

#[tokio::test]
async fn health_reports_drain_and_offline_devices() {
    let (state, trigger) = testing::state(two_devices());
    let healthy = ask(&state, Method::GET, "/healthz").await;
    // One of the two is offline; the other one serves.
    assert_eq!(healthy.0, StatusCode::OK);
    assert!(healthy.1.starts_with("ok, but"), "{}", healthy.1);
    assert!(healthy.1.contains("sda: online\n"), "{}", healthy.1);
    state.is_ready.store(false, Ordering::Relaxed);
    let (status, why) = ask(&state, Method::GET, "/healthz").await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(why.contains("scanned"), "{why}");
    state.is_ready.store(true, Ordering::Relaxed);
    trigger.drain();
    let (status, why) = ask(&state, Method::GET, "/healthz").await;
    assert_eq!(
        (status, why.as_str()),
        (StatusCode::SERVICE_UNAVAILABLE, "draining\n")
    );

    let (state, _trigger) = testing::state(vec![testing::device("sda", DeviceState::Offline)]);
    let (status, why) = ask(&state, Method::GET, "/healthz").await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(why.contains("offline"), "{why}");
}

#[tokio::test]
async fn accept_text_plain_gets_prometheus_text() {
    let (state, _trigger) = testing::state(two_devices());
    let request = Request::get("/metrics").header("host", "localhost");
    let request = request.header("accept", "text/plain;version=0.0.4");
    let response = answer(&state, request.body(()).expect("a request")).await;
    let (parts, body) = response.into_parts();
    assert_eq!(
        parts.headers[header::CONTENT_TYPE],
        "text/plain; version=0.0.4; charset=utf-8"
    );
    assert_eq!(parts.headers[header::VARY], "accept");
    let bytes = body.collect().await.expect("in memory").to_bytes();
    let text = String::from_utf8_lossy(&bytes).into_owned();
    assert!(
        !text.contains("# EOF") && !text.contains("# UNIT"),
        "{text}"
    );
    assert!(
        text.contains("# TYPE headlong_device_requests_total counter\n"),
        "{text}"
    );
    let open_metrics = check_metrics(&ask(&state, Method::GET, "/metrics").await.1);
    let series = text.lines().filter(|line| !line.starts_with('#'));
    let series = series.map(|line| line.rsplit_once(' ').expect("a value").0);
    let series: HashSet<&str> = series.collect();
    assert_eq!(series, open_metrics.keys().map(String::as_str).collect());
}

struct StuckLibrary;

impl crate::admin::Devices for StuckLibrary {
    fn snapshots(&self) -> crate::admin::BoxFuture<'_, Vec<DeviceSnapshot>> {
        Box::pin(std::future::pending())
    }
}

#[tokio::test(start_paused = true)]
async fn stuck_device_thread_gets_503() {
    let (mut state, _trigger) = testing::state(Vec::new());
    state.devices = Arc::new(StuckLibrary);
    for path in ["/status", "/metrics", "/healthz"] {
        let (status, why) = ask(&state, Method::GET, path).await;
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE, "{path}");
        assert!(why.contains("does not respond"), "{why}");
    }
}

/// A library whose rendering does not end before the test.
struct BlockedLibrary(std::sync::Mutex<std::sync::mpsc::Receiver<()>>);

impl crate::admin::LibraryRenderer for BlockedLibrary {
    fn json(&self) -> Bytes {
        let end = self.0.lock().expect("one rendering at a time");
        let _ = end.recv();
        Bytes::new()
    }
}

#[tokio::test(start_paused = true)]
async fn library_that_renders_too_long_gets_503_with_retry_after() {
    let (mut state, _trigger) = testing::state(Vec::new());
    let (end, ended) = std::sync::mpsc::channel();
    let library = Arc::new(BlockedLibrary(ended.into()));
    state.library = crate::admin::LibraryDocument::new(library);
    let request = Request::get("/library.json").header("host", "localhost");
    let asking =
        tokio::spawn(async move { answer(&state, request.body(()).expect("a request")).await });
    tokio::task::yield_now().await;
    tokio::time::advance(Duration::from_secs(11)).await;
    let response = asking.await.expect("an answer");
    assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(response.headers()[header::RETRY_AFTER], "5");
    drop(end);
}

#[tokio::test]
async fn other_methods_get_405_and_unknown_paths_404() {
    let (state, _trigger) = testing::state(Vec::new());
    for method in [Method::POST, Method::PUT, Method::DELETE, Method::OPTIONS] {
        let (status, _) = ask(&state, method, "/status").await;
        assert_eq!(status, StatusCode::METHOD_NOT_ALLOWED);
    }
    let (status, _) = ask(&state, Method::GET, "/nothing").await;
    assert_eq!(status, StatusCode::NOT_FOUND);
    let (status, library) = ask(&state, Method::GET, "/library.json").await;
    assert_eq!(
        (status, library.as_str()),
        (StatusCode::OK, r#"{"titles":[]}"#)
    );
}

#[tokio::test]
async fn foreign_host_gets_421_without_content() {
    let (state, _trigger) = testing::state(two_devices());
    let request = Request::get("/status")
        .header("host", "evil.example")
        .body(());
    let response = answer(&state, request.expect("a request")).await;
    assert_eq!(response.status(), StatusCode::MISDIRECTED_REQUEST);
    let body = response
        .into_body()
        .collect()
        .await
        .expect("in memory")
        .to_bytes();
    let body = String::from_utf8_lossy(&body);
    assert!(
        !body.contains("sda") && body.contains("admin_hosts"),
        "{body}"
    );
}

#[tokio::test]
async fn head_over_socket_has_length_of_get_and_no_body() {
    let (state, _trigger) = testing::state(Vec::new());
    let any_port = ListenAddress::Ip(([127, 0, 0, 1], 0).into());
    let (listener, _) = bind(&any_port, 0o660).expect("a free port");
    let address = match listener.address() {
        Ok(ListenAddress::Ip(address)) => address,
        other => panic!("{other:?}"),
    };
    let (end, signal) = shutdown();
    let server = tokio::spawn(serve_admin(listener, Arc::new(state), signal));
    let mut stream = TcpStream::connect(address).await.expect("accepted");
    let request = format!("HEAD /healthz HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.expect("taken");
    let mut heard = String::new();
    stream
        .read_to_string(&mut heard)
        .await
        .expect("a close without a reset");
    assert!(heard.starts_with("HTTP/1.1 200 OK\r\n"), "{heard}");
    assert!(heard.contains("content-length: 2\r\n"), "{heard}");
    assert!(
        heard.contains("content-security-policy: default-src 'self'"),
        "{heard}"
    );
    assert!(heard.ends_with("\r\n\r\n"), "{heard}");
    drop(stream);
    end.drain();
    server.await.expect("ends");
}
