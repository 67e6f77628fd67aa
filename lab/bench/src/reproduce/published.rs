//! What was published, with where. MB are 10^6 bytes, as the papers' drives count.

/// A paper, or the part of one, that is an experiment of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Paper {
    /// "To chunk or not to chunk", NOSSDAV 2012; thesis 3.5 to 3.7.
    ToChunk,
    /// Libception, TOMPECS 2018, section 5.
    Asap,
    /// The same, 6.5.
    ReadAhead,
    /// Automated prefetching, SYSTOR 2014, Figure 1; all of it is made again in virtual time.
    Sizes,
}

/// A configuration and what it reached.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Published {
    /// What the paper calls it.
    pub name: &'static str,
    /// Our workload for it.
    pub workload: &'static str,
    /// Our server for it.
    pub server: &'static str,
    /// Its failure-free rate, if the text or a table gives one.
    pub rate_mb: Option<f64>,
    /// Where it stands.
    pub source: &'static str,
    /// What its drive did.
    pub disk: Option<PublishedDisk>,
}

/// Libception Table 2 and 5.5.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PublishedDisk {
    /// MB/s from the drive.
    pub rate_mb: f64,
    /// Milliseconds for a transaction of 128 KiB.
    pub ms_per_transaction: f64,
    /// Per cent of bytes in sequences of at most 128 KiB.
    pub short_percent: Option<f64>,
    /// Per cent of bytes in sequences longer than 1920 KiB.
    pub long_percent: Option<f64>,
}

/// Something that a figure shows and that must come out again: a ratio within bounds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Shape {
    /// In words, with where it stands.
    pub words: &'static str,
    /// Workload and server of the numerator.
    pub this: (&'static str, &'static str),
    /// Of the denominator.
    pub that: (&'static str, &'static str),
    /// The ratio is at least this.
    pub from: f64,
    /// And at most this.
    pub to: f64,
}

impl Shape {
    /// Whether it comes out again.
    pub fn holds(&self, ratio: f64) -> bool {
        (self.from..=self.to).contains(&ratio)
    }
}

/// A request of libception's viewers: 0.5 MB, which is 512 KiB (section 4).
const REQUEST_MB: f64 = 0.524_288;

const fn table_2(
    name: &'static str,
    server: &'static str,
    requests_per_s: f64,
    disk: [f64; 2],
    percent: Option<(f64, f64)>,
) -> Published {
    let (short_percent, long_percent) = match percent {
        Some((short, long)) => (Some(short), Some(long)),
        None => (None, None),
    };
    Published {
        name,
        workload: "sd",
        server,
        rate_mb: Some(requests_per_s * REQUEST_MB),
        source: "libception Table 2 (requests/s of 0.5 MB), Figure 6",
        disk: Some(PublishedDisk {
            rate_mb: disk[0],
            ms_per_transaction: disk[1],
            short_percent,
            long_percent,
        }),
    }
}

const ASAP: &[Published] = &[
    table_2(
        "vanilla, 2048 KB sockets",
        "vanilla",
        70.0,
        [21.6, 2.81],
        Some((11.0, 0.0)),
    ),
    table_2(
        "serialized, 128 KB",
        "serialized-128",
        60.0,
        [18.8, 3.67],
        None,
    ),
    table_2(
        "serialized, 512 KB",
        "serialized-512",
        120.0,
        [34.4, 2.00],
        Some((3.0, 0.0)),
    ),
    table_2(
        "prefetching, 2048 KB",
        "prefetching-2048",
        120.0,
        [37.4, 1.83],
        Some((15.0, 16.0)),
    ),
    table_2(
        "prefetching, 4096 KB",
        "prefetching-4096",
        140.0,
        [47.0, 1.53],
        None,
    ),
    table_2("ASAP, 512 KB", "asap-512", 120.0, [34.5, 2.57], None),
    table_2(
        "ASAP, 2048 KB",
        "asap-2048",
        200.0,
        [55.6, 1.40],
        Some((1.0, 55.0)),
    ),
];

