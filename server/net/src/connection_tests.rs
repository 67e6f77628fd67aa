use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::task::Waker;

use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body, Frame, SizeHint};
use http_body_util::{BodyExt as _, Full};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use super::*;
use crate::{ConnectionLimits, NoBody, TcpOptions, WithoutHeadCache};
use crate::{ShutdownTrigger, shutdown};

struct ConnectionServer {
    client: DuplexStream,
    task: JoinHandle<ConnectionEnd>,
    counters: Arc<ConnectionCounters>,
    trigger: ShutdownTrigger,
}

/// Answers `/slow` after 20 s, `/big` with 16 MiB, everything else with `hello`.
async fn answer(request: Request<NoBody>) -> Result<Response<Full<Bytes>>, Infallible> {
    let body = match request.uri().path() {
        "/slow" => {
            sleep(Duration::from_secs(20)).await;
            Bytes::from_static(b"late")
        }
        "/big" => Bytes::from(vec![7; 16 << 20]),
        _ => Bytes::from_static(b"hello"),
    };
    Ok(Response::new(Full::new(body)))
}

fn serve(limits: ConnectionLimits) -> ConnectionServer {
    let (client, far) = duplex(64 * 1024);
    let counters = Arc::new(ConnectionCounters::default());
    let (trigger, signal) = shutdown();
    let remote = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
    let context = ListenerContext::new(limits, TcpOptions::default(), Arc::clone(&counters));
    let task = tokio::spawn(serve_connection(
        far,
        remote.into(),
        None,
        WithoutHeadCache(service_fn(answer)),
        context,
        signal,
    ));
    ConnectionServer {
        client,
        task,
        counters,
        trigger,
    }
}

impl ConnectionServer {
    async fn write(&mut self, text: &str) {
        self.client.write_all(text.as_bytes()).await.expect("open");
    }

    /// Reads one reply, up to the end of its body (`hello` or `late`).
    async fn read_until(&mut self, last_word: &str) -> String {
        let mut heard = Vec::new();
        while !heard.ends_with(last_word.as_bytes()) {
            let count = self.client.read_buf(&mut heard).await.expect("open");
            assert!(
                count > 0,
                "closed after {}",
                String::from_utf8_lossy(&heard)
            );
        }
        String::from_utf8(heard).expect("text")
    }

    async fn read_to_end(&mut self) -> String {
        let mut heard = String::new();
        self.client
            .read_to_string(&mut heard)
            .await
            .expect("a close without a reset");
        heard
    }
}

const HELLO: &str = "GET / HTTP/1.1\r\nHost: h\r\n\r\n";

#[tokio::test(start_paused = true)]
async fn connection_stays_open_until_idle_timeout() {
    let mut server = serve(ConnectionLimits::default());
    for _ in 0..3 {
        server.write(HELLO).await;
        assert!(server.read_until("hello").await.starts_with("HTTP/1.1 200"));
        sleep(Duration::from_secs(60)).await;
    }
    let begun = Instant::now();
    assert_eq!(server.read_to_end().await, "");
    assert_eq!(begun.elapsed().as_secs(), 15);
    drop(server.client);
    assert_eq!(server.task.await.expect("ends"), ConnectionEnd::IdleTimeout);
    assert_eq!(server.counters.counts().idle_timeouts, 1);
    assert_eq!(server.counters.counts().open, 0);
}

#[tokio::test(start_paused = true)]
async fn slow_head_is_cut_at_header_timeout() {
    let mut server = serve(ConnectionLimits::default());
    server.write(HELLO).await;
    server.read_until("hello").await;
    sleep(Duration::from_secs(30)).await;
    let begun = Instant::now();
    for letter in HELLO.chars() {
        if server.client.write_all(&[letter as u8]).await.is_err() {
            break;
        }
        sleep(Duration::from_secs(1)).await;
    }
    assert!((10..=12).contains(&begun.elapsed().as_secs()));
    assert_eq!(
        server.task.await.expect("ends"),
        ConnectionEnd::HeaderTimeout
    );
    assert_eq!(server.counters.counts().header_timeouts, 1);
}

#[tokio::test(start_paused = true)]
async fn partial_pipelined_head_is_cut_at_header_timeout() {
    let mut server = serve(ConnectionLimits::default());
    let begun = Instant::now();
    server.write(&format!("{HELLO}GET / HT")).await;
    server.read_until("hello").await;
    assert_eq!(
        server.task.await.expect("ends"),
        ConnectionEnd::HeaderTimeout
    );
    assert!((10..=12).contains(&begun.elapsed().as_secs()));
}

