//! An edge in front of a bucket that is hostile or ill: no wrong byte reaches a viewer, every
//! request ends, memory stays small, and a bucket that recovers is served.

use std::io::Write as _;
use std::net::TcpStream;
use std::path::Path;
use std::time::{Duration, Instant};

use headlong_e2e_tests::edge::{assert_right, range, right_range, settle};
use headlong_e2e_tests::eventually;
use headlong_e2e_tests::hostile_bucket::{Act, HostileBucket, Question, SIZE, send, well};
use headlong_testkit::Scratch;
use headlong_testkit::client::{ClientError, Response};
use headlong_testkit::server::{Server, ServerBuilder};

const MIB: u64 = 1 << 20;
const SECRET: &str = "abcd/efgh+ijklmnopqrstuvwxyz0123456789ABCD";
/// Ends a request that hangs. The edge's own limits are shorter.
const PATIENCE: Duration = Duration::from_secs(30);
/// Growth of an edge that keeps a few slices of 64 KiB, and not what a bucket sends beyond them.
const GROWTH_BYTES_MAX: u64 = 48 * MIB;

/// Correct metadata, so that the edge requests slices; then this response.
fn after_head(
    asked: &Question,
    stream: &mut TcpStream,
    then: impl FnOnce(&mut TcpStream, String, Vec<u8>) -> std::io::Result<()>,
) -> std::io::Result<bool> {
    if asked.is_head {
        return well(asked, stream);
    }
    let (head, body) = asked.right("first");
    then(stream, head, body)?;
    Ok(false)
}

/// Sends this until the edge closes the connection.
fn without_end(stream: &mut TcpStream, bytes: &[u8]) -> std::io::Result<()> {
    loop {
        stream.write_all(bytes)?;
    }
}

