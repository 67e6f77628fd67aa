use std::net::{Ipv4Addr, SocketAddr};

use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

use super::*;
use crate::net::{ConnectionCounters, Limits};

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
    let limits = Arc::new(Limits::default());
    let info = ConnectionInfo::new(0, remote.into(), false, limits, Arc::clone(&counters));
    (TimedStream::new(server, Arc::new(info)), client, counters)
}

#[tokio::test(start_paused = true)]
async fn a_reader_who_stops_is_cut_off_after_the_send_timeout() {
    let (mut server, client, counters) = pair(1024);
    let begun = Instant::now();
    let error = server
        .write_all(&[0; 4096])
        .await
        .expect_err("nobody reads");
    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    assert_eq!(begun.elapsed().as_secs(), 30);
    assert_eq!(counters.counts().send_timeouts, 1);
    drop(client);
}

#[tokio::test(start_paused = true)]
async fn a_reader_of_one_byte_a_second_is_cut_off() {
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
async fn a_reader_just_above_the_minimum_is_served_to_the_end() {
    let (mut server, mut client, counters) = pair(4096);
    // 4 KiB a second is 120 KiB in 30 s, and the minimum is 64 KiB.
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
async fn time_between_writes_does_not_count_as_slowness() {
    let (mut server, mut client, _) = pair(1024);
    for _ in 0..10 {
        // The server waits five seconds for this reader each time, then has nothing to say.
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
async fn closing_reads_on_until_the_client_has_finished_talking() {
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
            .expect("the last words arrive");
        words
    });
    server.write_all(b"431").await.expect("room");
    server.shutdown().await.expect("closed");
    drop(server);
    assert_eq!(talker.await.expect("the client ends"), "431");
}

#[tokio::test(start_paused = true)]
async fn closing_does_not_wait_for_ever() {
    let (mut server, _client, _) = pair(1024);
    let begun = Instant::now();
    server.shutdown().await.expect("closed");
    assert_eq!(begun.elapsed(), LINGER);
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_makes_room_is_closed_without_waiting_for_its_client() {
    let (mut server, mut client, _) = pair(1024);
    server.info.shed();
    let begun = Instant::now();
    server.shutdown().await.expect("closed");
    assert_eq!(begun.elapsed(), Duration::ZERO);
    assert_eq!(client.read(&mut [0; 8]).await.expect("an end"), 0);
}