const ASAP_SHAPES: &[Shape] = &[
    Shape {
        words: "ASAP reaches nearly three times vanilla (libception 5.5)",
        this: ("sd", "asap-2048"),
        that: ("sd", "vanilla"),
        from: 1.8,
        to: 4.0,
    },
    Shape {
        words: "serialized reads as large as a request alone help (Table 2)",
        this: ("sd", "serialized-512"),
        that: ("sd", "vanilla"),
        from: 1.1,
        to: 2.5,
    },
    Shape {
        words: "large reads many at a time are not better than serialized small ones (Table 2)",
        this: ("sd", "prefetching-2048"),
        that: ("sd", "serialized-512"),
        from: 0.7,
        to: 1.3,
    },
    Shape {
        words: "serialized large reads beat large reads many at a time (Table 2)",
        this: ("sd", "asap-2048"),
        that: ("sd", "prefetching-2048"),
        from: 1.1,
        to: 2.5,
    },
];

const fn to_chunk(
    name: &'static str,
    workload: &'static str,
    server: &'static str,
    rate_mb: Option<f64>,
    source: &'static str,
) -> Published {
    Published {
        name,
        workload,
        server,
        rate_mb,
        source,
        disk: None,
    }
}

const FIGURES: &str = "thesis Figure 3.13, a curve without numbers";
const FREEBSD: &str = "libception Table 3, FreeBSD, the same drive (0.3 % may fail)";

const TO_CHUNK: &[Published] = &[
    to_chunk("ASAP, 0.5 MB chunks", "chunks-512k", "asap", None, FIGURES),
    to_chunk(
        "nginx, 0.5 MB chunks",
        "chunks-512k",
        "nginx",
        None,
        FIGURES,
    ),
    to_chunk(
        "Apache, 0.5 MB chunks",
        "chunks-512k",
        "apache",
        None,
        FIGURES,
    ),
    to_chunk("ASAP, 2 MB chunks", "chunks-2m", "asap", None, FIGURES),
    to_chunk("nginx, 2 MB chunks", "chunks-2m", "nginx", None, FIGURES),
    to_chunk("Apache, 2 MB chunks", "chunks-2m", "apache", None, FIGURES),
    to_chunk("ASAP, unchunked", "whole", "asap", Some(83.99), FREEBSD),
    to_chunk("nginx, unchunked", "whole", "nginx", Some(39.75), FREEBSD),
    to_chunk("Apache, unchunked", "whole", "apache", Some(30.10), FREEBSD),
    to_chunk(
        "ASAP, requests of 2 MB",
        "whole-2m-requests",
        "asap",
        None,
        "thesis Figure 3.14",
    ),
    to_chunk(
        "nginx, requests of 2 MB",
        "whole-2m-requests",
        "nginx",
        None,
        "thesis Figure 3.14",
    ),
];

const TO_CHUNK_SHAPES: &[Shape] = &[
    Shape {
        words: "unchunked, ASAP serves about twice what nginx does (thesis Figure 3.15)",
        this: ("whole", "asap"),
        that: ("whole", "nginx"),
        from: 1.5,
        to: 3.0,
    },
    Shape {
        words: "in 0.5 MB chunks no server is much better than another (thesis Figure 3.11)",
        this: ("chunks-512k", "asap"),
        that: ("chunks-512k", "nginx"),
        from: 0.7,
        to: 1.3,
    },
    Shape {
        words: "ASAP gains about 20 MB/s from 0.5 MB to 2 MB chunks (thesis Figure 3.13)",
        this: ("chunks-2m", "asap"),
        that: ("chunks-512k", "asap"),
        from: 1.2,
        to: 2.2,
    },
    Shape {
        words: "and about 20 MB/s more unchunked (thesis Figure 3.13)",
        this: ("whole", "asap"),
        that: ("chunks-2m", "asap"),
        from: 1.1,
        to: 2.0,
    },
    Shape {
        words: "to nginx the size of chunks hardly matters (thesis Figure 3.10)",
        this: ("whole", "nginx"),
        that: ("chunks-2m", "nginx"),
        from: 0.8,
        to: 1.3,
    },
];

