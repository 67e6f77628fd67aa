use std::convert::Infallible;
use std::net::SocketAddr;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::service::service_fn;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinHandle;
use tokio::time::{advance, timeout};

use super::*;
use crate::context::RegistryEntry;
use crate::{AddressShare, ConnectionCounters, ConnectionLimits, TcpOptions, TrustedProxies};
use crate::{ConnectionInfo, ShutdownTrigger, bind_local, shutdown};
use crate::{NoBody, WithoutHeadCache};

const HELLO: &[u8] = b"GET / HTTP/1.1\r\nHost: h\r\n\r\n";

struct AcceptServer {
    address: SocketAddr,
    task: JoinHandle<()>,
    trigger: ShutdownTrigger,
    counters: Arc<ConnectionCounters>,
}

async fn answer(request: Request<NoBody>) -> Result<Response<Full<Bytes>>, Infallible> {
    let info = request
        .extensions()
        .get::<Arc<ConnectionInfo>>()
        .expect("given");
    let text = format!("request {}", info.request_count());
    Ok(Response::new(Full::new(Bytes::from(text))))
}

fn serve(limits: ConnectionLimits) -> AcceptServer {
    let (listener, address) = bind_local();
    let counters = Arc::new(ConnectionCounters::default());
    let context = ListenerContext::new(limits, TcpOptions::default(), Arc::clone(&counters));
    let (trigger, signal) = shutdown();
    let service = WithoutHeadCache(service_fn(answer));
    let task = tokio::spawn(serve_listener(listener, None, service, context, signal));
    AcceptServer {
        address,
        task,
        trigger,
        counters,
    }
}

async fn exchange(address: SocketAddr, request: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).await.expect("accepted");
    stream.write_all(request).await.expect("taken");
    let mut heard = String::new();
    stream
        .read_to_string(&mut heard)
        .await
        .expect("a close without a reset");
    heard
}

#[tokio::test]
async fn head_of_64_kib_gets_431_without_reset() {
    let server = serve(ConnectionLimits::default());
    let one_long = format!(
        "GET / HTTP/1.1\r\nHost: h\r\nX: {}\r\n\r\n",
        "a".repeat(65_536)
    );
    let many_short = format!(
        "GET / HTTP/1.1\r\nHost: h\r\n{}\r\n",
        "X: y\r\n".repeat(101)
    );
    for request in [one_long, many_short] {
        let reply = exchange(server.address, request.as_bytes()).await;
        assert!(reply.starts_with("HTTP/1.1 431 "), "{reply}");
    }
    let counts = server.counters.counts();
    assert_eq!(
        counts.heads_refused, 2,
        "counted, because they are not logged"
    );
}

#[tokio::test]
async fn head_just_below_limit_is_served() {
    let server = serve(ConnectionLimits::default());
    let filler = "a".repeat(15_000);
    let request = format!("GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\nX: {filler}\r\n\r\n");
    let reply = exchange(server.address, request.as_bytes()).await;
    assert!(
        reply.starts_with("HTTP/1.1 200 ") && reply.ends_with("request 1"),
        "{reply}"
    );
}

#[tokio::test]
async fn connection_beyond_limit_waits_for_slot() {
    let limits = ConnectionLimits {
        connections_max: 1,
        ..ConnectionLimits::default()
    };
    let server = serve(limits);
    let mut first = TcpStream::connect(server.address).await.expect("accepted");
    // This connection is busy: its request has begun.
    first.write_all(b"GET / HTTP/1.1\r\n").await.expect("taken");
    let closing = b"GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
    let second = tokio::spawn(exchange(server.address, closing));
    let waits = async {
        while server.counters.counts().limit_waits == 0 {
            tokio::task::yield_now().await;
        }
    };
    timeout(Duration::from_secs(10), waits)
        .await
        .expect("the limit is counted");
    assert_eq!(server.counters.counts().open, 1);
    assert!(!second.is_finished());
    drop(first);
    assert!(second.await.expect("served").starts_with("HTTP/1.1 200 "));
}

