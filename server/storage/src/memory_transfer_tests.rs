use std::sync::Arc;

use headlong_engine::{Hints, ReaderIdentity, Request, StreamId, ViewerId};

use super::*;
use crate::rig::{FileSource, ScratchDir, noise, small_device};
use crate::{DeviceConfig, StreamSource};

const MIB: usize = 1 << 20;

fn device(name: &str) -> Device {
    let config = DeviceConfig {
        name: name.to_owned(),
        ..small_device()
    };
    Device::start(config).expect("started")
}

/// All bytes of a part; `None` if it cannot be read.
async fn read(
    device: &Device,
    source: &Arc<dyn StreamSource>,
    stream: u64,
    part: u32,
) -> Option<Vec<u8>> {
    let length = source.spec().parts[part as usize].size_bytes;
    let request = Request {
        viewer: ReaderIdentity::Named(ViewerId(1)),
        stream: StreamId(stream),
        part,
        offset: 0,
        length,
        open_ended: false,
        overlap_bytes: 0,
        holder: None,
        hints: Hints::default(),
    };
    let mut reply = device.request(request, source).await.ok()?;
    let mut bytes = Vec::new();
    while let Some(piece) = reply.next().await {
        bytes.extend_from_slice(piece.ok()?.as_ref());
    }
    Some(bytes)
}

async fn pass_on(from: &[Device], to: &[Device]) {
    let (own, other) = UnixStream::pair().expect("a pair");
    let passing = send_pieces(from, own).await;
    let to = to.to_vec();
    let taken = tokio::task::spawn_blocking(move || receive(&other, &to, &mut 0));
    passing.await.expect("all was sent");
    taken.await.expect("no panic").expect("all was taken");
}