#[tokio::test(start_paused = true)]
async fn empty_line_after_request_does_not_begin_head() {
    let mut server = serve(ConnectionLimits::default());
    for end in ["\r\n", "\n\r\n", ""] {
        server.write(&format!("{HELLO}{end}")).await;
        server.read_until("hello").await;
        sleep(Duration::from_secs(30)).await;
    }
    server.write("\r\n").await;
    drop(server.read_to_end().await);
    assert_eq!(server.task.await.expect("ends"), ConnectionEnd::IdleTimeout);
}

#[tokio::test(start_paused = true)]
async fn partial_http2_preface_is_cut_at_header_timeout() {
    let mut server = serve(ConnectionLimits::default());
    let begun = Instant::now();
    server.write("PRI").await;
    assert_eq!(
        server.task.await.expect("ends"),
        ConnectionEnd::HeaderTimeout
    );
    assert_eq!(begun.elapsed().as_secs(), 10);
}

/// An HTTP/2 client preface with a settings frame and no request.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

#[tokio::test(start_paused = true)]
async fn http2_connection_without_request_ends_by_idle_timeout() {
    // This client does not answer pings.
    let mut server = serve(ConnectionLimits {
        keep_alive_interval: Duration::from_secs(600),
        ..ConnectionLimits::default()
    });
    let begun = Instant::now();
    server.client.write_all(PREFACE).await.expect("open");
    let mut heard = Vec::new();
    server.client.read_to_end(&mut heard).await.expect("an end");
    assert!(begun.elapsed() >= ConnectionLimits::default().idle_timeout);
    assert_eq!(server.task.await.expect("ends"), ConnectionEnd::IdleTimeout);
}

