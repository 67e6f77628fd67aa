//! A viewer: its requests with their header fields, and the pace of its socket.

use headlong_units::Duration;

use crate::machine::DiskPlan;
use crate::random_source::RandomSource;

/// One viewer.
#[derive(Debug, Clone)]
pub(crate) struct ViewerSession {
    pub(crate) disk: usize,
    /// Octets of its address.
    pub(crate) address: [u8; 4],
    pub(crate) connection: u64,
    /// Bytes per second that its socket accepts.
    pub(crate) rate: u64,
    /// Its requests, one after another.
    pub(crate) asks: Vec<SessionRequest>,
}

/// One request.
#[derive(Debug, Clone)]
pub(crate) struct SessionRequest {
    /// Delay after the end of the previous request.
    pub(crate) after: Duration,
    pub(crate) method: &'static str,
    pub(crate) target: String,
    pub(crate) fields: Vec<(&'static str, Vec<u8>)>,
    /// A condition with the tag of the viewer's last reply.
    pub(crate) condition: Option<Condition>,
    /// The viewer leaves after so many bytes of the body.
    pub(crate) leaves_at: Option<u64>,
    /// The viewer leaves after this time.
    pub(crate) patience: Option<Duration>,
    /// The socket stalls at this byte.
    pub(crate) stalls_at: Option<u64>,
}

/// A condition on the known version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Condition {
    /// `If-Range`: resume from where the reply broke off, if the version is the same.
    Resume,
    /// `If-None-Match`
    NoneMatch,
    /// `If-Match`
    Match,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ViewerKind {
    Player,
    Downloader,
    Impatient,
    Slow,
    Stalling,
    Malicious,
}

/// A random viewer.
pub(crate) fn session(mut draw: RandomSource, number: u64, disks: &[DiskPlan]) -> ViewerSession {
    let kinds = [
        ViewerKind::Player,
        ViewerKind::Player,
        ViewerKind::Player,
        ViewerKind::Downloader,
        ViewerKind::Impatient,
        ViewerKind::Slow,
        ViewerKind::Stalling,
        ViewerKind::Malicious,
    ];
    let kind = draw.pick(&kinds);
    let disk = draw.between(0, disks.len() as u64 - 1) as usize;
    let rate = match kind {
        ViewerKind::Slow => draw.scaled(500, 20_000),
        _ => draw.scaled(50_000, 20_000_000),
    };
    let mut writer = SessionGenerator {
        kind,
        number,
        title: draw.between(0, disks[disk].titles.len() as u64 - 1) as usize,
        disk: &disks[disk],
        disk_number: disk,
        is_named: draw.percent(60),
        part: 0,
        at: 0,
    };
    writer.begin(&mut draw);
    let asks = (0..draw.between(1, 6)).map(|index| writer.ask(&mut draw, index));
    let asks = asks.collect();
    ViewerSession {
        disk,
        asks,
        rate,
        // Only two addresses, so that unnamed viewers are confused with each other.
        address: [192, 0, 2, draw.between(1, 2) as u8],
        connection: draw.between(0, 4),
    }
}

/// Generates the requests of one viewer.
struct SessionGenerator<'a> {
    kind: ViewerKind,
    number: u64,
    disk: &'a DiskPlan,
    disk_number: usize,
    title: usize,
    is_named: bool,
    part: usize,
    at: u64,
}

