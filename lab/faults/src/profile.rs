//! Themes: subsets of faults on which a seed concentrates.
//!
//! Swarm testing, extended: where several unlikely events must coincide, a plan with all kinds of
//! faults rarely has enough of each. So 40 % of the seeds are a mix of everything, and the others
//! are drawn from subspaces, in which some events are more frequent and others absent. Every plan
//! of a theme is also possible in the mix.

use headlong_random::Generator;

use crate::fault::{CrashPoint, RestartKind};
use crate::fault_mix::{
    ALL_DISK_FAULTS, ALL_FILE_CHANGES, ALL_SSD_FAULTS, AWAY, FLIPS_READ, FaultMix, HANG,
    LOST_WRITES, MISDIRECTED, NO_DESCRIPTORS, READ_ERRORS, SLOW, STALE_READS, TORN, WRITE_ERRORS,
};
use crate::random_source::RandomSource;

/// Half of the servers shut down gracefully.
const HALF_CLEAN: &[RestartKind] = &[
    RestartKind::Clean,
    RestartKind::Clean,
    RestartKind::Kill,
    RestartKind::PowerCut,
];

macro_rules! themes {
    ($($(#[$doc:meta])* $variant:ident => $name:literal, $lean:expr);+ $(;)?) => {
        /// The subset of faults on which a seed concentrates.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Profile { $($(#[$doc])* $variant),+ }

        impl Profile {
            /// Every theme.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// Its name in reports.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name),+ }
            }

            /// The distributions of its plans.
            pub(crate) const fn lean(self) -> &'static Distributions {
                match self { $(Self::$variant => const { &$lean }),+ }
            }
        }
    };
}

/// Distributions of a plan. All entries of a list are equally likely.
#[derive(Debug)]
pub(crate) struct Distributions {
    pub(crate) disks: &'static [u64],
    pub(crate) ssds: &'static [u64],
    /// Bytes of a piece without a tier, and with one.
    pub(crate) pieces: &'static [u64],
    pub(crate) tier_pieces: &'static [u64],
    /// Most slots of a disk's memory, without a tier, and with one.
    pub(crate) slots_max: (u64, u64),
    /// Blocks of an SSD that each disk has, and the first of them.
    pub(crate) disk_blocks: &'static [u32],
    pub(crate) first_block: &'static [u32],
    /// Files of a title.
    pub(crate) parts: &'static [u64],
    /// Whether all files are whole pieces, so that records of different fillings are at the same
    /// offsets.
    pub(crate) has_whole_pieces: bool,
    /// Most settings that differ from the default.
    pub(crate) settings_max: u64,
    /// Period in which viewers arrive, in milliseconds, from and to.
    pub(crate) length_ms: (u64, u64),
    /// Fewest viewers; most without a tier; and with one.
    pub(crate) viewers: (u64, u64, u64),
    /// How long a look-up is valid, in milliseconds.
    pub(crate) revalidate_ms: &'static [u64],
    pub(crate) trouble: FaultMix,
}

const ALL_ENDS: &[RestartKind] = &[RestartKind::Clean, RestartKind::Kill, RestartKind::PowerCut];

const MIX: Distributions = Distributions {
    disks: &[1, 1, 2, 2, 3],
    ssds: &[0, 0, 1, 1, 2],
    pieces: &[4096, 4096, 8192],
    // With large pieces the blocks of a tier are reused soon.
    tier_pieces: &[4096, 4096, 8192, 32_768, 32_768],
    slots_max: (64, 16),
    // Mostly in two groups; sometimes all blocks of a group.
    disk_blocks: &[2, 2, 2, 3, 4, 20],
    first_block: &[0, 13, 14, 15, 15],
    parts: &[1, 1, 1, 3, 4],
    has_whole_pieces: false,
    settings_max: 12,
    length_ms: (4000, 60_000),
    viewers: (3, 14, 60),
    revalidate_ms: &[0, 200, 1000, 1000],
    trouble: FaultMix {
        of_disks: (45, 3, &ALL_DISK_FAULTS),
        of_ssds: (45, 4, &ALL_SSD_FAULTS),
        of_files: (45, 8, &ALL_FILE_CHANGES),
        ends: (45, 6, ALL_ENDS),
        moments: &[],
        again: 20,
        clock: 45,
        settings: (45, 3),
        ill_ms: (100, 60_000),
        ssd_ill_ms: (500, 60_000),
    },
};

/// No faults.
const CALM: FaultMix = FaultMix {
    of_disks: (0, 1, &ALL_DISK_FAULTS),
    of_ssds: (0, 1, &ALL_SSD_FAULTS),
    of_files: (0, 1, &ALL_FILE_CHANGES),
    ends: (0, 1, ALL_ENDS),
    moments: &[],
    again: 0,
    clock: 0,
    settings: (0, 1),
    ill_ms: (100, 60_000),
    ssd_ill_ms: (500, 60_000),
};