const fn read_ahead(
    name: &'static str,
    server: &'static str,
    rate_mb: Option<f64>,
    source: &'static str,
) -> Published {
    Published {
        name,
        workload: "sd",
        server,
        rate_mb,
        source,
        disk: None,
    }
}

const FIGURE_14: &str = "libception Figure 14, requests up to 512 KB";
const FIGURE_15: &str = "libception Figure 15, requests up to 16 MB (here 1280 KiB)";

const READ_AHEAD: &[Published] = &[
    read_ahead("V: 128 KB", "nginx", Some(25.11), "libception Table 3"),
    read_ahead("0.5 MB", "nginx-ra512", None, FIGURE_14),
    read_ahead(
        "1 MB",
        "nginx-ra1024",
        Some(45.0),
        "libception 6.5: about 45, Figure 14",
    ),
    read_ahead("2 MB", "nginx-ra2048", None, FIGURE_14),
    read_ahead("4 MB", "nginx-ra4096", None, FIGURE_14),
    read_ahead("8 MB", "nginx-ra8192", None, FIGURE_14),
    read_ahead(
        "0.5 MB, large requests",
        "nginx-ra512-large",
        None,
        FIGURE_15,
    ),
    read_ahead(
        "1 MB, large requests",
        "nginx-ra1024-large",
        Some(58.0),
        "libception 6.5, Figure 15",
    ),
    read_ahead(
        "2 MB, large requests",
        "nginx-ra2048-large",
        Some(58.29),
        "libception Table 3, Figure 15",
    ),
    read_ahead(
        "4 MB, large requests",
        "nginx-ra4096-large",
        None,
        FIGURE_15,
    ),
    read_ahead(
        "8 MB, large requests",
        "nginx-ra8192-large",
        None,
        FIGURE_15,
    ),
    read_ahead(
        "Apache, 128 KB",
        "apache",
        Some(25.18),
        "libception Table 3",
    ),
    read_ahead(
        "Apache, 2 MB, large requests",
        "apache-ra2048-large",
        None,
        "not published",
    ),
];

const READ_AHEAD_SHAPES: &[Shape] = &[
    Shape {
        words: "reading 1 MB ahead nearly doubles what nginx serves (libception Figure 14)",
        this: ("sd", "nginx-ra1024"),
        that: ("sd", "nginx"),
        from: 1.4,
        to: 2.2,
    },
    Shape {
        words: "with large requests it is 2.3 times (libception Figure 15)",
        this: ("sd", "nginx-ra2048-large"),
        that: ("sd", "nginx"),
        from: 1.8,
        to: 2.8,
    },
    Shape {
        words: "reading 8 MB ahead is worse than 2 MB (libception Figure 15)",
        this: ("sd", "nginx-ra8192-large"),
        that: ("sd", "nginx-ra2048-large"),
        from: 0.0,
        to: 0.97,
    },
];

const fn size(name: &'static str, workload: &'static str, server: &'static str) -> Published {
    Published {
        name,
        workload,
        server,
        rate_mb: None,
        source: "automated-prefetching Figure 1: a picture",
        disk: None,
    }
}

const SIZES: &[Published] = &[
    size("SD, vanilla", "sd", "vanilla"),
    size("SD, 2 MB", "sd", "paper-2"),
    size("SD, 4 MB", "sd", "paper-4"),
    size("SD, 8 MB", "sd", "paper-8"),
    size("SD, 12 MB", "sd", "paper-12"),
    size("SD, headlong", "sd", "headlong"),
    size("HD, vanilla", "hd", "vanilla"),
    size("HD, 2 MB", "hd", "paper-2"),
    size("HD, 4 MB", "hd", "paper-4"),
    size("HD, 8 MB", "hd", "paper-8"),
    size("HD, 12 MB", "hd", "paper-12"),
    size("HD, headlong", "hd", "headlong"),
];