#[tokio::test(flavor = "multi_thread")]
async fn transferred_pieces_are_cached_only_in_the_new_process() {
    let scratch = ScratchDir::new();
    let (one, two) = (noise(1, MIB + 1000), noise(1, 3000));
    let paths = [scratch.file("one", &one), scratch.file("two", &two)];
    let source: Arc<dyn StreamSource> = Arc::new(FileSource::new(1, paths.clone()));
    let (other, old) = (device("other"), device("disk"));
    for part in [0, 1] {
        read(&old, &source, 1, part).await.expect("read");
    }
    let new = device("disk");
    pass_on(&[other.clone(), old.clone()], &[new.clone(), other]).await;
    // The new process has another stream number and order of parts.
    let swapped = [paths[1].clone(), paths[0].clone()];
    let again: Arc<dyn StreamSource> = Arc::new(FileSource::new(7, swapped));
    for path in &paths {
        std::fs::remove_file(path).expect("removed");
    }
    assert!(read(&new, &again, 7, 1).await == Some(one), "right");
    assert!(read(&new, &again, 7, 0).await == Some(two), "right");
    let memory = old.snapshot().await.memory;
    assert_eq!((memory.read_bytes, memory.filling_bytes), (0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn pieces_of_another_file_version_are_reread() {
    let scratch = ScratchDir::new();
    let path = scratch.file("one", &noise(1, MIB));
    let source: Arc<dyn StreamSource> = Arc::new(FileSource::new(1, [path.clone()]));
    let (old, new) = (device("disk"), device("disk"));
    read(&old, &source, 1, 0).await.expect("read");
    let mut other = noise(1, MIB);
    other.reverse();
    std::fs::write(&path, &other).expect("written");
    pass_on(&[old], std::slice::from_ref(&new)).await;
    let source: Arc<dyn StreamSource> = Arc::new(FileSource::new(1, [path]));
    assert!(read(&new, &source, 1, 0).await == Some(other), "right");
}

#[tokio::test(flavor = "multi_thread")]
async fn unrequested_pieces_are_passed_on_by_the_next_upgrade() {
    let scratch = ScratchDir::new();
    let bytes = noise(1, MIB);
    let path = scratch.file("one", &bytes);
    let source: Arc<dyn StreamSource> = Arc::new(FileSource::new(1, [path.clone()]));
    let (first, second, third) = (device("disk"), device("disk"), device("disk"));
    read(&first, &source, 1, 0).await.expect("read");
    pass_on(&[first], std::slice::from_ref(&second)).await;
    pass_on(std::slice::from_ref(&second), std::slice::from_ref(&third)).await;
    std::fs::remove_file(path).expect("removed");
    assert!(read(&third, &source, 1, 0).await == Some(bytes), "right");
    let memory = second.snapshot().await.memory;
    assert_eq!((memory.read_bytes, memory.filling_bytes), (0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn unsent_pieces_are_released() {
    let scratch = ScratchDir::new();
    let path = scratch.file("one", &noise(1, MIB));
    let source: Arc<dyn StreamSource> = Arc::new(FileSource::new(1, [path]));
    let old = device("disk");
    read(&old, &source, 1, 0).await.expect("read");
    // As if no thread could be started.
    let queue = SendQueue::of(&old).await;
    assert!(queue.rest.len() > 1);
    drop(queue);
    let memory = old.snapshot().await.memory;
    assert_eq!((memory.read_bytes, memory.filling_bytes), (0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn pieces_received_before_a_disconnect_are_used() {
    let scratch = ScratchDir::new();
    let bytes = noise(1, 3000);
    let path = scratch.file("one", &bytes);
    let source: Arc<dyn StreamSource> = Arc::new(FileSource::new(1, [path.clone()]));
    let file = source.spec().parts[0].flash_key.expect("a name");
    let head = [
        b"P".as_slice(),
        &file.0.to_le_bytes(),
        &[0; 8],
        &3000_u32.to_le_bytes(),
        &[1],
    ];
    let said = [GREETING, b"D\x04\x00disk", &head.concat(), &bytes, b"P\x01"];
    let new = device("disk");
    let (mut own, other) = UnixStream::pair().expect("a pair");
    own.write_all(&said.concat()).expect("sent");
    drop(own);
    let devices = vec![new.clone()];
    let taken = move || {
        let mut taken_bytes = 0;
        let taken = receive(&other, &devices, &mut taken_bytes);
        (taken.is_ok(), taken_bytes)
    };
    let taken = tokio::task::spawn_blocking(taken).await.expect("no panic");
    assert_eq!(taken, (false, 3000));
    std::fs::remove_file(path).expect("removed");
    assert!(read(&new, &source, 1, 0).await == Some(bytes), "right");
}

#[tokio::test(flavor = "multi_thread")]
async fn disconnects_and_invalid_data_leave_memory_unchanged() {
    let scratch = ScratchDir::new();
    let bytes = noise(1, MIB);
    let path = scratch.file("one", &bytes);
    let source: Arc<dyn StreamSource> = Arc::new(FileSource::new(1, [path]));
    // The other end is closed.
    let old = device("disk");
    read(&old, &source, 1, 0).await.expect("read");
    let (own, other) = UnixStream::pair().expect("a pair");
    drop(other);
    send_pieces(std::slice::from_ref(&old), own)
        .await
        .await
        .expect("transfer ends");
    let again = read(&old, &source, 1, 0).await;
    assert!(again.as_ref() == Some(&bytes), "reread from disk");
    let greeted = |rest: &[u8]| [GREETING, rest].concat();
    let said = [
        (b"headlong pieces 1\nP".to_vec(), true),
        (Vec::new(), true),
        (greeted(b""), true),
        (greeted(b"X"), false),
        (greeted(b"D\x04\x00disk"), true),
        (greeted(b"D\xff\xffdisk"), false),
        (greeted(b"D\x02\x00\xff\xff"), true),
        (greeted(&[b"P".as_slice(), &[0; 29]].concat()), false),
        (
            greeted(&[b"D\x04\x00diskP".as_slice(), &[0xff; 29]].concat()),
            false,
        ),
        // A piece of an unknown file.
        (
            greeted(&[b"D\x04\x00diskP".as_slice(), &[1; 24], b"\x02\0\0\0\x01ab"].concat()),
            true,
        ),
    ];
    for (said, is_right) in said {
        let new = device("disk");
        let (mut own, other) = UnixStream::pair().expect("a pair");
        own.write_all(&said).expect("sent");
        drop(own);
        let devices = vec![new.clone()];
        let taken = tokio::task::spawn_blocking(move || receive(&other, &devices, &mut 0));
        let taken = taken.await.expect("no panic");
        assert_eq!(
            taken.is_ok(),
            is_right,
            "{:?}",
            said.escape_ascii().to_string()
        );
        assert!(read(&new, &source, 1, 0).await.as_ref() == Some(&bytes));
    }
}
