//! Asking a server about itself, in the network it is in.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::fd::AsFd as _;
use std::path::Path;
use std::time::Duration;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use serde_json::Value;

const PATIENCE: Duration = Duration::from_secs(5);
/// A status is some kilobytes.
const BYTES_MAX: u64 = 1 << 22;

/// The JSON at `path`, or null: it is good to have, and nothing depends on it.
pub(crate) fn status(network: u32, port: u16, path: &'static str) -> Value {
    // A thread of its own, because it does not come back from there.
    let asking = std::thread::spawn(move || ask(network, port, path));
    let answer = asking.join().ok().and_then(Result::ok);
    answer.unwrap_or_default()
}

/// What a reception says of itself, or null.
pub(crate) fn reception_status(socket: &Path) -> Value {
    let text = headlong_reception::status(socket).unwrap_or_default();
    serde_json::from_str(&text).unwrap_or_default()
}

/// What a mount says of itself, or null.
pub(crate) fn mount_status(point: &Path) -> Value {
    let text = headlong_mount::status(point).unwrap_or_default();
    serde_json::from_str(&text).unwrap_or_default()
}

/// Whether a server says anything at all. A port that takes connections is not enough: memory may
/// still be on its way, and who comes meanwhile waits.
pub(crate) fn answers(network: u32, port: u16) -> bool {
    let asking = std::thread::spawn(move || {
        let mut stream = send(network, port, "/")?;
        stream.read(&mut [0; 1])
    });
    let heard = asking.join().ok().and_then(Result::ok);
    heard.is_some_and(|bytes| bytes > 0)
}

fn ask(network: u32, port: u16, path: &str) -> std::io::Result<Value> {
    let mut answer = Vec::new();
    let stream = send(network, port, path)?;
    stream.take(BYTES_MAX).read_to_end(&mut answer)?;
    let text = String::from_utf8_lossy(&answer);
    let body = text
        .split_once("\r\n\r\n")
        .map(|(_, body)| body)
        .unwrap_or_default();
    Ok(serde_json::from_str(body)?)
}

/// Asks, in the network of a process.
fn send(network: u32, port: u16, path: &str) -> std::io::Result<TcpStream> {
    let space = File::open(format!("/proc/{network}/ns/net"))?;
    move_into_link_name_space(space.as_fd(), Some(LinkNameSpaceType::Network))?;
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(format!("GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n").as_bytes())?;
    Ok(stream)
}
