use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

use super::*;
use crate::{ConnectionCounters, ConnectionLimits};

fn pair(
    pipe_bytes: usize,
) -> (
    TimedStream<DuplexStream>,
    DuplexStream,
    Arc<ConnectionCounters>,
) {
    let (server, client) = duplex(pipe_bytes);
    let counters = Arc::new(ConnectionCounters::default());
    let remote = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
    let limits = Arc::new(ConnectionLimits::default());
    let info = ConnectionInfo::new(0, remote.into(), limits, Arc::clone(&counters));
    (TimedStream::new(server, Arc::new(info)), client, counters)
}

#[tokio::test(start_paused = true)]
async fn stopped_reader_is_cut_after_send_timeout() {
    let (mut server, client, counters) = pair(1024);
    let begun = Instant::now();
    let error = server
        .write_all(&[0; 4096])
        .await
        .expect_err("the client does not read");
    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    assert_eq!(begun.elapsed().as_secs(), 30);
    assert_eq!(counters.counts().send_timeouts, 1);
    drop(client);
}

#[tokio::test(start_paused = true)]
async fn reader_of_one_byte_a_second_is_cut() {
    let (mut server, mut client, _) = pair(1024);
    let reader = tokio::spawn(async move {
        let mut byte = [0; 1];
        while let Ok(1) = client.read(&mut byte).await {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    });
    let error = server.write_all(&[0; 65_536]).await.expect_err("too slow");
    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    drop(server);
    reader.await.expect("the reader ends");
}

#[tokio::test(start_paused = true)]
async fn reader_just_above_minimum_is_served_to_the_end() {
    let (mut server, mut client, counters) = pair(4096);
    // 4 KiB a second is 120 KiB in 30 s; the minimum is 64 KiB.
    let reader = tokio::spawn(async move {
        let mut space = [0; 4096];
        let mut total = 0;
        while let Ok(count @ 1..) = client.read(&mut space).await {
            total += count;
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        total
    });
    server
        .write_all(&vec![7; 1 << 20])
        .await
        .expect("slow but steady");
    drop(server);
    assert_eq!(reader.await.expect("the reader ends"), 1 << 20);
    assert_eq!(counters.counts().send_timeouts, 0);
}

#[tokio::test(start_paused = true)]
async fn idle_time_between_writes_does_not_count() {
    let (mut server, mut client, _) = pair(1024);
    for _ in 0..10 {
        // The server waits five seconds for this reader each time, then has nothing to send.
        let reader = tokio::spawn(async move {
            tokio::time::sleep(Duration::from_secs(5)).await;
            let mut space = vec![0; 20_000];
            client.read_exact(&mut space).await.expect("all of it");
            client
        });
        server.write_all(&[1; 20_000]).await.expect("taken");
        client = reader.await.expect("the reader ends");
        tokio::time::sleep(Duration::from_secs(300)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn close_reads_until_client_has_finished_sending() {
    let (mut server, mut client, _) = pair(1024);
    let talker = tokio::spawn(async move {
        client
            .write_all(&[0; 50_000])
            .await
            .expect("the server reads it all");
        let mut words = String::new();
        client
            .read_to_string(&mut words)
            .await
            .expect("the reply arrives");
        words
    });
    server.write_all(b"431").await.expect("room");
    server.shutdown().await.expect("closed");
    drop(server);
    assert_eq!(talker.await.expect("the client ends"), "431");
}

#[tokio::test(start_paused = true)]
async fn close_waits_at_most_linger_time() {
    let (mut server, _client, _) = pair(1024);
    let begun = Instant::now();
    server.shutdown().await.expect("closed");
    assert_eq!(begun.elapsed(), LINGER);
}

#[tokio::test(start_paused = true)]
async fn shed_connection_closes_without_lingering() {
    let (mut server, mut client, _) = pair(1024);
    server.info.shed();
    let begun = Instant::now();
    server.shutdown().await.expect("closed");
    assert_eq!(begun.elapsed(), Duration::ZERO);
    assert_eq!(client.read(&mut [0; 8]).await.expect("an end"), 0);
}

/// A socket with a settable limit on unsent bytes and a settable count of unacknowledged ones.
struct FakeSocket(DuplexStream, Arc<(AtomicU32, AtomicU64)>);

impl AsyncRead for FakeSocket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buffer)
    }
}

impl AsyncWrite for FakeSocket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

impl ReplyStream for FakeSocket {
    fn unconfirmed_bytes(&self) -> Option<u64> {
        Some(self.1.1.load(Ordering::Relaxed))
    }

    fn unsent_bytes_max(&self) -> Option<u32> {
        Some(self.1.0.load(Ordering::Relaxed))
    }

    fn set_unsent_bytes_max(&self, bytes: u32) {
        self.1.0.store(bytes, Ordering::Relaxed);
    }
}

#[tokio::test(start_paused = true)]
async fn fast_reader_gets_larger_buffer_and_is_cut_when_stalled() {
    fast_then_slow(|socket| socket).await;
}

#[tokio::test(start_paused = true)]
async fn reader_behind_proxy_protocol_is_treated_alike() {
    fast_then_slow(proxy_header::io::ProxiedStream::unproxied).await;
}

async fn fast_then_slow<S>(wrap: impl Fn(FakeSocket) -> S)
where
    S: AsyncRead + ReplyStream + Unpin,
{
    const USUAL: u32 = 256 << 10;
    let (wire, mut client) = duplex(2 << 20);
    let state = Arc::new((AtomicU32::new(USUAL), AtomicU64::new(0)));
    let remote = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
    let counters = Arc::new(ConnectionCounters::default());
    let info = ConnectionInfo::new(0, remote.into(), Arc::default(), counters);
    let socket = wrap(FakeSocket(wire, Arc::clone(&state)));
    let mut server = TimedStream::new(socket, Arc::new(info));
    // No time passes, so the reader is fast.
    server.write_all(&vec![0; 2 << 20]).await.expect("room");
    assert_eq!(state.0.load(Ordering::Relaxed), FAST_UNSENT_BYTES);
    // The socket accepts nothing for two minutes, but the peer acknowledges bytes.
    state.1.store(2 << 20, Ordering::Relaxed);
    let begun = Instant::now();
    let reader = async {
        for _ in 0..6 {
            tokio::time::sleep(Duration::from_secs(20)).await;
            state.1.fetch_sub(64 << 10, Ordering::Relaxed);
        }
        let mut taken = vec![0; 1 << 20];
        client.read_exact(&mut taken).await.expect("comes");
    };
    let (written, ()) = tokio::join!(server.write_all(&[0; 1 << 20]), reader);
    written.expect("acknowledged bytes count as progress");
    assert_eq!(begun.elapsed().as_secs(), 120);
    assert_eq!(state.0.load(Ordering::Relaxed), USUAL, "it is slow now");
    state.0.store(FAST_UNSENT_BYTES, Ordering::Relaxed);
    let error = server.write_all(&[0; 8]).await.expect_err("nothing moves");
    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
}

/// Like a receiver whose buffer holds more than a minute of a film at a low bit rate.
#[tokio::test(start_paused = true)]
async fn slow_reader_is_measured_by_acknowledged_bytes() {
    let (wire, mut client) = duplex(100 << 10);
    let state = Arc::new((AtomicU32::new(0), AtomicU64::new(0)));
    let remote = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
    let counters = Arc::new(ConnectionCounters::default());
    let info = ConnectionInfo::new(0, remote.into(), Arc::default(), counters);
    let mut server = TimedStream::new(FakeSocket(wire, Arc::clone(&state)), Arc::new(info));
    server.write_all(&[0; 100 << 10]).await.expect("room");
    state.1.store(100 << 10, Ordering::Relaxed);
    let reader = async {
        for _ in 0..4 {
            tokio::time::sleep(Duration::from_secs(8)).await;
            state.1.fetch_sub(25 << 10, Ordering::Relaxed);
        }
        client.read_exact(&mut [0; 8]).await.expect("comes");
    };
    let (written, ()) = tokio::join!(server.write_all(&[0; 8]), reader);
    written.expect("75 KiB in 30 s are enough");
    let error = server.write_all(&[0; 8]).await.expect_err("nothing moves");
    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
}