#[tokio::test(start_paused = true)]
async fn shed_http2_connection_gives_up_its_place_at_once() {
    // This client answers neither pings nor GOAWAY.
    let (mut client, far) = duplex(64 * 1024);
    let limits = ConnectionLimits::default();
    let context = ListenerContext::new(limits, TcpOptions::default(), Arc::default());
    let (_trigger, signal) = shutdown();
    let remote = SocketAddr::from((Ipv4Addr::LOCALHOST, 1)).into();
    let service = WithoutHeadCache(service_fn(answer));
    let serving = serve_connection(far, remote, None, service, context.clone(), signal);
    let task = tokio::spawn(serving);
    client.write_all(PREFACE).await.expect("open");
    sleep(Duration::from_secs(1)).await;
    let begun = Instant::now();
    assert_eq!(context.shed_idle(), None);
    assert_eq!(task.await.expect("ends"), ConnectionEnd::IdleTimeout);
    assert!(begun.elapsed() < Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn slow_reply_is_not_closed_by_idle_timeout() {
    let limits = ConnectionLimits {
        idle_timeout: Duration::from_secs(5),
        ..ConnectionLimits::default()
    };
    let mut server = serve(limits);
    server.write("GET /slow HTTP/1.1\r\nHost: h\r\n\r\n").await;
    assert!(server.read_until("late").await.starts_with("HTTP/1.1 200"));
}

#[tokio::test(start_paused = true)]
async fn request_begun_before_idle_timeout_gets_whole_reply() {
    let mut server = serve(ConnectionLimits {
        idle_timeout: Duration::from_secs(5),
        ..ConnectionLimits::default()
    });
    server.write(HELLO).await;
    server.read_until("hello").await;
    sleep(Duration::from_millis(4900)).await;
    server.write("GET /slow HT").await;
    sleep(Duration::from_millis(600)).await;
    server.write("TP/1.1\r\nHost: h\r\n\r\n").await;
    assert!(server.read_until("late").await.starts_with("HTTP/1.1 200"));
}

#[tokio::test(start_paused = true)]
async fn request_that_crosses_goaway_gets_whole_reply() {
    /// GET http://h/slow
    const ASK: &[u8] = b"\0\0\x0c\x01\x05\0\0\0\x01\x82\x86\x41\x01h\x44\x05/slow";
    let mut server = serve(ConnectionLimits {
        idle_timeout: Duration::from_secs(5),
        keep_alive_interval: Duration::from_secs(600),
        ..ConnectionLimits::default()
    });
    server.client.write_all(PREFACE).await.expect("open");
    // A GOAWAY frame is on its way to the client.
    sleep(Duration::from_secs(6)).await;
    server.client.write_all(ASK).await.expect("open");
    let mut heard = Vec::new();
    while !heard.windows(4).any(|word| word == b"late") {
        let count = server.client.read_buf(&mut heard).await.expect("open");
        assert!(count > 0, "closed after {heard:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn client_that_does_not_read_is_cut_by_send_timeout() {
    let mut server = serve(ConnectionLimits::default());
    server.write("GET /big HTTP/1.1\r\nHost: h\r\n\r\n").await;
    assert_eq!(
        (&mut server.task).await.expect("ends"),
        ConnectionEnd::SendTimeout
    );
    assert_eq!(server.counters.counts().send_timeouts, 1);
    assert_eq!(server.counters.counts().requests_active, 0);
}

#[tokio::test(start_paused = true)]
async fn last_permitted_reply_has_connection_close() {
    let limits = ConnectionLimits {
        requests_per_connection_max: 2,
        ..ConnectionLimits::default()
    };
    let mut server = serve(limits);
    server.write(HELLO).await;
    assert!(
        !server
            .read_until("hello")
            .await
            .contains("connection: close")
    );
    server.write(HELLO).await;
    assert!(
        server
            .read_until("hello")
            .await
            .contains("connection: close")
    );
    assert_eq!(server.read_to_end().await, "");
}

async fn over_http2(
    client: impl AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
) -> hyper::client::conn::http2::SendRequest<Full<Bytes>> {
    let client = TokioIo::new(client);
    let handshake = hyper::client::conn::http2::handshake(TokioExecutor::new(), client);
    let (sender, connection) = handshake.await.expect("HTTP/2");
    tokio::spawn(connection);
    sender
}

#[tokio::test(start_paused = true)]
async fn http2_head_over_limit_gets_431() {
    let server = serve(ConnectionLimits::default());
    let mut sender = over_http2(server.client).await;
    for length in [20_000, 60_000] {
        let request = Request::get("http://h/").header("x", "a".repeat(length));
        let request = request.body(Full::<Bytes>::default()).expect("a request");
        let reply = sender.send_request(request).await.expect("a reply");
        assert_eq!(reply.status(), 431, "{length}");
    }
    // A head of four times the announced limit closes the whole connection.
    let request = Request::get("http://h/").header("x", "a".repeat(100_000));
    let request = request.body(Full::<Bytes>::default()).expect("a request");
    sender.send_request(request).await.expect_err("GOAWAY");
    assert_eq!(server.task.await.expect("ends"), ConnectionEnd::Flooded);
}

#[tokio::test(start_paused = true)]
async fn head_with_too_many_fields_gets_431_over_both_versions() {
    let mut server = serve(ConnectionLimits::default());
    let request = |count| {
        let many = "x: 1\r\n".repeat(count);
        format!("GET / HTTP/1.1\r\nHost: h\r\n{many}\r\n")
    };
    server.write(&request(99)).await;
    assert!(server.read_until("hello").await.starts_with("HTTP/1.1 200"));
    server.write(&request(100)).await;
    assert!(server.read_to_end().await.starts_with("HTTP/1.1 431"));
    let server = serve(ConnectionLimits::default());
    let mut sender = over_http2(server.client).await;
    for (count, status) in [(100, 200), (101, 431), (100, 200)] {
        let mut request = Request::get("http://h/").body(Full::<Bytes>::default());
        let headers = request.as_mut().expect("a request").headers_mut();
        for _ in 0..count {
            headers.append("x", http::HeaderValue::from_static("1"));
        }
        let reply = sender.send_request(request.expect("a request")).await;
        assert_eq!(reply.expect("a reply").status(), status, "{count}");
    }
    assert_eq!(server.counters.counts().heads_refused, 1);
}

#[tokio::test(start_paused = true)]
async fn used_up_http2_connection_gets_goaway() {
    let limits = ConnectionLimits {
        requests_per_connection_max: 2,
        ..ConnectionLimits::default()
    };
    let server = serve(limits);
    let mut sender = over_http2(server.client).await;
    for _ in 0..2 {
        sender.ready().await.expect("still open");
        let request = Request::get("http://h/").body(Full::<Bytes>::default());
        let reply = sender.send_request(request.expect("a request")).await;
        assert_eq!(reply.expect("a reply").status(), 200);
    }
    assert_eq!(server.task.await.expect("ends"), ConnectionEnd::Closed);
}

#[tokio::test(start_paused = true)]
async fn drain_finishes_current_request_and_accepts_no_other() {
    let limits = ConnectionLimits {
        drain_timeout: Duration::from_secs(30),
        ..ConnectionLimits::default()
    };
    let mut server = serve(limits);
    server.write("GET /slow HTTP/1.1\r\nHost: h\r\n\r\n").await;
    sleep(Duration::from_secs(1)).await;
    server.trigger.drain();
    let reply = server.read_until("late").await;
    assert!(reply.contains("connection: close"), "{reply}");
    assert_eq!(server.read_to_end().await, "");
    drop(server.client);
    assert_eq!(server.task.await.expect("ends"), ConnectionEnd::Closed);
}

#[tokio::test(start_paused = true)]
async fn drain_cuts_unfinished_request_at_its_deadline() {
    let limits = ConnectionLimits {
        drain_timeout: Duration::from_secs(7),
        ..ConnectionLimits::default()
    };
    let mut server = serve(limits);
    server.write("GET /slow HTTP/1.1\r\nHost: h\r\n\r\n").await;
    sleep(Duration::from_secs(1)).await;
    let begun = Instant::now();
    server.trigger.drain();
    assert_eq!(
        (&mut server.task).await.expect("ends"),
        ConnectionEnd::DrainAborted
    );
    assert_eq!(begun.elapsed().as_secs(), 7);
    assert_eq!(server.counters.counts().drain_aborts, 1);
}

#[tokio::test(start_paused = true)]
async fn drain_is_noticed_before_its_futures_are_ready() {
    let remote = SocketAddr::from(([127, 0, 0, 1], 1));
    let info = Arc::new(ConnectionInfo::new(
        0,
        remote.into(),
        Arc::default(),
        Arc::default(),
    ));
    let (trigger, signal) = shutdown();
    let (draining, retiring) = (pin!(std::future::pending()), pin!(std::future::pending()));
    let watch = ConnectionDriver {
        overseer: DeadlineMonitor::new(&info),
        signal,
        is_signal_new: true,
        draining,
        retiring,
        is_retiring: false,
        info: &info,
    };
    trigger.drain();
    let mut asked = false;
    let close = |_: &mut Context<'_>, ask: bool| {
        asked |= ask;
        match ask {
            true => Poll::Ready(Ok(())),
            false => Poll::Pending,
        }
    };
    assert_eq!(watch.over(close).await, ConnectionEnd::Closed);
    assert!(asked && info.is_used_up());
}

#[tokio::test(start_paused = true)]
async fn drain_cuts_reply_that_cannot_finish_in_time() {
    let remote = SocketAddr::from(([127, 0, 0, 1], 1));
    let (limits, counters) = (Arc::<ConnectionLimits>::default(), Arc::default());
    let info = ConnectionInfo::new(0, remote.into(), limits, counters);
    let info = Arc::new(info);
    let _active = info.begin_request();
    let within = info.limits().drain_timeout;
    let is_too_long = || info.is_too_long_for(Instant::now(), within);
    info.begin_reply(1000);
    info.note_left(990);
    assert!(!is_too_long(), "it has just begun");
    sleep(within).await;
    assert!(is_too_long(), "one per cent sent in the drain's whole time");
    info.note_left(500);
    assert!(!is_too_long(), "the other half fits into the same time");
    sleep(Duration::from_secs(1)).await;
    let mut overseer = DeadlineMonitor::new(&info);
    overseer.begin_drain();
    let action = poll_fn(|cx| overseer.poll_action(cx)).await;
    assert!(matches!(
        action,
        DeadlineAction::Cut(ConnectionEnd::DrainAborted)
    ));
    assert!(is_too_long() && info.is_drain_aborted());
}

#[tokio::test(start_paused = true)]
async fn drain_closes_idle_connection_immediately() {
    let mut server = serve(ConnectionLimits::default());
    server.write(HELLO).await;
    server.read_until("hello").await;
    let begun = Instant::now();
    server.trigger.drain();
    assert_eq!(server.read_to_end().await, "");
    assert_eq!(begun.elapsed().as_secs(), 0);
}

#[tokio::test(start_paused = true)]
async fn stalled_http2_stream_is_cut_by_send_timeout() {
    let server = serve(ConnectionLimits::default());
    // The client's windows are small and the body is not read, so they stay closed while the
    // connection itself still exchanges pings.
    let (mut sender, connection) = hyper::client::conn::http2::Builder::new(TokioExecutor::new())
        .initial_stream_window_size(65_535)
        .handshake::<_, Full<Bytes>>(TokioIo::new(server.client))
        .await
        .expect("HTTP/2");
    tokio::spawn(connection);
    let request = Request::get("http://h/big")
        .body(Full::default())
        .expect("a request");
    let reply = sender.send_request(request).await.expect("a head");
    assert_eq!(reply.version(), http::Version::HTTP_2);
    assert_eq!(server.task.await.expect("ends"), ConnectionEnd::SendTimeout);
    drop(reply);
}

struct TruncatedBody(u32);

impl ReplyBytes for TruncatedBody {}

impl Body for TruncatedBody {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
        self.0 += 1;
        Poll::Ready(Some(match self.0 {
            1 => Ok(Frame::data(Bytes::from_static(b"half"))),
            2 => {
                // Lets the first half be sent.
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            _ => Err(std::io::Error::other("the disk failed")),
        }))
    }
}

/// A connection whose replies have these bodies.
fn serve_bodies<B>(
    body: impl Fn() -> B + Send + Sync + 'static,
) -> (DuplexStream, JoinHandle<ConnectionEnd>, ShutdownTrigger)
where
    B: ReplyBytes<Data = Bytes, Error = std::io::Error> + Send + 'static,
{
    let (client, far) = duplex(64 * 1024);
    let (trigger, signal) = shutdown();
    let body = Arc::new(body);
    let reply = move |_: Request<NoBody>| {
        let body = body();
        let length = body.size_hint().exact().unwrap_or(8);
        let reply = Response::builder().header("content-length", length);
        let reply = reply.body(body).expect("a reply");
        async { Ok::<_, Infallible>(reply) }
    };
    let task = tokio::spawn(serve_connection(
        far,
        SocketAddr::from((Ipv4Addr::LOCALHOST, 1)).into(),
        None,
        WithoutHeadCache(service_fn(reply)),
        ListenerContext::new(
            ConnectionLimits::default(),
            TcpOptions::default(),
            Arc::default(),
        ),
        signal,
    ));
    (client, task, trigger)
}

/// A body of four bytes, and four more after a pause.
struct PausedBody(u32, Pin<Box<Sleep>>);

impl PausedBody {
    fn after(pause: Duration) -> Self {
        Self(0, Box::pin(sleep(pause)))
    }
}

impl ReplyBytes for PausedBody {}

impl Body for PausedBody {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
        if self.0 > 0 {
            std::task::ready!(self.1.as_mut().poll(cx));
        }
        self.0 += 1;
        let halves = [b"half", b"rest"].map(|half| Bytes::from_static(half));
        Poll::Ready(Some(Ok(Frame::data(halves[self.0 as usize - 1].clone()))))
    }

    fn is_end_stream(&self) -> bool {
        self.0 == 2
    }
}

/// A paused body that fails if it is asked much more often than it has anything new.
struct CountedBody(PausedBody, u32);

impl ReplyBytes for CountedBody {}

impl Body for CountedBody {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
        self.1 += 1;
        match self.1 {
            ..20 => Pin::new(&mut self.0).poll_frame(cx),
            _ => Poll::Ready(Some(Err(std::io::Error::other("asked without end")))),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_end_stream()
    }
}

#[tokio::test(start_paused = true)]
async fn http2_body_without_data_is_asked_again_only_when_woken() {
    let pause = Duration::from_secs(1);
    let (client, _task, _trigger) = serve_bodies(move || CountedBody(PausedBody::after(pause), 0));
    let mut sender = over_http2(client).await;
    let request = Request::get("http://h/").body(Full::default());
    let reply = sender.send_request(request.expect("a request")).await;
    let body = reply.expect("a head").into_body().collect().await;
    assert_eq!(body.expect("a whole body").to_bytes(), "halfrest");
}

const PART: &[u8] = &[7; 16 << 10];

/// A body of parts that yields no further one while more than 40 KiB are unsent, like that of a
/// slice that is being fetched.
struct BodyInTurns {
    parts_left: u32,
    unsent_bytes: u64,
    sender: Option<Waker>,
}

impl ReplyBytes for BodyInTurns {
    fn note_left(mut self: Pin<&mut Self>, bytes: u64) {
        self.unsent_bytes -= bytes;
        if let Some(sender) = self.sender.take() {
            sender.wake();
        }
    }
}

impl Body for BodyInTurns {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
        if self.unsent_bytes > 40 << 10 {
            self.sender = Some(cx.waker().clone());
            return Poll::Pending;
        }
        self.parts_left -= 1;
        self.unsent_bytes += PART.len() as u64;
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(PART)))))
    }

    fn is_end_stream(&self) -> bool {
        self.parts_left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(u64::from(self.parts_left) * PART.len() as u64)
    }
}

