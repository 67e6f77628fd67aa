//! Routes of the operator's listener.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use headlong_engine::DeviceState;
use headlong_net::{
    ConnectionCounters, ConnectionLimits, Listener, ListenerContext, Shutdown, TcpOptions,
    WithoutHeadCache,
};
use headlong_settings::one_line;
use headlong_storage::DeviceSnapshot;
use http::header::{self, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::service::service_fn;
use tokio::time::timeout;

use super::exposition::Exposition;
use super::library_document::DocumentError;
use super::state::AdminState;
use super::{fill, host, pages, purge, roots, server_metrics, status};

/// A device thread that does not respond for this long is stuck. Many clients of this listener time
/// out after five seconds and should receive the error before.
const SNAPSHOT_TIMEOUT: Duration = Duration::from_secs(3);
/// `Retry-After` while the list of titles is being rendered.
const LIBRARY_RETRY_S: &str = "5";
const CONNECTIONS_MAX: usize = 256;
const DRAIN_TIMEOUT: Duration = Duration::from_secs(2);
const PLAIN: &str = "text/plain; charset=utf-8";
const JSON: &str = "application/json";

type AdminResponse = Response<Full<Bytes>>;

/// Serves the operator's listener until `shutdown`.
pub async fn serve_admin(listener: Listener, state: Arc<AdminState>, shutdown: Shutdown) {
    let limits = ConnectionLimits {
        connections_max: CONNECTIONS_MAX,
        drain_timeout: DRAIN_TIMEOUT,
        ..ConnectionLimits::default()
    };
    // Separate counters, so that requests here do not change those of the viewers.
    let counters = Arc::new(ConnectionCounters::default());
    let context = ListenerContext::new(limits, TcpOptions::default(), counters);
    let service = service_fn(move |request| {
        let state = Arc::clone(&state);
        async move { Ok::<_, Infallible>(answer(&state, request).await) }
    });
    let service = WithoutHeadCache(service);
    headlong_net::serve_listener(listener, None, service, context, shutdown).await;
}

/// Answers one request; its body is ignored.
pub(super) async fn answer<B>(state: &AdminState, request: Request<B>) -> AdminResponse {
    let (request, _) = request.into_parts();
    let mut response = match host::check(&request, &state.host_names) {
        Ok(()) => route(state, &request).await,
        Err(host::BadHost::NotOne) => text(
            StatusCode::BAD_REQUEST,
            "a request must name exactly one host\n",
        ),
        Err(host::BadHost::Foreign) => text(
            StatusCode::MISDIRECTED_REQUEST,
            "unknown host name: use the address, localhost, \
            or add the name to admin_hosts in the configuration\n",
        ),
    };
    let fields = response.headers_mut();
    for (name, value) in [
        (
            header::CONTENT_SECURITY_POLICY,
            pages::CONTENT_SECURITY_POLICY,
        ),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
    ] {
        fields.insert(name, HeaderValue::from_static(value));
    }
    fields
        .entry(header::CACHE_CONTROL)
        .or_insert(HeaderValue::from_static("no-store"));
    response
}

async fn route(state: &AdminState, request: &http::request::Parts) -> AdminResponse {
    let posted = match (request.uri.path(), &request.method) {
        ("/purge", &Method::POST) => Some(purge::answer(&state.pulls, request).await),
        ("/attach", &Method::POST) => Some(roots::answer(&state.roots, request, true).await),
        ("/detach", &Method::POST) => Some(roots::answer(&state.roots, request, false).await),
        ("/fill", &Method::POST) => Some(fill::answer(&state.pulls, request)),
        _ => None,
    };
    if let Some((status, text)) = posted {
        let media_type = if status == StatusCode::OK {
            JSON
        } else {
            PLAIN
        };
        return typed(status, media_type, text);
    }
    if request.method != Method::GET && request.method != Method::HEAD {
        let mut response = text(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD\n");
        let allowed = HeaderValue::from_static("GET, HEAD");
        response.headers_mut().insert(header::ALLOW, allowed);
        return response;
    }
    let path = request.uri.path();
    match path {
        "/metrics" => match snapshots(state).await {
            Ok(devices) => {
                let format = Exposition::negotiate(&request.headers);
                let text = server_metrics::render(state, devices);
                let exemplars = state.requests.exemplars();
                let text = text.map(|text| Bytes::from(format.write(text, exemplars)));
                let mut answer = rendered(format.content_type(), text);
                // Prevents caches from confusing the two formats.
                let vary = HeaderValue::from_static("accept");
                answer.headers_mut().insert(header::VARY, vary);
                answer
            }
            Err(stuck) => stuck,
        },
        "/status" => match snapshots(state).await {
            Ok(devices) => {
                let uptime_ms = millis(state.started.elapsed());
                let document = status::render(state, &devices, now_unix_ms(), uptime_ms);
                rendered(JSON, document.map(Bytes::from))
            }
            Err(stuck) => stuck,
        },
        "/library.json" => library(state).await,
        "/healthz" => health(state).await,
        _ => pages::answer(path, &request.headers)
            .unwrap_or_else(|| text(StatusCode::NOT_FOUND, "not found\n")),
    }
}

async fn library(state: &AdminState) -> AdminResponse {
    match state.library.get().await {
        Ok(document) => typed(StatusCode::OK, JSON, document),
        Err(DocumentError::Late) => {
            let words = "the list of titles is still being rendered; try again\n";
            let mut response = text(StatusCode::SERVICE_UNAVAILABLE, words);
            let seconds = HeaderValue::from_static(LIBRARY_RETRY_S);
            response.headers_mut().insert(header::RETRY_AFTER, seconds);
            response
        }
        Err(DocumentError::Failed) => text(
            StatusCode::INTERNAL_SERVER_ERROR,
            "cannot render the list of titles; see the server's log\n",
        ),
    }
}

async fn snapshots(state: &AdminState) -> Result<Vec<DeviceSnapshot>, AdminResponse> {
    let answered = timeout(SNAPSHOT_TIMEOUT, state.devices.snapshots()).await;
    answered.map_err(|_| {
        text(
            StatusCode::SERVICE_UNAVAILABLE,
            "a device thread does not respond; see the server's log\n",
        )
    })
}

/// 200 while any device can serve: `ok` if everything works, otherwise with the state of each
/// device, the roots that have not been scanned, and the degraded parts.
async fn health(state: &AdminState) -> AdminResponse {
    if state.draining.is_draining() {
        return text(StatusCode::SERVICE_UNAVAILABLE, "draining\n");
    }
    if !state.is_ready.load(Ordering::Relaxed) {
        let words = "the roots are being scanned; files are already served\n";
        return text(StatusCode::SERVICE_UNAVAILABLE, words);
    }
    let devices = match snapshots(state).await {
        Ok(devices) => devices,
        Err(stuck) => return stuck,
    };
    let is_online = |device: &DeviceSnapshot| device.state == DeviceState::Online;
    let are_online = devices.iter().all(is_online);
    let unscanned = state.unscanned.names();
    let degraded = state.degraded.list();
    if are_online && unscanned.is_empty() && degraded.is_empty() {
        return text(StatusCode::OK, "ok");
    }
    let is_offline = |device: &DeviceSnapshot| device.state == DeviceState::Offline;
    let (code, first) = match devices.iter().all(is_offline) {
        true => (StatusCode::SERVICE_UNAVAILABLE, "all devices are offline"),
        false if !are_online => (StatusCode::OK, "ok, but not all devices are online"),
        false if !degraded.is_empty() => (StatusCode::OK, "ok, but degraded"),
        false => (StatusCode::OK, "ok, but not all roots are scanned"),
    };
    let mut words = format!("{first}\n");
    for device in &devices {
        words.push_str(&format!(
            "{}: {}\n",
            device.name,
            status::state_name(device.state)
        ));
    }
    for root in unscanned {
        words.push_str(&format!("{root}: not scanned yet\n"));
    }
    for part in degraded {
        let line = format!("{} {}: {}", part.kind, part.name, part.reason);
        words.push_str(&one_line(&line));
        words.push('\n');
    }
    typed(code, PLAIN, Bytes::from(words))
}

fn now_unix_ms() -> u64 {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH);
    since_epoch.map_or(0, millis)
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn rendered<E: std::fmt::Display>(
    media_type: &'static str,
    outcome: Result<Bytes, E>,
) -> AdminResponse {
    match outcome {
        Ok(bytes) => typed(StatusCode::OK, media_type, bytes),
        Err(error) => {
            let reason = format!("cannot render this document: {error}\n");
            typed(
                StatusCode::INTERNAL_SERVER_ERROR,
                PLAIN,
                Bytes::from(reason),
            )
        }
    }
}

fn text(status: StatusCode, words: &'static str) -> AdminResponse {
    typed(status, PLAIN, Bytes::from_static(words.as_bytes()))
}

fn typed(status: StatusCode, media_type: &'static str, bytes: Bytes) -> AdminResponse {
    let mut response = Response::new(Full::new(bytes));
    *response.status_mut() = status;
    let value = HeaderValue::from_static(media_type);
    response.headers_mut().insert(header::CONTENT_TYPE, value);
    response
}

#[cfg(test)]
#[path = "router_tests.rs"]
mod tests;