impl SessionGenerator<'_> {
    fn begin(&mut self, draw: &mut RandomSource) {
        let sizes = &self.disk.titles[self.title].sizes;
        self.part = draw.between(0, sizes.len() as u64 - 1) as usize;
        self.at = match draw.percent(60) {
            true => 0,
            false => draw.0.below(sizes[self.part] + 1),
        };
    }

    fn size(&self) -> u64 {
        self.disk.titles[self.title].sizes[self.part]
    }

    fn ask(&mut self, draw: &mut RandomSource, index: u64) -> SessionRequest {
        let mut target = path(self.disk_number, self.title, self.part);
        let mut fields: Vec<(&'static str, Vec<u8>)> = Vec::new();
        let mut condition = None;
        let range = self.range(draw);
        if let Some(range) = range {
            fields.push(("Range", range.into_bytes()));
        }
        if self.is_named || draw.percent(30) {
            fields.extend(cmcd(draw, self.is_named.then_some(self.number)));
        }
        if self.kind == ViewerKind::Downloader && index > 0 {
            let wanted = [
                Condition::Resume,
                Condition::Resume,
                Condition::NoneMatch,
                Condition::Match,
            ];
            condition = Some(draw.pick(&wanted));
        }
        if self.kind == ViewerKind::Malicious {
            malicious(draw, &mut target, &mut fields);
        }
        let size = self.size();
        let leaves = match self.kind {
            ViewerKind::Impatient => 60,
            ViewerKind::Downloader => 50,
            _ => 10,
        };
        let leaves_at = draw.percent(leaves).then(|| draw.0.below(size + 1));
        let patience = draw.percent(leaves).then(|| draw.millis(1, 8000));
        let stalls = self.kind == ViewerKind::Stalling;
        let ask = SessionRequest {
            after: match index {
                0 => Duration::ZERO,
                _ => draw.millis(1, 6000),
            },
            method: if draw.percent(4) { "HEAD" } else { "GET" },
            target,
            fields,
            condition,
            leaves_at,
            patience,
            stalls_at: stalls.then(|| draw.0.below(size + 1)),
        };
        self.go_on(draw);
        ask
    }

    /// Position of the next request: mostly after this one.
    fn go_on(&mut self, draw: &mut RandomSource) {
        if draw.percent(15) {
            return self.begin(draw);
        }
        if self.at >= self.size() {
            let parts = self.disk.titles[self.title].sizes.len();
            self.part = (self.part + 1) % parts;
            self.at = 0;
        }
    }

    fn range(&mut self, draw: &mut RandomSource) -> Option<String> {
        let (at, size) = (self.at, self.size());
        let length = draw.scaled(1, size.max(2));
        match draw.between(0, 11) {
            0..=1 => {
                self.at = size;
                None
            }
            2..=3 => {
                self.at = size;
                Some(format!("bytes={at}-"))
            }
            4 => Some(format!("bytes=-{length}")),
            5 => {
                let other = draw.0.below(size + 1);
                let third = draw.0.below(size + 1);
                Some(format!(
                    "bytes={at}-{}, {other}-{}, {third}-{third}",
                    at + length,
                    other + length / 2
                ))
            }
            _ => {
                self.at = (at + length + 1).min(size);
                Some(format!("bytes={at}-{}", at + length))
            }
        }
    }
}

/// The path of a file: each disk has a folder.
pub(crate) fn path(disk: usize, title: usize, part: usize) -> String {
    format!("/disk{disk}/title{title}/part{part}.mp4")
}

fn cmcd(draw: &mut RandomSource, sid: Option<u64>) -> Vec<(&'static str, Vec<u8>)> {
    let mut fields = Vec::new();
    if let Some(sid) = sid {
        fields.push(("CMCD-Session", format!("sid=\"viewer-{sid}\"").into_bytes()));
    }
    if draw.percent(40) {
        let rate = draw.pick(&[1, 400, 8000, 999_999_999_999_999_u64]);
        fields.push(("CMCD-Object", format!("br={rate}").into_bytes()));
    }
    if draw.percent(40) {
        let buffer = draw.pick(&[0, 500, 30_000, 999_999_999_999_999_u64]);
        let deadline = draw.pick(&["", ",dl=0", ",dl=5000", ",su"]);
        fields.push((
            "CMCD-Request",
            format!("bl={buffer}{deadline}").into_bytes(),
        ));
    }
    fields
}

fn malicious(
    draw: &mut RandomSource,
    target: &mut String,
    fields: &mut Vec<(&'static str, Vec<u8>)>,
) {
    let number = u64::MAX;
    let ranges: [&str; 10] = [
        "bytes=0-0,0-0,0-0,0-0,0-0,0-0,0-0,0-0,0-0,0-0,0-0,0-0,0-0,0-0,0-0,0-0,0-0,0-0",
        "bytes=18446744073709551615-",
        "bytes=-18446744073709551616",
        "bytes=5-1",
        "bytes=--1",
        "bytes=",
        "octets=0-1",
        "bytes=0-18446744073709551615",
        "bytes=-0",
        "bytes=0-,-1,1-2",
    ];
    match draw.between(0, 5) {
        0 => {
            let junk: Vec<u8> = (0..draw.between(1, 300))
                .map(|_| draw.0.bits() as u8)
                .collect();
            fields.push(("Range", junk));
        }
        1 => {
            fields.retain(|(name, _)| *name != "Range");
            fields.push(("range", draw.pick(&ranges).as_bytes().to_vec()));
        }
        2 => {
            let odd = [
                "/..",
                "/%2e%2e/etc/passwd",
                "*",
                "/disk0/%00",
                "/disk0//title0///part0.mp4",
                "/disk0/title0/part0.mp4%",
                "/nothing",
                "/disk0/title0/",
            ];
            *target = draw.pick(&odd).to_owned();
        }
        3 => {
            let text = format!(
                "br={number},dl=-1,bl=99999999999999999999,su=?2,sid=\"{}\"",
                "x".repeat(200)
            );
            fields.push(("CMCD-Object", text.into_bytes()));
            fields.push(("CMCD-Request", b"dl=0,bl=0,su,bs".to_vec()));
        }
        4 => {
            fields.push(("If-Range", b"\"".to_vec()));
            fields.push(("If-Match", b"*".to_vec()));
            fields.push(("If-None-Match", b"W/\"\", , \"x".to_vec()));
        }
        _ => {
            target.push_str("?CMCD=br%3D1e99%2Cdl%3D");
            fields.push(("Cookie", vec![0xff; 400]));
        }
    }
}