#[tokio::test(start_paused = true)]
async fn http2_reply_goes_on_after_its_reader_was_slow() {
    /// Windows of 112 KiB for a stream, and of more than a MiB for all.
    const SETTINGS: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\
        \0\0\x06\x04\0\0\0\0\0\0\x04\0\x01\xc0\0\0\0\x04\x08\0\0\0\0\0\0\x10\0\0";
    /// GET http://h/slow
    const ASK: &[u8] = b"\0\0\x0c\x01\x05\0\0\0\x01\x82\x86\x41\x01h\x44\x05/slow";
    /// 64 KiB more for its stream.
    const MORE_WINDOW: &[u8] = b"\0\0\x04\x08\0\0\0\0\x01\0\x01\0\0";
    let (mut client, _task, _trigger) = serve_bodies(|| BodyInTurns {
        parts_left: 10,
        unsent_bytes: 0,
        sender: None,
    });
    // The transport takes 64 KiB, the library 48 KiB more, and the stream's window is used up.
    for frames in [&[SETTINGS, ASK].concat()[..], MORE_WINDOW] {
        client.write_all(frames).await.expect("open");
        sleep(Duration::from_millis(100)).await;
    }
    // The window is open again, and the body waits for its bytes to leave; only that can wake it.
    let mut heard = Vec::new();
    while heard.len() < 10 * PART.len() {
        let more = timeout(Duration::from_secs(10), client.read_buf(&mut heard));
        let count = more.await.expect("no stall").expect("open");
        assert!(count > 0, "closed after {} bytes", heard.len());
    }
}