#[tokio::test]
async fn connection_at_limit_closes_oldest_idle_one() {
    let limits = ConnectionLimits {
        connections_max: 2,
        ..ConnectionLimits::default()
    };
    let server = serve(limits);
    let mut idle = Vec::new();
    for _ in 0..2 {
        let mut stream = TcpStream::connect(server.address).await.expect("accepted");
        stream.write_all(HELLO).await.expect("taken");
        let mut heard = [0; 256];
        assert!(stream.read(&mut heard).await.expect("served") > 0);
        idle.push(stream);
    }
    let closing = b"GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
    // Long before the idle timeout of either connection.
    let third = timeout(Duration::from_secs(30), exchange(server.address, closing));
    let heard = third.await.expect("a slot is free");
    assert!(heard.starts_with("HTTP/1.1 200 "), "{heard}");
    let mut rest = Vec::new();
    idle[0].read_to_end(&mut rest).await.expect("closed");
    assert_eq!(server.counters.counts().idle_timeouts, 1);
    idle[1].write_all(HELLO).await.expect("open");
    let mut heard = [0; 256];
    assert!(idle[1].read(&mut heard).await.expect("served") > 0);
}

#[tokio::test]
async fn address_with_most_connections_loses_its_idle_ones_first() {
    let limits = ConnectionLimits {
        connections_max: 4,
        ..ConnectionLimits::default()
    };
    let server = serve(limits);
    let open = async |source: &str| {
        let socket = TcpSocket::new_v4().expect("a socket");
        let source = format!("{source}:0").parse().expect("an address");
        socket.bind(source).expect("bound");
        let mut stream = socket.connect(server.address).await.expect("accepted");
        stream.write_all(HELLO).await.expect("taken");
        let mut heard = [0; 256];
        assert!(stream.read(&mut heard).await.expect("served") > 0);
        stream
    };
    let mut viewer = open("127.0.0.2").await;
    let mut flood = Vec::new();
    for _ in 0..10 {
        flood.push(open("127.0.0.3").await);
    }
    assert!(server.counters.counts().idle_timeouts >= 7);
    viewer.write_all(HELLO).await.expect("open");
    assert!(viewer.read(&mut [0; 256]).await.expect("served") > 0);
}

/// An idle connection that does not close when it is asked to, as a client may with HTTP/2.
type StubbornConnection = (Option<AddressShare>, Arc<ConnectionInfo>, RegistryEntry);

fn open_stubborn(context: &ListenerContext) -> Option<StubbornConnection> {
    let remote = remote("192.0.2.1:1");
    let share = context.hold(remote)?;
    let (limits, counters) = (Arc::clone(&context.limits), Arc::clone(&context.counters));
    let info = ConnectionInfo::new(context.open.number(), remote, limits, counters);
    let info = Arc::new(info);
    let entry = context.open.add(&info);
    Some((share, info, entry))
}

fn stubborn_context(connections_max: usize) -> ListenerContext {
    let limits = ConnectionLimits {
        connections_max,
        ..ConnectionLimits::default()
    };
    ListenerContext::new(limits, TcpOptions::default(), Arc::default())
}

fn shed_count(open: &[StubbornConnection]) -> usize {
    open.iter().filter(|(_, info, _)| info.is_shed()).count()
}

#[tokio::test(start_paused = true)]
async fn connection_beyond_fair_share_needs_one_that_closes() {
    let context = stubborn_context(16);
    let open: Vec<_> = (0..20).map_while(|_| open_stubborn(&context)).collect();
    // Seven eighths, and two in the places of those that are closing.
    assert_eq!((open.len(), shed_count(&open)), (16, 2));
    advance(Duration::from_secs(1)).await;
    assert!(open_stubborn(&context).is_none(), "it still has not closed");
    drop(open);
    assert!(open_stubborn(&context).is_some());
}

#[tokio::test(start_paused = true)]
async fn connections_are_scanned_again_only_after_a_rest() {
    let context = stubborn_context(400);
    let mut open: Vec<_> = (0..320).map_while(|_| open_stubborn(&context)).collect();
    assert_eq!(context.shed_idle(), None);
    assert_eq!(shed_count(&open), 5);
    open.retain(|(_, info, _)| !info.is_shed());
    let next = context.shed_idle().expect("a rest");
    assert_eq!(shed_count(&open), 0);
    advance(next - Instant::now()).await;
    assert_eq!(context.shed_idle(), None);
    assert_eq!(shed_count(&open), 5);
}

