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

#[tokio::test]
async fn address_that_floods_again_and_again_is_refused() {
    let server = serve(ConnectionLimits::default());
    let mut flood = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0".to_vec();
    // More PRIORITY frames than a connection may send without a request.
    let priority = b"\0\0\x05\x02\0\0\0\0\x01\0\0\0\0\0";
    flood.extend(std::iter::repeat_n(priority, 10_000).flatten());
    let address = server.address;
    let mut kept = TcpStream::connect(address).await.expect("accepted");
    kept.write_all(HELLO).await.expect("taken");
    assert!(kept.read(&mut [0; 256]).await.expect("served") > 0);
    let send = |flood: Vec<u8>| async move {
        let mut stream = TcpStream::connect(address).await.expect("accepted");
        // The server closes it before it has read everything.
        let _ = stream.write_all(&flood).await;
        let _ = stream.read_to_end(&mut Vec::new()).await;
    };
    let floods: JoinSet<()> = (0..30).map(|_| send(flood.clone())).collect();
    floods.join_all().await;
    send(HELLO.to_vec()).await;
    assert!(server.counters.counts().address_refusals > 0);
    kept.write_all(HELLO).await.expect("open");
    assert!(kept.read(&mut [0; 256]).await.expect("served") > 0);
}

/// An idle connection that does not close when it is asked to, as a client may with HTTP/2.
type StubbornConnection = (Option<AddressShare>, Arc<ConnectionInfo>, RegistryEntry);

fn open_stubborn(context: &ListenerContext) -> Option<StubbornConnection> {
    open_stubborn_from(context, "192.0.2.1:1")
}

fn open_stubborn_from(context: &ListenerContext, address: &str) -> Option<StubbornConnection> {
    let remote = remote(address);
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
async fn ipv6_site_loses_idle_connections_first() {
    let context = stubborn_context(64);
    let others: Vec<_> = (1..=4)
        .map_while(|last| open_stubborn_from(&context, &format!("192.0.2.{last}:1")))
        .collect();
    let open = |network: usize| {
        let address = format!("[2001:db8:1:{network:x}::1]:1");
        open_stubborn_from(&context, &address)
    };
    let flood: Vec<_> = (0..100).map_while(open).collect();
    // Seven eighths, and seven in the places of those that are closing.
    assert_eq!((flood.len(), shed_count(&flood)), (63, 7));
    drop(flood);
    let flood: Vec<_> = (0..56).map_while(open).collect();
    advance(Duration::from_secs(1)).await;
    assert_eq!(context.shed_idle(), None);
    assert_eq!((shed_count(&flood), shed_count(&others)), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn address_at_its_maximum_closes_no_idle_ones_of_its_site() {
    let limits = ConnectionLimits {
        connections_max: 16,
        connections_per_address_max: 4,
        ..ConnectionLimits::default()
    };
    let context = ListenerContext::new(limits, TcpOptions::default(), Arc::default());
    let open = |network: usize| {
        let address = format!("[2001:db8:1:{network:x}::1]:1");
        open_stubborn_from(&context, &address)
    };
    // Three addresses at their maximum, and the site with seven eighths of all.
    let site: Vec<_> = (0..14).map_while(|number| open(number / 4)).collect();
    assert_eq!((site.len(), shed_count(&site)), (14, 0));
    assert!(open(0).is_none());
    assert_eq!(shed_count(&site), 0, "no place for it");
    assert!(open(3).is_some());
    assert_eq!((shed_count(&site[..12]), shed_count(&site[12..])), (0, 2));
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
async fn address_at_its_share_closes_no_idle_ones_of_others() {
    let limits = ConnectionLimits {
        connections_max: 16,
        ..ConnectionLimits::default()
    };
    let server = serve(limits);
    let address = server.address;
    let begin = |from: &'static str, said: &'static [u8]| async move {
        let socket = TcpSocket::new_v4().expect("a socket");
        socket
            .bind(from.parse().expect("an address"))
            .expect("bound");
        let mut stream = socket.connect(address).await.expect("accepted");
        // One that is refused may be closed already.
        let _ = stream.write_all(said).await;
        stream
    };
    let mut others = Vec::new();
    for _ in 0..2 {
        let mut stream = begin("127.0.0.1:0", HELLO).await;
        let count = stream.read(&mut [0; 512]).await.expect("a reply");
        assert!(count > 0);
        others.push(stream);
    }
    // All at once, so that many are accepted before the first one is served.
    let mut held = JoinSet::new();
    for _ in 0..40 {
        held.spawn(begin("127.0.0.2:0", b"GET / HTTP/1.1\r\n"));
    }
    let _held = held.join_all().await;
    let all = async {
        while server.counters.counts().open < 16 {
            tokio::task::yield_now().await;
        }
    };
    timeout(Duration::from_secs(10), all)
        .await
        .expect("all are open");
    let mut further = begin("127.0.0.2:0", HELLO).await;
    let heard = further.read(&mut [0]).await;
    assert!(!matches!(heard, Ok(1..)), "{heard:?}");
    let counts = server.counters.counts();
    assert_eq!((counts.address_refusals, counts.limit_waits), (27, 0));
    for stream in &mut others {
        stream.write_all(HELLO).await.expect("taken");
        let count = stream.read(&mut [0; 512]).await.expect("a reply");
        assert!(count > 0, "an idle connection was closed");
    }
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