/// A body in parts, whose memory others lack.
struct ScarceBody {
    next: usize,
    suspended: Arc<std::sync::atomic::AtomicUsize>,
}

const SCARCE_BYTES: usize = 100 * PART.len();

impl ReplyBytes for ScarceBody {
    fn holds_scarce_memory(&self) -> bool {
        true
    }

    fn suspend(mut self: Pin<&mut Self>, unsent_bytes: u64) -> bool {
        self.next -= unsent_bytes as usize;
        self.suspended.fetch_add(unsent_bytes as usize, Relaxed);
        true
    }
}

impl Body for ScarceBody {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
        let end = (self.next + PART.len()).min(SCARCE_BYTES);
        let part: Vec<u8> = (self.next..end).map(|at| (at / 3) as u8).collect();
        self.next = end;
        Poll::Ready(Some(Ok(Frame::data(part.into()))))
    }

    fn is_end_stream(&self) -> bool {
        self.next == SCARCE_BYTES
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact((SCARCE_BYTES - self.next) as u64)
    }
}

#[tokio::test(start_paused = true)]
async fn unread_http1_reply_releases_scarce_memory_and_resumes() {
    let suspended = Arc::<std::sync::atomic::AtomicUsize>::default();
    let all = Arc::clone(&suspended);
    let (mut client, _task, _trigger) = serve_bodies(move || ScarceBody {
        next: 0,
        suspended: Arc::clone(&all),
    });
    client.write_all(HELLO.as_bytes()).await.expect("open");
    sleep(Duration::from_millis(900)).await;
    assert_eq!(suspended.load(Relaxed), 0);
    let mut heard = Vec::new();
    while !heard.ends_with(b"\r\n\r\n") {
        heard.push(client.read_u8().await.expect("a head"));
    }
    let mut body = Vec::new();
    for pause in [2, 0, 2, 5, 0, 0, 2] {
        sleep(Duration::from_secs(pause)).await;
        let mut part = vec![0; 150_001];
        client.read_exact(&mut part).await.expect("bytes");
        body.extend(part);
    }
    // At first nearly 1 MiB, as much as is taken out of a body at a time; then no more than was sent
    // since, and one part.
    assert!(suspended.load(Relaxed) > 1 << 20, "{suspended:?}");
    let mut rest = vec![0; SCARCE_BYTES - body.len()];
    client.read_exact(&mut rest).await.expect("bytes");
    body.extend(rest);
    let is_right = |(at, byte): (usize, &u8)| *byte == (at / 3) as u8;
    assert!(body.iter().enumerate().all(is_right));
}