/// One disk with a tier of a few blocks and little memory, with many readers.
const SMALL_TIER: Distributions = Distributions {
    disks: &[1],
    ssds: &[1],
    tier_pieces: &[32_768],
    slots_max: (8, 8),
    disk_blocks: &[2],
    first_block: &[0, 14, 15],
    has_whole_pieces: true,
    settings_max: 3,
    length_ms: (4000, 30_000),
    viewers: (30, 60, 60),
    trouble: CALM,
    ..MIX
};

/// Many concurrent readers, without a tier.
const CROWD: Distributions = Distributions {
    disks: &[1],
    ssds: &[0],
    settings_max: 6,
    length_ms: (2000, 10_000),
    viewers: (15, 40, 40),
    revalidate_ms: &[1000],
    trouble: CALM,
    ..MIX
};

themes! {
    /// Everything.
    Mix => "mix", MIX;
    /// The blocks of a tier are reused, and the server ends while it writes records or seals.
    Rounds => "rounds", Distributions {
        disk_blocks: &[1, 1, 2],
        trouble: FaultMix {
            ends: (100, 14, &[RestartKind::Kill, RestartKind::PowerCut]),
            moments: &[CrashPoint::Any, CrashPoint::Records, CrashPoint::Seal, CrashPoint::Seal],
            again: 20,
            ..CALM
        },
        ..SMALL_TIER
    };
    /// Checkpoints of two groups are written alternately, and the server ends meanwhile.
    Checkpoints => "checkpoints", Distributions {
        disk_blocks: &[2, 2, 3],
        first_block: &[14, 15, 15],
        trouble: FaultMix {
            ends: (100, 14, HALF_CLEAN),
            moments: &[CrashPoint::Checkpoint, CrashPoint::Checkpoint, CrashPoint::Records],
            again: 40,
            ..CALM
        },
        ..SMALL_TIER
    };
    /// An SSD acknowledges operations that it did not carry out.
    Liars => "liars", Distributions {
        trouble: FaultMix {
            of_ssds: (100, 6, &[LOST_WRITES, MISDIRECTED, TORN, FLIPS_READ, STALE_READS]),
            ends: (40, 3, ALL_ENDS),
            ..CALM
        },
        ..SMALL_TIER
    };
    /// An SSD fails repeatedly for short times and reports it.
    Failing => "failing", Distributions {
        disk_blocks: &[3, 4, 4],
        first_block: &[0, 14, 14, 15],
        trouble: FaultMix {
            of_ssds: (100, 16, &[READ_ERRORS, WRITE_ERRORS, AWAY]),
            ends: (100, 6, HALF_CLEAN),
            ssd_ill_ms: (100, 6000),
            ..CALM
        },
        ..SMALL_TIER
    };
    /// Files cannot be opened because descriptors are exhausted, and there are many files.
    Descriptors => "descriptors", Distributions {
        parts: &[3, 4],
        trouble: FaultMix {
            of_disks: (100, 10, &[NO_DESCRIPTORS]),
            ..CALM
        },
        ..CROWD
    };
    /// Time passes while reads are outstanding.
    Waits => "waits", Distributions {
        disks: &[1, 2],
        trouble: FaultMix {
            of_disks: (100, 4, &[HANG, HANG, SLOW]),
            ill_ms: (4000, 60_000),
            ..CALM
        },
        ..CROWD
    };
    /// Files change while viewers read them from slow disks.
    Changes => "changes", Distributions {
        ssds: &[0, 0, 1],
        parts: &[1, 3, 4],
        length_ms: (4000, 20_000),
        trouble: FaultMix {
            of_disks: (100, 3, &[SLOW]),
            of_files: (100, 20, &ALL_FILE_CHANGES),
            ill_ms: (4000, 60_000),
            ..CALM
        },
        ..CROWD
    };
}

/// Percentage of seeds of each theme: more where rare coincidences are needed.
const SHARES: &[(Profile, u64)] = &[
    (Profile::Mix, 40),
    (Profile::Rounds, 20),
    (Profile::Checkpoints, 8),
    (Profile::Liars, 6),
    (Profile::Failing, 10),
    (Profile::Descriptors, 4),
    (Profile::Waits, 4),
    (Profile::Changes, 8),
];

impl Profile {
    /// The theme of a seed.
    pub fn of(seed: u64) -> Self {
        let mut at = RandomSource(Generator::new(seed).fork("theme"))
            .0
            .below(100);
        for (theme, share) in SHARES {
            if at < *share {
                return *theme;
            }
            at -= share;
        }
        Self::Mix
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_of_themes_sum_to_hundred() {
        let all: Vec<Profile> = SHARES.iter().map(|(theme, _)| *theme).collect();
        assert_eq!(all, Profile::ALL);
        assert_eq!(SHARES.iter().map(|(_, share)| share).sum::<u64>(), 100);
        for (theme, share) in SHARES {
            let of = (0..2000)
                .filter(|seed| Profile::of(*seed) == *theme)
                .count() as u64;
            assert!((share * 14..share * 26).contains(&of), "{of} of {theme:?}");
        }
    }
}