/// Sends this, one byte at a time, until the edge closes the connection.
fn drip(stream: &mut TcpStream, bytes: &[u8]) -> std::io::Result<()> {
    for byte in bytes {
        stream.write_all(&[*byte])?;
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

fn error(status: &str, more: &str, stream: &mut TcpStream, body: &[u8]) -> std::io::Result<bool> {
    let length = body.len();
    let head = format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\n{more}\r\n");
    stream.write_all(&[head.as_bytes(), body].concat())?;
    Ok(false)
}

/// Entities that expand to 10^9 characters.
fn bomb() -> String {
    let mut text = "<?xml version=\"1.0\"?><!DOCTYPE e [<!ENTITY a0 \"ha\">".to_owned();
    for n in 1..10 {
        let inner = format!("&a{};", n - 1).repeat(10);
        text += &format!("<!ENTITY a{n} \"{inner}\">");
    }
    text + "]><Error><Code>&a9;</Code></Error>"
}

/// The replies that viewers may get.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    /// An error, or a reply that is cut off.
    Fails,
    /// The fault does not touch the title's bytes: also the whole range.
    MayServe,
}

const ACTS: &[(&str, Outcome, Act)] = &[
    (
        "more bytes than it says",
        Outcome::MayServe,
        |asked, stream| {
            after_head(asked, stream, |stream, head, body| {
                let more = [&body[..], &[b'x'; 5_000]].concat();
                send(stream, asked, &head, &more)
            })
        },
    ),
    (
        "a second response behind the first",
        Outcome::MayServe,
        |asked, stream| {
            let (head, body) = asked.right("first");
            send(stream, asked, &head, &body)?;
            // It claims to be the next slice, of another version.
            let first = asked.range.map_or(0, |(_, last)| last + 1);
            let last = (first + 65_535).min(SIZE - 1);
            let length = (last + 1).saturating_sub(first);
            let head = format!(
                "HTTP/1.1 206 Partial Content\r\nETag: \"second\"\r\nContent-Length: {length}\r\n\
             Content-Range: bytes {first}-{last}/{SIZE}\r\n\r\n"
            );
            stream.write_all(&[head.as_bytes(), &vec![b'x'; length as usize]].concat())?;
            Ok(true)
        },
    ),
    ("a body without end", Outcome::Fails, |asked, stream| {
        after_head(asked, stream, |stream, head, _| {
            let head = without_length(&head) + "Transfer-Encoding: chunked\r\n";
            send(stream, asked, &head, b"")?;
            without_end(
                stream,
                &[b"8000\r\n", &[b'x'; 0x8000][..], b"\r\n"].concat(),
            )
        })
    }),
    (
        "a body without length or end",
        Outcome::Fails,
        |asked, stream| {
            after_head(asked, stream, |stream, head, _| {
                send(stream, asked, &without_length(&head), b"")?;
                without_end(stream, &[b'x'; 0x8000])
            })
        },
    ),
    (
        "a chunk's extension without end",
        Outcome::Fails,
        |asked, stream| {
            after_head(asked, stream, |stream, head, _| {
                let head = without_length(&head) + "Transfer-Encoding: chunked\r\n";
                send(stream, asked, &head, b"8000;")?;
                without_end(stream, &[b'x'; 0x8000])
            })
        },
    ),
    (
        "trailers without end",
        Outcome::MayServe,
        |asked, stream| {
            after_head(asked, stream, |stream, head, body| {
                let head = without_length(&head) + "Transfer-Encoding: chunked\r\n";
                let chunk = format!("{:x}\r\n", body.len());
                let chunk = [chunk.as_bytes(), &body, b"\r\n0\r\n"].concat();
                send(stream, asked, &head, &chunk)?;
                without_end(stream, &b"x-more: and more\r\n".repeat(1000))
            })
        },
    ),
    (
        "interim responses without end",
        Outcome::Fails,
        |_, stream| {
            without_end(
                stream,
                &b"HTTP/1.1 103 Early Hints\r\nlink: <x>\r\n\r\n".repeat(100),
            )?;
            Ok(false)
        },
    ),
    ("a head that drips", Outcome::Fails, |asked, stream| {
        let (head, body) = asked.right("first");
        drip(stream, &[head.as_bytes(), b"\r\n", &body].concat())?;
        Ok(false)
    }),
    ("a body that drips", Outcome::Fails, |asked, stream| {
        after_head(asked, stream, |stream, head, body| {
            send(stream, asked, &head, &body[..1_000])?;
            drip(stream, &body[1_000..])
        })
    }),
    ("another tag each time", Outcome::Fails, |asked, stream| {
        let (head, body) = asked.right(&format!("tag-{}", asked.number));
        send(stream, asked, &head, &body)?;
        Ok(true)
    }),
    (
        "another tag and other bytes midway",
        Outcome::Fails,
        |asked, stream| {
            let is_new = asked.range.is_some_and(|(first, _)| first > 0);
            let asked = Question {
                title: asked.title + u64::from(is_new) * 1_000,
                ..*asked
            };
            let (head, body) = asked.right(if is_new { "second" } else { "first" });
            send(stream, &asked, &head, &body)?;
            Ok(true)
        },
    ),
    (
        "a tag of 60,000 bytes",
        Outcome::MayServe,
        |asked, stream| {
            let (head, body) = asked.right(&"t".repeat(60_000));
            send(stream, asked, &head, &body)?;
            Ok(true)
        },
    ),
    ("a length of 2^62", Outcome::Fails, |asked, stream| {
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n", 1u64 << 62);
        send(stream, asked, &head, b"x")?;
        Ok(asked.is_head)
    }),
    (
        "a length beyond 64 bits",
        Outcome::Fails,
        |asked, stream| {
            let head = "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999999\r\n";
            send(stream, asked, head, b"x")?;
            Ok(asked.is_head)
        },
    ),
    ("two lengths", Outcome::Fails, |asked, stream| {
        after_head(asked, stream, |stream, head, body| {
            send(stream, asked, &(head + "Content-Length: 7\r\n"), &body)
        })
    }),
    ("an encoded body", Outcome::Fails, |asked, stream| {
        after_head(asked, stream, |stream, head, body| {
            send(stream, asked, &(head + "Content-Encoding: gzip\r\n"), &body)
        })
    }),
    (
        "parts of several ranges",
        Outcome::Fails,
        |asked, stream| {
            after_head(asked, stream, |stream, _, body| {
                let length = body.len();
                let head = format!(
                    "HTTP/1.1 206 Partial Content\r\nETag: \"first\"\r\n\
                     Content-Length: {length}\r\n\
                     Content-Type: multipart/byteranges; boundary=x\r\n"
                );
                send(stream, asked, &head, &body)
            })
        },
    ),
    (
        "500 for slices",
        Outcome::Fails,
        |asked, stream| match asked.is_head {
            true => well(asked, stream),
            false => error("500 Internal Server Error", "", stream, bomb().as_bytes()),
        },
    ),
    ("503 SlowDown", Outcome::Fails, |_, stream| {
        error("503 Slow Down", "Retry-After: 4000000000\r\n", stream, b"")
    }),
    (
        "403 with a false clock and an XML bomb",
        Outcome::Fails,
        |asked, stream| {
            let more = "Date: Fri, 31 Dec 9999 23:59:59 GMT\r\n";
            let body = if asked.is_head { String::new() } else { bomb() };
            error("403 Forbidden", more, stream, body.as_bytes())
        },
    ),
    (
        "an error document without end",
        Outcome::Fails,
        |asked, stream| {
            if asked.is_head {
                return well(asked, stream);
            }
            let head = "HTTP/1.1 403 Forbidden\r\nTransfer-Encoding: chunked\r\n";
            send(stream, asked, head, b"")?;
            without_end(stream, b"7\r\n<Error>\r\n")?;
            Ok(false)
        },
    ),
    ("301 to another region", Outcome::Fails, |_, stream| {
        let more = "x-amz-bucket-region: eu-test-2\r\n\
                    Location: http://169.254.169.254/latest/meta-data\r\n";
        error("301 Moved Permanently", more, stream, b"")
    }),
    ("307 to itself", Outcome::Fails, |asked, stream| {
        let more = format!("Location: /o/{}\r\n", asked.title);
        error("307 Temporary Redirect", &more, stream, b"")
    }),
];

fn without_length(head: &str) -> String {
    let lines = head.split_inclusive("\r\n");
    lines
        .filter(|line| !line.starts_with("Content-Length"))
        .collect()
}

fn edge(bucket: &HostileBucket, folder: &Path) -> Server {
    let keys = folder.join("keys");
    let text = format!("aws_access_key_id = AKIA1\naws_secret_access_key = {SECRET}\n");
    std::fs::write(&keys, text).expect("written");
    use std::os::unix::fs::PermissionsExt as _;
    let rights = std::fs::Permissions::from_mode(0o600);
    std::fs::set_permissions(&keys, rights).expect("set");
    let config = format!(
        "[pull.\"/vod/\"]\norigin = \"http://{}/o/\"\nfolder = {folder:?}\n\
         slice_bytes = \"64KiB\"\nahead_bytes = \"0B\"\nfree_bytes_min = \"0B\"\n\
         fresh = \"0s\"\nstale_max = \"0s\"\nnegative = \"0s\"\nidle_timeout = \"40ms\"\n\
         s3_region = \"eu-test-1\"\ns3_keys = {keys:?}\n",
        bucket.address
    );
    ServerBuilder::without_roots().config(&config).start()
}

/// The edge serves this title, at once or soon.
fn serves(server: &Server, title: u64, what: &str) {
    let ask = || range(server, &format!("/vod/{title}"), 0, SIZE);
    let is_well = |reply: &Result<Response, ClientError>| {
        reply.as_ref().is_ok_and(|reply| reply.status() == 206)
    };
    let reply = eventually(what, ask, is_well).expect("a reply");
    assert_right(&reply, title, 0, SIZE);
}

#[test]
fn hostile_bucket_causes_no_wrong_byte_growth_or_hang() {
    let cache = Scratch::new("s3-faults").expect("a folder");
    let bucket = HostileBucket::start();
    let server = edge(&bucket, cache.path());
    let before = server.memory().expect("/proc").resident_bytes;
    for (title, (what, outcome, act)) in (1..).zip(ACTS) {
        let path = format!("/vod/{title}");
        bucket.be(*act);
        let (begun, asked) = (Instant::now(), bucket.asked());
        let reply = range(&server, &path, 0, SIZE);
        let took = begun.elapsed();
        eprintln!(
            "{what}: {:?} after {took:?}",
            reply.as_ref().map(Response::status)
        );
        assert!(took < PATIENCE, "{what}: {took:?}");
        assert!(bucket.asked() > asked, "{what}: the bucket was not asked");
        match &reply {
            Ok(reply) if reply.status() == 206 => {
                assert_eq!(*outcome, Outcome::MayServe, "{what}");
                assert_right(reply, title, 0, SIZE);
            }
            Ok(reply) => assert!(
                [502, 503, 504].contains(&reply.status()),
                "{what}: {}",
                reply.status()
            ),
            Err(error) => assert!(error.is_cut(), "{what}: {error}"),
        }
        bucket.be(well);
        serves(&server, title + 500, &format!("another title after {what}"));
        let grown = server.memory().expect("/proc").resident_bytes;
        let grown = grown.saturating_sub(before);
        assert!(grown < GROWTH_BYTES_MAX, "{what}: {grown} bytes");
    }
    // The edge waits a second before it asks for a title again.
    for (title, (what, ..)) in (1..).zip(ACTS) {
        serves(&server, title, &format!("the title after {what}"));
    }
    settle(&server);
    let shown = [server.output(), server.metrics()];
    for text in shown {
        assert!(!text.contains(SECRET) && !text.contains("X-Amz"), "{text}");
        assert!(!text.contains("panicked"), "{text}");
    }
    assert!(server.stop().expect("it ends").success());
}

#[test]
fn clients_of_hung_bucket_all_get_an_answer_in_time() {
    const CLIENTS: u64 = 48;
    // As many as the edge fetches at a time, and no more.
    const TITLES: u64 = 16;
    let cache = Scratch::new("s3-faults").expect("a folder");
    let bucket = HostileBucket::start();
    let server = edge(&bucket, cache.path());
    right_range(&server, "/vod/1000", 1000, 0, SIZE);
    let before = server.memory().expect("/proc").resident_bytes;
    bucket.be(|asked, stream| {
        after_head(asked, stream, |stream, head, body| {
            send(stream, asked, &head, &body[..1_000])?;
            drip(stream, &body[1_000..])
        })
    });
    let begun = Instant::now();
    std::thread::scope(|scope| {
        let ask = |client| {
            let (server, path) = (&server, format!("/vod/{}", client % TITLES));
            scope.spawn(move || (client % TITLES, range(server, &path, 0, SIZE)))
        };
        let clients: Vec<_> = (0..CLIENTS).map(ask).collect();
        for client in clients {
            match client.join().expect("no panic") {
                (_, Ok(reply)) => assert!(reply.status() > 500, "{}", reply.status()),
                (_, Err(error)) => assert!(error.is_cut(), "{error}"),
            }
        }
    });
    assert!(begun.elapsed() < PATIENCE, "{:?}", begun.elapsed());
    let grown = server.memory().expect("/proc").resident_bytes;
    assert!(grown < before + GROWTH_BYTES_MAX, "{before}, {grown}");
    bucket.be(well);
    serves(&server, 7, "a title after the end of the fault");
}
