//! Accuracy of an emulated disk: rates through ext4 with O_DIRECT beside those of the model.
//!
//! `cargo run --release -p headlong-vdisk --example fidelity -- [PRESET [SIZE [SECONDS]]]`
//!
//! Run as root, on a quiet machine. A file over nearly the whole disk (the preset, scaled to SIZE)
//! is filled with the timing off, which also gives the speed of the emulator itself. Then blocks
//! are read one at a time, at random places and in order, at time scales 1 and 5, for SECONDS of
//! wall time each. The model's figure is the time of the same drive for the same requests without
//! any delay between them; the difference is the overhead of the emulation.

use std::error::Error;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::process::Command;
use std::time::{Duration as WallDuration, Instant as WallInstant};

use headlong_drive::{Direction, Drive, DriveSpec, Request, RequestId, SECTOR_BYTES, preset};
use headlong_units::{Bytes, Instant};
use headlong_vdisk::control::StopSignal;
use headlong_vdisk::mount::find_program;
use headlong_vdisk::store::WordSequence;
use headlong_vdisk::{DiskOptions, FileOptions, FileSystem, QueueSettings, VirtualDisk};

const MB: u64 = 1_000_000;
const PAGE: u64 = 4096;
/// The kernel splits direct reads into memory of small pages at this size.
const CUT: u64 = 512 << 10;
const SCALES: [f64; 2] = [1.0, 5.0];
const BLOCKS: [u64; 3] = [MB / 2, 2 * MB, 8 * MB];

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next().unwrap_or("wd-red-wd10efrx".to_owned());
    let size: Bytes = arguments.next().as_deref().unwrap_or("32GB").parse()?;
    let seconds: f64 = arguments.next().as_deref().unwrap_or("10").parse()?;
    let spec = preset(&name)?.scaled_to(size.0);
    println!("{} scaled to {size}", spec.name());
    for scale in SCALES {
        measure(&spec, scale, WallDuration::from_secs_f64(seconds))?;
    }
    Ok(())
}

fn measure(spec: &DriveSpec, scale: f64, length: WallDuration) -> Result<(), Box<dyn Error>> {
    let disk = VirtualDisk::start(DiskOptions {
        file: FileOptions {
            drive: spec.build(),
            queue_depth: None,
            time_scale: scale,
            store: None,
        },
        file_system: Some(FileSystem::Ext4),
        inodes: None,
        mount: None,
        queue: QueueSettings {
            is_rotational: true,
            ..QueueSettings::default()
        },
        control: None,
        stop: StopSignal::default(),
    })?;
    let root = disk.mount().ok_or("no mount")?;
    let path = root.join("title");
    let bytes = disk.file().size_bytes() / 100 * 95 / MB * MB;
    let wrote = fill(&path, bytes)?;
    let file = open(&path, false)?;
    let mut buffer = aligned(8 * MB);
    let read = read_on(&file, &mut buffer, bytes.min(8000 * MB))?;
    println!("time scale {scale}, timing off: writes {wrote:.0} MB/s, reads {read:.0} MB/s");
    let extents = extents(&path)?;
    println!("| read | block | model MB/s | measured MB/s | ratio | late p50 | p99 | max |");
    println!("|---|---|---|---|---|---|---|---|");
    for block in BLOCKS {
        for is_random in [true, false] {
            let places = places(bytes, block, is_random);
            disk.file().switch_timing(true);
            // Excludes the last requests of the previous measurement.
            file.read_exact_at(slice(&mut buffer, PAGE), 0)?;
            disk.file().reset_counters();
            let begun = disk.file().now();
            let wall = WallInstant::now();
            let mut count = 0;
            for place in &places {
                file.read_exact_at(slice(&mut buffer, block / PAGE * PAGE), *place)?;
                count += 1;
                if wall.elapsed() > length {
                    break;
                }
            }
            let took = disk.file().now().since(begun);
            let late = disk.file().counters().lateness;
            let read_bytes = count as u64 * (block / PAGE * PAGE);
            let measured = read_bytes as f64 / took.as_secs_f64() / 1e6;
            let model = by_model(&mut *spec.build(), &extents, &places[..count], block);
            let kind = if is_random { "random" } else { "sequential" };
            println!(
                "| {kind} | {:.1} MB | {model:.2} | {measured:.2} | {:.3} | {} us | {} us | {} us |",
                block as f64 / 1e6,
                measured / model,
                late.p50_ns / 1000,
                late.p99_ns / 1000,
                late.max_ns / 1000
            );
            io::stdout().flush()?;
            disk.file().switch_timing(false);
        }
    }
    drop(file);
    disk.close()?;
    Ok(())
}

