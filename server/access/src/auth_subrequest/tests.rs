//! Subrequests against small servers: content, sharing, caching, timeouts.

use std::net::Ipv4Addr;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};

use super::*;

/// Answers each connection with the same text once `may` is true; records the requests.
struct FakeAuthServer {
    url: ServerUrl,
    requests: mpsc::UnboundedReceiver<String>,
    may: watch::Sender<bool>,
}

async fn answering(answer: &'static str, may: bool) -> FakeAuthServer {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .await
        .expect("a port");
    let address = listener.local_addr().expect("bound");
    let (tell, requests) = mpsc::unbounded_channel();
    let (may, allowed) = watch::channel(may);
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            let (tell, mut allowed) = (tell.clone(), allowed.clone());
            tokio::spawn(async move {
                let mut text = vec![0; 8192];
                let count = socket.read(&mut text).await.unwrap_or(0);
                let _ = tell.send(String::from_utf8_lossy(&text[..count]).to_lowercase());
                let _ = allowed.wait_for(|may| *may).await;
                let _ = socket.write_all(answer.as_bytes()).await;
            });
        }
    });
    let url = ServerUrl::parse(&format!("http://{address}/auth?x=1")).expect("right");
    FakeAuthServer { url, requests, may }
}

fn asked(url: &ServerUrl, keep: Duration, patience: Duration) -> AuthServer {
    AuthServer::new(AuthSubrequestConfig {
        url: url.clone(),
        fields: vec![http::header::COOKIE],
        by_uri: false,
        by_address: false,
        keep,
        patience,
    })
}

fn head(target: &str, cookie: &str) -> Parts {
    let request = Request::get(target)
        .header("Cookie", cookie)
        .header("X-Other", "y");
    request.body(()).expect("a request").into_parts().0
}

const LONG: Duration = Duration::from_secs(3600);
const FROM: Peer = Peer::At(SocketAddr::new(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 7)), 9));
/// Request id of each request.
const ID: RequestId = RequestId::own(42);
const YES: &str = "HTTP/1.1 204 No Content\r\n\r\n";

#[tokio::test]
async fn listed_fields_are_sent_and_answer_is_cached_by_key() {
    let mut server = answering(YES, true).await;
    let asked = asked(&server.url, LONG, LONG);
    let first = head("/films/a%20b.ts?token=1", "a=1");
    for target in [&first, &head("/films/c.ts", "a=1"), &first] {
        assert_eq!(asked.decide(target, FROM, &ID).await, AuthDecision::Allowed);
    }
    let sent = server.requests.recv().await.expect("one");
    for line in [
        "get /auth?x=1 http/1.1\r\n",
        "x-original-uri: /films/a%20b.ts?token=1\r\n",
        "x-original-method: get\r\n",
        "x-real-ip: 192.0.2.7\r\n",
        "cookie: a=1\r\n",
        "x-request-id: 000000000000002a\r\n",
    ] {
        assert!(sent.contains(line), "{line} in {sent}");
    }
    assert!(!sent.contains("x-other"), "{sent}");
    assert!(server.requests.try_recv().is_err(), "one was enough");
    assert_eq!(
        asked.decide(&head("/films/c.ts", "a=2"), FROM, &ID).await,
        AuthDecision::Allowed
    );
    assert!(
        server
            .requests
            .recv()
            .await
            .expect("another")
            .contains("cookie: a=2")
    );
}

#[tokio::test]
async fn host_is_sent_and_each_has_an_answer_of_its_own() {
    let mut server = answering(YES, true).await;
    let asked = asked(&server.url, LONG, LONG);
    let of_field = Request::get("/a").header("Host", "a.example:81").body(());
    let of_target = Request::get("https://b.example/a").body(());
    for (request, host) in [(of_field, "a.example:81"), (of_target, "b.example")] {
        let head = request.expect("a request").into_parts().0;
        assert_eq!(asked.decide(&head, FROM, &ID).await, AuthDecision::Allowed);
        let sent = server.requests.recv().await.expect("not from the cache");
        let line = format!("x-original-host: {host}\r\n");
        assert!(sent.contains(&line), "{line} in {sent}");
    }
}

#[tokio::test]
async fn concurrent_requests_with_same_key_share_subrequest() {
    let mut server = answering(YES, false).await;
    let asked = asked(&server.url, Duration::ZERO, LONG);
    let ask = || {
        let asked = asked.clone();
        tokio::spawn(async move { asked.decide(&head("/a", "a=1"), FROM, &ID).await })
    };
    let leaver = ask();
    server.requests.recv().await.expect("the first asks");
    let waiters: Vec<_> = (0..50).map(|_| ask()).collect();
    while Arc::strong_count(
        asked
            .0
            .answers
            .lock()
            .expect("whole")
            .values()
            .next()
            .expect("one"),
    ) < 52
    {
        tokio::task::yield_now().await;
    }
    // Cancelling one waiter does not affect the others.
    leaver.abort();
    server
        .requests
        .recv()
        .await
        .expect("another waiter runs the subrequest");
    server.may.send_replace(true);
    for waiter in waiters {
        assert_eq!(waiter.await.expect("answered"), AuthDecision::Allowed);
    }
    assert!(server.requests.try_recv().is_err(), "one request for all");
    asked.decide(&head("/a", "a=1"), FROM, &ID).await;
    server
        .requests
        .recv()
        .await
        .expect("a lifetime of zero caches nothing");
}

