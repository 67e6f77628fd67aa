//! The checks that run after every step, with the invariants that each verifies. Only the first
//! failed one counts.

use headlong_units::Instant;

headlong_units::names! {
    /// A check. The numbers of invariants are those of docs/develop/faults.md.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Check {
        /// A delivered byte belongs to no version that the reply may have.
        WrongBytes => "wrong-bytes",
        /// One reply has bytes of two versions, or a conditional request joins two versions.
        MixedVersions => "mixed-versions",
        /// A version that was replaced before the request, beyond the lifetime of a look-up.
        OldVersion => "old-version",
        /// Status, length or range do not match the delivered bytes.
        Head => "head",
        /// A record of flash was accepted although its content does not match its name.
        RecordIdentity => "record-identity",
        /// Recovery finds a block that was never written like this.
        FoundUnknown => "found-unknown",
        /// Recovery finds a block that was abandoned before.
        FoundGivenUp => "found-given-up",
        /// Recovery misses a durable block.
        LostDurable => "lost-durable",
        /// Two recoveries of one image differ.
        RecoveryDiffers => "recovery-differs",
        /// A block's sequence number is not higher than all earlier ones.
        Sequence => "sequence",
        /// Memory, slots or tables exceed their limits, or a slot is used twice.
        Budget => "budget",
        /// More was written to flash than the daily budget.
        Wear => "wear",
        /// A request waited longer than allowed.
        Waited => "waited",
        /// A device was taken offline, or a reply failed, without a fault.
        Innocent => "innocent",
        /// Events on one disk depend on the faults of another.
        Island => "island",
        /// After the end of all faults some resource is still in use.
        Drain => "drain",
        /// After the end of all faults a viewer is not served.
        ServedAgain => "served-again",
        /// The world does not come to rest.
        Rest => "rest",
        /// A failed assertion or a panic in the code under test.
        Panic => "panic",
    }
}

impl Check {
    /// The invariants that it verifies, by their numbers in docs/develop/faults.md.
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

/// A failed check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The check.
    pub check: Check,
    /// Virtual time of the failure.
    pub at: Instant,
    /// Details.
    pub text: String,
}

impl std::fmt::Display for Violation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (name, seconds) = (self.check.name(), self.at.0 as f64 / 1e9);
        write!(f, "{name} at {seconds:.6} s: {}", self.text)
    }
}

/// The first violation.
#[derive(Debug, Default)]
pub(crate) struct Checker {
    pub(crate) violation: Option<Violation>,
}

impl Checker {
    pub(crate) fn fail(&mut self, check: Check, at: Instant, text: impl FnOnce() -> String) {
        if self.violation.is_none() {
            let text = text();
            self.violation = Some(Violation { check, at, text });
        }
    }

    pub(crate) fn expect(
        &mut self,
        holds: bool,
        check: Check,
        at: Instant,
        text: impl FnOnce() -> String,
    ) {
        if !holds {
            self.fail(check, at, text);
        }
    }
}