const SIZES_SHAPES: &[Shape] = &[
    Shape {
        words: "SD: 4 MB is 2.5 times the vanilla server (automated-prefetching 3)",
        this: ("sd", "paper-4"),
        that: ("sd", "vanilla"),
        from: 1.5,
        to: 3.5,
    },
    Shape {
        words: "HD: 8 MB is 3.4 times the vanilla server (automated-prefetching 3)",
        this: ("hd", "paper-8"),
        that: ("hd", "vanilla"),
        from: 2.2,
        to: 4.6,
    },
    Shape {
        words: "SD: 12 MB falls off through evictions (automated-prefetching 3, Table 1)",
        this: ("sd", "paper-12"),
        that: ("sd", "paper-4"),
        from: 0.2,
        to: 0.75,
    },
];

impl Paper {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::ToChunk, Self::Asap, Self::ReadAhead, Self::Sizes];

    /// Its experiment: name of the file and text.
    pub fn experiment(self) -> (&'static str, &'static str) {
        match self {
            Self::ToChunk => (
                "experiments/to-chunk.toml",
                include_str!("../../../../experiments/to-chunk.toml"),
            ),
            Self::Asap => (
                "experiments/libception-asap.toml",
                include_str!("../../../../experiments/libception-asap.toml"),
            ),
            Self::ReadAhead => (
                "experiments/libception-readahead.toml",
                include_str!("../../../../experiments/libception-readahead.toml"),
            ),
            Self::Sizes => (
                "experiments/automated-prefetching.toml",
                include_str!("../../../../experiments/automated-prefetching.toml"),
            ),
        }
    }

    /// What was published.
    pub fn published(self) -> &'static [Published] {
        match self {
            Self::ToChunk => TO_CHUNK,
            Self::Asap => ASAP,
            Self::ReadAhead => READ_AHEAD,
            Self::Sizes => SIZES,
        }
    }

    /// What must come out again.
    pub fn shapes(self) -> &'static [Shape] {
        match self {
            Self::ToChunk => TO_CHUNK_SHAPES,
            Self::Asap => ASAP_SHAPES,
            Self::ReadAhead => READ_AHEAD_SHAPES,
            Self::Sizes => SIZES_SHAPES,
        }
    }

    /// How the paper's configurations became ours.
    pub(super) fn mapping(self) -> &'static str {
        match self {
            Self::ToChunk => {
                "The papers' vanilla servers are nginx with threads and Apache on this kernel; their \
                 ASAP userver is headlong with one read outstanding, prefetches of 2 MB on a miss \
                 only, in the order of arrival. Where titles are in chunk files, a playlist tells \
                 headlong their order, as a list told the userver. Drive, memory, titles, viewers \
                 and their networks are as published; the file system is ext4 and the page cache \
                 Linux's, where theirs were FreeBSD's."
            }
            Self::Asap => {
                "Vanilla is nginx with threads and the kernel's read-ahead of 128 KiB; serialized is \
                 one read outstanding, as large as a request; prefetching is 32 reads outstanding, \
                 larger than a request; ASAP is one, larger than a request. The last three are \
                 headlong, reading on a miss only, in the order of arrival. The drive's own queue \
                 reorders what is outstanding; the papers do not say whether theirs did."
            }
            Self::ReadAhead => {
                "nginx with threads on this kernel, with its read_ahead_kb and max_sectors_kb. A loop \
                 device takes requests of at most 1280 KiB where the paper's disk took 16 MB. The \
                 paper's scheduler was CFQ, which is gone; here it is mq-deadline. Since then the \
                 kernel's page cache has learnt to keep what was read once on its active list, \
                 which costs prefetched data its place."
            }
            Self::Sizes => {
                "Vanilla is nginx with threads and the kernel's read-ahead of 128 KiB; the sizes are \
                 headlong with one read outstanding, on a miss only, in the order of arrival, and \
                 with everything in memory by last use, as the paper's page cache kept it."
            }
        }
    }
}