#[tokio::test]
async fn status_is_answer_or_failure_and_failures_are_not_cached() {
    let challenge = "HTTP/1.1 401 X\r\nWWW-Authenticate: Basic realm=\"tv\"\r\n\r\n";
    let challenged = AuthDecision::Unauthorized("Basic realm=\"tv\"".to_owned());
    let found = AuthDecision::Unfit(StatusCode::FOUND);
    for (text, answer, requests) in [
        (challenge, challenged, 1),
        ("HTTP/1.1 401 X\r\n\r\n", AuthDecision::Forbidden, 1),
        ("HTTP/1.1 403 X\r\n\r\n", AuthDecision::Forbidden, 1),
        ("HTTP/1.1 302 X\r\n\r\n", found, 2),
        (
            "hello\r\n\r\n",
            AuthDecision::None("invalid HTTP response"),
            2,
        ),
        ("", AuthDecision::None("invalid HTTP response"), 2),
    ] {
        let mut server = answering(text, true).await;
        let asked = asked(&server.url, LONG, LONG);
        for _ in 0..2 {
            let said = asked.decide(&head("/a", "a"), FROM, &ID).await;
            let is_same = said == answer || (answer.is_failure() && said.is_failure());
            assert!(is_same, "{text}: {said:?}");
        }
        let mut count = 0;
        while server.requests.try_recv().is_ok() {
            count += 1;
        }
        assert_eq!(count, requests, "{text}");
    }
}

#[tokio::test]
async fn hanging_or_missing_server_gets_failure_within_timeout() {
    let server = answering(YES, false).await;
    let hung = asked(&server.url, LONG, Duration::from_millis(50));
    let said = hung.decide(&head("/a", "a"), FROM, &ID).await;
    assert_eq!(said, AuthDecision::None("no answer within the timeout"));
    let nobody = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .await
        .expect("a port");
    let address = nobody.local_addr().expect("bound");
    drop(nobody);
    let url = ServerUrl::parse(&format!("http://{address}/")).expect("right");
    let said = asked(&url, LONG, LONG)
        .decide(&head("/a", "a"), FROM, &ID)
        .await;
    assert_eq!(said, AuthDecision::None("cannot connect"));
}

#[test]
fn keys_distinguish_inputs_and_cached_answers_are_bounded() {
    let url = ServerUrl::parse("http://[::1]:9000").expect("right");
    let asking = |by_uri, by_address| AuthSubrequestConfig {
        by_uri,
        by_address,
        ..asked(&url, LONG, LONG).0.asking.clone()
    };
    let other = Peer::Local;
    let key = |asking: &AuthSubrequestConfig, target, cookie, from| {
        asking.key(&head(target, cookie), from)
    };
    let all = asking(true, true);
    let keys = [
        key(&all, "/a", "a", FROM),
        key(&all, "/b", "a", FROM),
        key(&all, "/a", "b", FROM),
        key(&all, "/a", "a", other),
    ];
    assert!((1..4).all(|at| keys[at] != keys[0]));
    let none = asking(false, false);
    assert_eq!(key(&none, "/a", "a", FROM), key(&none, "/b", "a", other));
    let server = asked(&url, LONG, LONG);
    let held: Vec<DecisionSlot> = (0..ANSWERS_MAX as u64 + 10)
        .map(|n| {
            let mut key = DecisionKey::default();
            key[..8].copy_from_slice(&n.to_le_bytes());
            server.0.place(key)
        })
        .collect();
    assert_eq!(server.0.answers.lock().expect("whole").len(), ANSWERS_MAX);
    drop(held);
    server.0.place([255; 32]);
    assert_eq!(server.0.answers.lock().expect("whole").len(), 1);
}

#[test]
fn server_url_requires_numeric_address() {
    for right in [
        "http://127.0.0.1:9000/auth",
        "http://[::1]/x",
        "http://localhost:9000",
    ] {
        assert!(ServerUrl::parse(right).is_ok(), "{right}");
    }
    for wrong in [
        "https://127.0.0.1/",
        "http://auth.example/",
        "127.0.0.1:9000",
        "/auth",
        "http://u@127.0.0.1/",
    ] {
        assert!(ServerUrl::parse(wrong).is_err(), "{wrong}");
    }
}