/// A frame of HTTP/2 (RFC 9113, section 4.1).
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    let stream = stream.to_be_bytes();
    [&length[1..], &[kind, flags], &stream, payload].concat()
}

/// A preface with nearly the largest windows, and requests on streams 1, 3 and 5.
fn ask_for_three(path: &str) -> Vec<u8> {
    let settings = b"\0\x04\x7f\xff\0\0";
    let path = [&[0x44, path.len() as u8], path.as_bytes()].concat();
    let head = [&b"\x82\x86\x41\x01h"[..], &path].concat();
    let window = (0x7fff_0000_u32).to_be_bytes();
    let frames = [(4, 0, 0, &settings[..]), (8, 0, 0, &window)];
    let asks = [1, 3, 5].map(|stream| (1, 5, stream, &head[..]));
    let frames = frames.into_iter().chain(asks);
    let frames = frames.map(|(kind, flags, stream, payload)| frame(kind, flags, stream, payload));
    [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec()]
        .into_iter()
        .chain(frames)
        .collect::<Vec<_>>()
        .concat()
}

/// Reads a frame; returns its stream and, for DATA, the number of bytes.
async fn read_data(client: &mut DuplexStream) -> (u32, usize) {
    let mut head = [0; 9];
    let read = timeout(Duration::from_secs(10), client.read_exact(&mut head));
    read.await.expect("no stall").expect("open");
    let [a, b, c, kind, _, stream @ ..] = head;
    let mut payload = vec![0; u32::from_be_bytes([0, a, b, c]) as usize];
    client.read_exact(&mut payload).await.expect("open");
    let count = if kind == 0 { payload.len() } else { 0 };
    (u32::from_be_bytes(stream), count)
}