/// Rate of the drive for these consecutive reads, in MB/s.
fn by_model(drive: &mut dyn Drive, extents: &[FileExtent], places: &[u64], block: u64) -> f64 {
    let mut now = Instant::ZERO;
    let mut bytes = 0;
    let mut id = 0;
    let mut read = |drive: &mut dyn Drive, now: &mut Instant, place: u64, length: u64| {
        let mut outstanding = 0;
        for (offset, length) in requests(extents, place, length) {
            let request = Request {
                sector: offset / SECTOR_BYTES,
                sectors: (length / SECTOR_BYTES) as u32,
                direction: Direction::Read,
            };
            id += 1;
            let taken = drive.handle_request(*now, RequestId(id), request);
            taken.expect("a request within the queue and the drive");
            outstanding += 1;
        }
        while outstanding > 0 {
            let next = drive.poll_timeout().expect("an outstanding request");
            drive.handle_timeout(next);
            while let Some(completion) = drive.poll_completion() {
                outstanding -= 1;
                *now = completion.ended.max(*now);
            }
        }
    };
    read(drive, &mut now, 0, PAGE);
    let begun = now;
    for place in places {
        let length = block / PAGE * PAGE;
        read(drive, &mut now, *place, length);
        bytes += length;
    }
    bytes as f64 / now.since(begun).as_secs_f64() / 1e6
}

/// Places of blocks in the file, page aligned.
fn places(bytes: u64, block: u64, is_random: bool) -> Vec<u64> {
    let block = block / PAGE * PAGE;
    let count = (bytes / block).min(20_000);
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % ((bytes - block) / PAGE) * PAGE
    };
    // In order: from the middle on, where the rate is neither the best nor the worst.
    let middle = bytes / 2 / PAGE * PAGE;
    (0..count)
        .map(|at| {
            if is_random {
                random()
            } else {
                (middle + at * block) % ((bytes - block) / PAGE * PAGE)
            }
        })
        .collect()
}

#[derive(Debug)]
struct FileExtent {
    logical: u64,
    physical: u64,
    length: u64,
}

/// The kernel's requests for a read: their offsets on the disk, and lengths.
fn requests(extents: &[FileExtent], place: u64, length: u64) -> Vec<(u64, u64)> {
    let mut requests = Vec::new();
    let (mut at, end) = (place, place + length);
    while at < end {
        let within =
            |extent: &&FileExtent| (extent.logical..extent.logical + extent.length).contains(&at);
        let extent = extents.iter().find(within).expect("a file without holes");
        let left = (end - at).min(extent.logical + extent.length - at).min(CUT);
        requests.push((extent.physical + at - extent.logical, left));
        at += left;
    }
    requests
}

fn extents(path: &Path) -> Result<Vec<FileExtent>, Box<dyn Error>> {
    let program = find_program("filefrag", "e2fsprogs")?;
    let output = Command::new(program)
        .args(["-v", "-b4096"])
        .arg(path)
        .output()?;
    let text = String::from_utf8(output.stdout)?;
    let parse = |line: &str| {
        let mut columns = line.split(':').map(str::trim);
        columns.next()?.parse::<u32>().ok()?;
        let first = |column: &str| column.split("..").next()?.trim().parse::<u64>().ok();
        Some(FileExtent {
            logical: first(columns.next()?)? * PAGE,
            physical: first(columns.next()?)? * PAGE,
            length: columns.next()?.parse::<u64>().ok()? * PAGE,
        })
    };
    Ok(text.lines().filter_map(parse).collect())
}

/// Writes a title; returns MB/s.
fn fill(path: &Path, bytes: u64) -> Result<f64, Box<dyn Error>> {
    let file = open(path, true)?;
    let mut buffer = aligned(8 * MB);
    let part = slice(&mut buffer, 8 * MB / PAGE * PAGE);
    let title = WordSequence {
        first: 3,
        step: 0x1234_5678_9abc_def1,
    };
    let begun = WallInstant::now();
    let mut at = 0;
    while at < bytes {
        title.skip(at / PAGE).fill(part);
        let length = part
            .len()
            .min((bytes - at) as usize / PAGE as usize * PAGE as usize);
        if length == 0 {
            break;
        }
        file.write_all_at(&part[..length], at)?;
        at += length as u64;
    }
    file.sync_all()?;
    Ok(at as f64 / begun.elapsed().as_secs_f64() / 1e6)
}

fn read_on(file: &File, buffer: &mut [u8], bytes: u64) -> io::Result<f64> {
    let part = slice(buffer, 4 << 20);
    let begun = WallInstant::now();
    let mut at = 0;
    while at + (part.len() as u64) < bytes {
        file.read_exact_at(part, at)?;
        at += part.len() as u64;
    }
    Ok(at as f64 / begun.elapsed().as_secs_f64() / 1e6)
}

fn open(path: &Path, must_make: bool) -> io::Result<File> {
    File::options()
        .read(true)
        .write(must_make)
        .create(must_make)
        .custom_flags(rustix::fs::OFlags::DIRECT.bits() as i32)
        .open(path)
}

/// Memory with room for `bytes` from a page boundary on.
fn aligned(bytes: u64) -> Vec<u8> {
    vec![0; (bytes + 2 * PAGE) as usize]
}

fn slice(buffer: &mut [u8], bytes: u64) -> &mut [u8] {
    let skip = buffer.as_ptr().align_offset(PAGE as usize);
    &mut buffer[skip..skip + bytes as usize]
}
