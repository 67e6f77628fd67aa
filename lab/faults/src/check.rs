//! What is looked for after every step: the checks by name, with the invariant that each is of.

use headlong_units::Instant;

headlong_units::names! {
    /// A check. The numbers in the text of each are those of docs/develop/faults.md.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Check {
        /// A byte that was delivered is of no version that the reply may have.
        WrongBytes => "wrong-bytes",
        /// Bytes of two versions in one reply, or joined by a conditional request.
        MixedVersions => "mixed-versions",
        /// A version that was gone before the request, but for the time that a look-up is believed.
        OldVersion => "old-version",
        /// Status, length or range do not go with what is delivered.
        Head => "head",
        /// A record of flash that is believed and is not what its name says.
        RecordIdentity => "record-identity",
        /// What recovery finds was never written so.
        FoundUnknown => "found-unknown",
        /// What recovery finds was given up before.
        FoundGivenUp => "found-given-up",
        /// What was durable is not found.
        LostDurable => "lost-durable",
        /// Two recoveries of one image differ.
        RecoveryDiffers => "recovery-differs",
        /// A block's sequence number is not higher than all before.
        Sequence => "sequence",
        /// Memory, slots or tables beyond their bound, or a slot used twice.
        Budget => "budget",
        /// More was written to flash than the budget of a day.
        Wear => "wear",
        /// A request waited for longer than it may.
        Waited => "waited",
        /// A device was given up, or a reply failed, without a fault.
        Innocent => "innocent",
        /// What happens on one disk depends on the faults of another.
        Island => "island",
        /// After all faults ended something is left over.
        Drain => "drain",
        /// After all faults ended a viewer is not served.
        ServedAgain => "served-again",
        /// The world does not come to rest.
        Rest => "rest",
        /// An invariant of the code under test, or a panic in it.
        Panic => "panic",
    }
}

impl Check {
    /// The invariants that it is of, by their numbers in docs/develop/faults.md.
    pub const fn invariants(self) -> &'static [u8] {
        match self {
            Self::WrongBytes => &[1],
            Self::MixedVersions | Self::OldVersion => &[2],
            Self::Head => &[3],
            Self::RecordIdentity => &[4, 7],
            Self::FoundUnknown => &[5, 13],
            Self::FoundGivenUp => &[2, 11],
            Self::LostDurable => &[10],
            Self::RecoveryDiffers => &[6, 12],
            Self::Sequence => &[9],
            Self::Budget | Self::Panic => &[8],
            Self::Wear => &[17],
            Self::Waited | Self::Innocent | Self::Island | Self::ServedAgain => &[15, 16],
            Self::Drain | Self::Rest => &[16],
        }
    }
}

/// A check that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Which.
    pub check: Check,
    /// When, in virtual time.
    pub at: Instant,
    /// What was seen.
    pub text: String,
}

impl std::fmt::Display for Violation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (name, seconds) = (self.check.name(), self.at.0 as f64 / 1e9);
        write!(f, "{name} at {seconds:.6} s: {}", self.text)
    }
}