#[tokio::test(start_paused = true)]
async fn http2_replies_with_large_windows_share_slow_connection() {
    let mut server = serve(ConnectionLimits::default());
    let frames = ask_for_three("/big");
    server.client.write_all(&frames).await.expect("open");
    let mut counts = [0; 3];
    while counts.iter().sum::<usize>() < 6 << 20 {
        let (stream, bytes) = read_data(&mut server.client).await;
        counts[stream as usize / 2] += bytes;
    }
    assert!(counts.iter().all(|bytes| *bytes > 1 << 20), "{counts:?}");
}

#[tokio::test(start_paused = true)]
async fn half_closed_client_still_gets_its_reply() {
    for (path, version, last_word) in [
        ("/slow", "1.1", "late"),
        ("/slow", "1.0", "late"),
        ("/", "1.1", "hello"),
    ] {
        let mut server = serve(ConnectionLimits::default());
        let request = format!("GET {path} HTTP/{version}\r\nHost: h\r\nConnection: close\r\n\r\n");
        server.write(&request).await;
        server.client.shutdown().await.expect("half closed");
        let heard = server.read_to_end().await;
        let begins = heard.starts_with(&format!("HTTP/{version} 200 OK\r\n"));
        assert!(begins && heard.ends_with(last_word), "{heard}");
    }
    // The same for pipelined requests, and for HEAD.
    let mut server = serve(ConnectionLimits::default());
    let slow = "GET /slow HTTP/1.1\r\nHost: h\r\n\r\n";
    server
        .write(&[&slow.replace("GET", "HEAD"), slow].concat())
        .await;
    server.client.shutdown().await.expect("half closed");
    let heard = server.read_to_end().await;
    let count = heard.matches("HTTP/1.1 200 OK\r\n").count();
    assert!(count == 2 && heard.ends_with("late"), "{heard}");
}

#[tokio::test(start_paused = true)]
async fn client_that_closes_while_waiting_is_detected() {
    for version in ["1.1", "1.0"] {
        let mut server = serve(ConnectionLimits::default());
        let request = format!("GET /slow HTTP/{version}\r\nHost: h\r\n\r\n");
        server.write(&request).await;
        sleep(Duration::from_secs(1)).await;
        let begun = Instant::now();
        drop(server.client);
        assert_eq!(server.task.await.expect("ends"), ConnectionEnd::Closed);
        assert!(begun.elapsed() < Duration::from_secs(2), "{version}");
        assert_eq!(server.counters.counts().requests_active, 0);
    }
}

