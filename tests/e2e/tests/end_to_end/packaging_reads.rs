//! What packaging reads of a drive: an emulated one counts the reads and says when each came.

use std::fs::File;
use std::path::Path;
use std::time::Duration;

use headlong_e2e_tests::have_or_skip;
use headlong_testkit::slow_disk::{DriveModel, Record};
use headlong_testkit::{BlockDevice, FileExtent, Scratch, Server, SlowDisk};

use super::packaging::{ffmpeg, get, links, make_sizes, server, settle};

/// A drive that takes five times as long as a real one, so that a busy machine hides no overlap.
const SLOWER: f64 = 0.2;

#[test]
fn indexes_of_a_title_are_read_at_the_same_time() {
    let test = "indexes_of_a_title_are_read_at_the_same_time";
    if !have_or_skip(test, "ffmpeg") || !SlowDisk::available_or_skip(test) {
        return;
    }
    let device = BlockDevice::new(64 << 20, DriveModel::WD_RED, SLOWER).expect("a device");
    let sizes = ["film_90.mp4", "film_91.mp4", "film_92.mp4", "film_93.mp4"];
    make_sizes(device.root(), &sizes.map(|name| (name, "160x90", 50)));
    let extents = sizes.map(|name| {
        let path = device.root().join(name);
        let file = File::open(&path).and_then(|file| file.sync_all());
        file.expect("on disk");
        device.extents(&path).expect("extents")
    });
    device.start().expect("caches are cold");
    let server = server(
        device.root(),
        &format!(
            "[device.\"{}\"]\nrotational = true\noutstanding_reads = 4",
            device.device_name()
        ),
    );
    let master = get(server.address(), "/film.mp4/master.m3u8", &[]).text();
    assert_eq!(links(&master).len(), sizes.len(), "{master}");
    let trace = device.disk().trace();
    let film_of = |record: &Record| {
        extents.iter().position(|extents| {
            let mut extents = extents.iter();
            extents.any(|of| (of.physical..of.physical + of.length).contains(&record.offset))
        })
    };
    let reads = trace.records().iter().filter(|record| !record.write);
    let reads: Vec<_> = reads
        .filter_map(|record| Some((film_of(record)?, record)))
        .collect();
    // A read of one film arrives while that of another is not yet answered.
    let overlap = reads.iter().any(|(film, one)| {
        reads.iter().any(|(other_film, other)| {
            film != other_film && one.arrived < other.completed && other.arrived < one.completed
        })
    });
    // The kernel merges requests for films that lie beside each other.
    assert!(overlap, "{reads:?}");
}

/// Two hours of a picture a second, in fragments of four seconds.
fn make_two_hours(root: &Path) {
    let whole = root.join("whole.mp4").display().to_string();
    let video = "testsrc2=s=320x180:r=1:d=7200,noise=alls=20:allf=t";
    let mut arguments = vec!["-f", "lavfi", "-i", video, "-f", "lavfi", "-i"];
    arguments.extend(["anullsrc=r=8000:cl=mono:d=7200", "-t", "7200"]);
    arguments.extend(["-c:v", "libx264", "-preset", "ultrafast", "-qp", "30"]);
    arguments.extend([
        "-g",
        "4",
        "-keyint_min",
        "4",
        "-sc_threshold",
        "0",
        "-bf",
        "0",
    ]);
    arguments.extend([
        "-pix_fmt",
        "yuv420p",
        "-c:a",
        "aac",
        "-movflags",
        "+faststart",
    ]);
    arguments.push(&whole);
    ffmpeg(&arguments);
    let base = "+frag_keyframe+empty_moov+default_base_moof";
    for (name, more) in [("indexed.mp4", ""), ("bare.mp4", "+skip_trailer")] {
        let path = root.join(name).display().to_string();
        let flags = format!("{base}{more}");
        ffmpeg(&["-i", &whole, "-c", "copy", "-movflags", &flags, &path]);
    }
    for name in ["whole.mp4", "indexed.mp4", "bare.mp4"] {
        let file = File::options().write(true).open(root.join(name));
        file.and_then(|file| file.sync_all()).expect("on disk");
        settle(&root.join(name), Duration::from_secs(3600));
    }
}

#[test]
fn first_segment_of_two_hours_takes_few_reads() {
    let test = "first_segment_of_two_hours_takes_few_reads";
    if !have_or_skip(test, "ffmpeg") || !SlowDisk::available_or_skip(test) {
        return;
    }
    let device = BlockDevice::new(512 << 20, DriveModel::WD_RED, 1.0).expect("a device");
    make_two_hours(device.root());
    let extents = |name: &str| {
        let extents = device.extents(&device.root().join(name));
        extents.expect("extents")
    };
    let files = ["whole.mp4", "indexed.mp4", "bare.mp4"];
    let files = files.map(|name| (name, extents(name)));
    device.start().expect("caches are cold");
    let state = Scratch::new("packaging-state").expect("a folder");
    let config = format!(
        "state = \"{}\"\n[device.\"{}\"]\nrotational = true\n[session]\nquery = \"s\"\n",
        state.path().display(),
        device.device_name()
    );
    // The reads of a file by the first playlist and segment.
    let reads = |server: &Server, name: &str, extents: &[FileExtent]| {
        let before = device.disk().trace().records().len();
        let get = |link: &str| {
            let reply = get(server.address(), &format!("/{name}/{link}"), &[]);
            assert_eq!(reply.status(), 200, "{name}: {link}");
            reply
        };
        let links = links(&get("v1a1.m3u8").text());
        assert_eq!(links.len(), 1 + 1800, "{name}");
        get(&links[0]);
        get(&links[1]);
        let trace = device.disk().trace();
        // A long read is several requests, one behind another.
        let (mut end, mut reads) = (u64::MAX, 0);
        for record in &trace.records()[before..] {
            let mut extents = extents.iter();
            let is_of_file =
                |of: &FileExtent| (of.physical..of.physical + of.length).contains(&record.offset);
            if !record.write && extents.any(is_of_file) {
                reads += usize::from(record.offset != end);
                end = record.offset + record.length;
            }
        }
        assert_eq!(&get(&links[900]).body[4..8], b"moof", "{name}");
        reads
    };
    let first = server(device.root(), &config);
    for (name, extents) in &files {
        let reads = reads(&first, name, extents);
        println!("{name}: {reads} reads");
        // All of its fragments are read.
        let most = if *name == "bare.mp4" { usize::MAX } else { 2 };
        assert!((1..=most).contains(&reads), "{name}: {reads}");
    }
    // A playlist that is too long with its arguments is no reason to doubt the index.
    let get_indexed = |target: &str| get(first.address(), &format!("/indexed.mp4/{target}"), &[]);
    let links_before = links(&get_indexed("v1a1.m3u8").text());
    let overlong = format!("v1a1.m3u8?s={}", "x".repeat(8_000));
    assert_ne!(get_indexed(&overlong).status(), 200);
    assert_eq!(get_indexed(&links_before[3]).status(), 200);
    drop(first);
    let next = server(device.root(), &config);
    let (name, extents) = &files[2];
    let reads = reads(&next, name, extents);
    println!("{name}: {reads} reads by the next process");
    assert!(reads <= 1, "{reads}");
}