#[tokio::test]
async fn drained_listener_refuses_connections_and_returns() {
    let server = serve(ConnectionLimits::default());
    server.trigger.drain();
    server.task.await.expect("returns");
    TcpStream::connect(server.address)
        .await
        .expect_err("the listener is closed");
}

#[tokio::test]
async fn proxy_listener_requires_proxy_header() {
    let (listener, address) = bind_local();
    let counters = Arc::new(ConnectionCounters::default());
    let limits = ConnectionLimits::default();
    let mut context = ListenerContext::new(limits, TcpOptions::default(), Arc::clone(&counters));
    context.proxies = Some(TrustedProxies::new(|ip| ip.is_loopback()));
    let (_trigger, signal) = shutdown();
    let service = service_fn(|request: Request<NoBody>| async move {
        let info = request.extensions().get::<Arc<ConnectionInfo>>();
        let text = info.expect("given").remote().address.to_string();
        Ok::<_, Infallible>(Response::new(Full::new(Bytes::from(text))))
    });
    let service = WithoutHeadCache(service);
    tokio::spawn(serve_listener(listener, None, service, context, signal));
    let request = "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
    let header = "PROXY TCP4 192.0.2.7 10.0.0.9 4711 80\r\n";
    let reply = exchange(address, format!("{header}{request}").as_bytes()).await;
    assert!(reply.ends_with("\r\n\r\n192.0.2.7:4711"), "{reply}");

    let mut stream = TcpStream::connect(address).await.expect("accepted");
    stream.write_all(request.as_bytes()).await.expect("taken");
    let mut heard = Vec::new();
    // The server closes with unread bytes, which may arrive as a reset.
    let _ = stream.read_to_end(&mut heard).await;
    assert!(heard.is_empty(), "{heard:?}");
    assert_eq!(counters.counts().proxy_refusals, 1);
}

#[tokio::test]
async fn address_at_its_limit_is_refused_until_one_connection_ends() {
    let limits = ConnectionLimits {
        connections_per_address_max: 2,
        ..ConnectionLimits::default()
    };
    let server = serve(limits);
    let closing = b"GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
    let begin = || async {
        let mut stream = TcpStream::connect(server.address).await.expect("accepted");
        stream
            .write_all(b"GET / HTTP/1.1\r\n")
            .await
            .expect("taken");
        stream
    };
    let held = (begin().await, begin().await);
    let both = async {
        while server.counters.counts().open < 2 {
            tokio::task::yield_now().await;
        }
    };
    let within = Duration::from_secs(10);
    timeout(within, both).await.expect("both are open");
    let mut third = TcpStream::connect(server.address).await.expect("accepted");
    // The connection ends without a reply, by FIN or by RST.
    let heard = third.read(&mut [0]).await;
    assert!(!matches!(heard, Ok(1..)), "{heard:?}");
    assert_eq!(server.counters.counts().address_refusals, 1);
    drop(held);
    let ended = async {
        while server.counters.counts().open > 0 {
            tokio::task::yield_now().await;
        }
    };
    timeout(within, ended).await.expect("both end");
    let reply = exchange(server.address, closing).await;
    assert!(reply.starts_with("HTTP/1.1 200 "), "{reply}");
}

#[tokio::test]
async fn trusted_proxy_is_exempt_from_address_limit() {
    let limits = ConnectionLimits {
        connections_per_address_max: 1,
        ..ConnectionLimits::default()
    };
    let counters = Arc::new(ConnectionCounters::default());
    let mut context = ListenerContext::new(limits, TcpOptions::default(), Arc::clone(&counters));
    let _held = context.hold(remote("127.0.0.1:1")).expect("the first");
    assert!(context.hold(remote("127.0.0.1:2")).is_none());
    context.exempt = Some(TrustedProxies::new(|ip| ip.is_loopback()));
    assert!(matches!(context.hold(remote("127.0.0.1:2")), Some(None)));
    // A client that a proxy names by the PROXY protocol is counted.
    let _client = context.hold(remote("192.0.2.1:1")).expect("the first");
    assert!(context.hold(remote("192.0.2.1:2")).is_none());
    assert_eq!(counters.counts().address_refusals, 2);
}

fn remote(text: &str) -> crate::Remote {
    crate::Remote::from(text.parse::<SocketAddr>().expect("an address"))
}