#[tokio::test(start_paused = true)]
async fn half_close_mid_reply_ends_it_unless_bytes_get_through() {
    let seconds = Duration::from_secs;
    let (mut client, task, _trigger) = serve_bodies(move || PausedBody::after(seconds(20)));
    client.write_all(HELLO.as_bytes()).await.expect("open");
    sleep(seconds(1)).await;
    let begun = Instant::now();
    client.shutdown().await.expect("half closed");
    assert_eq!(task.await.expect("ends"), ConnectionEnd::Closed);
    assert_eq!(begun.elapsed().as_secs(), 2);
    // Bytes that are sent within that time show whether the client still reads.
    let (mut client, _task, _trigger) = serve_bodies(move || PausedBody::after(seconds(2)));
    client.write_all(HELLO.as_bytes()).await.expect("open");
    sleep(seconds(1)).await;
    client.shutdown().await.expect("half closed");
    let mut heard = String::new();
    client.read_to_string(&mut heard).await.expect("an end");
    assert!(heard.ends_with("halfrest"), "{heard}");
    // A client that half-closes right after its request may still read: the next bytes will tell.
    let (mut client, _task, _trigger) = serve_bodies(move || PausedBody::after(seconds(20)));
    client.write_all(HELLO.as_bytes()).await.expect("open");
    client.shutdown().await.expect("half closed");
    let mut heard = String::new();
    client.read_to_string(&mut heard).await.expect("an end");
    assert!(heard.ends_with("halfrest"), "{heard}");
}

#[tokio::test(start_paused = true)]
async fn failing_body_aborts_reply() {
    let (mut client, task, _trigger) = serve_bodies(|| TruncatedBody(0));
    client.write_all(HELLO.as_bytes()).await.expect("open");
    let mut heard = String::new();
    client.read_to_string(&mut heard).await.expect("an end");
    assert!(heard.ends_with("half"), "{heard}");
    drop(client);
    assert_eq!(task.await.expect("ends"), ConnectionEnd::Closed);
}

#[tokio::test(start_paused = true)]
async fn retiring_server_closes_after_one_more_reply() {
    for has_asked_before in [true, false] {
        let mut server = serve(ConnectionLimits::default());
        if has_asked_before {
            server.write("GET / HTTP/1.1\r\nHost: x\r\n\r\n").await;
            let first = server.read_until("hello").await;
            assert!(
                !first.to_lowercase().contains("connection: close"),
                "{first}"
            );
        }
        server.trigger.retire();
        sleep(Duration::from_secs(1)).await;
        server.write("GET / HTTP/1.1\r\nHost: x\r\n\r\n").await;
        let last = server.read_to_end().await;
        assert!(last.to_lowercase().contains("connection: close"), "{last}");
        assert!(last.ends_with("hello"), "{last}");
        assert_eq!(server.task.await.expect("ended"), ConnectionEnd::Closed);
    }
}

#[tokio::test(start_paused = true)]
async fn idle_connection_ends_by_idle_timeout_after_takeover() {
    let mut server = serve(ConnectionLimits::default());
    server.write("GET / HTTP/1.1\r\nHost: x\r\n\r\n").await;
    server.read_until("hello").await;
    server.trigger.retire();
    assert_eq!(server.read_to_end().await, "");
    assert_eq!(
        server.task.await.expect("ended"),
        ConnectionEnd::IdleTimeout
    );
    assert_eq!(server.counters.counts().drain_aborts, 0);
}

#[tokio::test(start_paused = true)]
async fn pipelined_requests_yield_to_other_connections() {
    let (mut busy, mut other) = (
        serve(ConnectionLimits::default()),
        serve(ConnectionLimits::default()),
    );
    busy.write(&HELLO.repeat(30)).await;
    other.write(HELLO).await;
    other.read_until("hello").await;
    let mut heard = Vec::with_capacity(64 << 10);
    busy.client.read_buf(&mut heard).await.expect("open");
    let count = |heard: &[u8]| heard.windows(5).filter(|word| word == b"hello").count();
    assert!(
        count(&heard) < 5,
        "{} before the other's one",
        count(&heard)
    );
    while count(&heard) < 30 {
        busy.client.read_buf(&mut heard).await.expect("open");
    }
}
