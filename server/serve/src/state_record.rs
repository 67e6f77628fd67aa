//! Format of a device's learned state in the state folder.

use std::time::Instant as Clock;

use headlong_engine::{
    DriveTimes, EndedChain, ReaderIdentity, SavedChain, ShardMeasurements, StreamId, ViewerId,
};
use headlong_units::{BitRate, Duration};
use serde::{Deserialize, Serialize};

use headlong_storage::LearnedState;

/// The complete record. Times in nanoseconds, rates in bits per second.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct StateRecord {
    reference_bytes: Option<u64>,
    drive: Option<DriveRecord>,
    service_ns: u64,
    carried_bps: u64,
    bit_rate_mean_bps: Option<u64>,
    sent_bytes: u64,
    ended: Vec<EndedChainRecord>,
    chains: Vec<ChainRecord>,
}

#[derive(Debug, Serialize, Deserialize)]
struct DriveRecord {
    reposition_ns: u64,
    transfer_ns_per_mib: u64,
}

#[derive(Debug, Serialize, Deserialize)]
struct EndedChainRecord {
    read_bytes: u64,
    whole_bytes: u64,
    rule_bytes_per_mib: u64,
    ahead_bytes: u64,
    pace_bps: u64,
    sent_bytes: u64,
}

#[derive(Debug, Serialize, Deserialize)]
struct ChainRecord {
    /// Persistent name of its stream.
    stream: u64,
    viewer: u64,
    is_named: bool,
    start: u64,
    end: u64,
    position: u64,
    last_request_bytes: u64,
    open_ended: bool,
    pace_bps: u64,
    idle_ns: u64,
}

impl StateRecord {
    pub(crate) fn of(told: &LearnedState) -> Self {
        let learned = &told.learned;
        let chains = told.chains.iter();
        Self {
            reference_bytes: learned.reference_bytes,
            drive: learned.drive.map(|drive| DriveRecord {
                reposition_ns: drive.reposition.0,
                transfer_ns_per_mib: drive.transfer_per_mib.0,
            }),
            service_ns: learned.service.0,
            carried_bps: learned.carried.0,
            bit_rate_mean_bps: learned.bit_rate_mean.map(|rate| rate.0),
            sent_bytes: learned.sent_bytes,
            ended: learned.ended.iter().map(EndedChainRecord::of).collect(),
            chains: chains
                .map(|(name, chain)| ChainRecord::of(*name, chain))
                .collect(),
        }
    }

    /// Converts the record back; it was written `age` ago.
    pub(crate) fn learned(self, age: Duration) -> LearnedState {
        let drive = self.drive.map(|drive| DriveTimes {
            reposition: Duration(drive.reposition_ns),
            transfer_per_mib: Duration(drive.transfer_ns_per_mib),
        });
        LearnedState {
            learned: ShardMeasurements {
                reference_bytes: self.reference_bytes,
                drive,
                service: Duration(self.service_ns),
                carried: BitRate(self.carried_bps),
                bit_rate_mean: self.bit_rate_mean_bps.map(BitRate),
                ended: self
                    .ended
                    .into_iter()
                    .map(EndedChainRecord::ended)
                    .collect(),
                sent_bytes: self.sent_bytes,
            },
            chains: self.chains.into_iter().map(ChainRecord::learned).collect(),
            age,
            told_at: Clock::now(),
        }
    }
}

impl EndedChainRecord {
    fn of(ended: &EndedChain) -> Self {
        Self {
            read_bytes: ended.read_bytes,
            whole_bytes: ended.whole_bytes,
            rule_bytes_per_mib: ended.rule_bytes_per_mib,
            ahead_bytes: ended.ahead_bytes,
            pace_bps: ended.pace.0,
            sent_bytes: ended.sent_bytes,
        }
    }

    fn ended(self) -> EndedChain {
        EndedChain {
            read_bytes: self.read_bytes,
            whole_bytes: self.whole_bytes,
            rule_bytes_per_mib: self.rule_bytes_per_mib,
            ahead_bytes: self.ahead_bytes,
            pace: BitRate(self.pace_bps),
            sent_bytes: self.sent_bytes,
        }
    }
}

impl ChainRecord {
    fn of(stream: u64, chain: &SavedChain) -> Self {
        let (viewer, is_named) = match chain.viewer {
            ReaderIdentity::Named(viewer) => (viewer, true),
            ReaderIdentity::Unnamed { origin, .. } => (origin, false),
        };
        Self {
            stream,
            viewer: viewer.0,
            is_named,
            start: chain.start,
            end: chain.end,
            position: chain.position,
            last_request_bytes: chain.last_request_bytes,
            open_ended: chain.open_ended,
            pace_bps: chain.pace.0,
            idle_ns: chain.idle.0,
        }
    }

    /// The persistent name of its stream, and the chain with a placeholder stream number.
    fn learned(self) -> (u64, SavedChain) {
        let viewer = ViewerId(self.viewer);
        let chain = SavedChain {
            viewer: match self.is_named {
                true => ReaderIdentity::Named(viewer),
                false => ReaderIdentity::Unnamed {
                    origin: viewer,
                    connection: None,
                },
            },
            stream: StreamId(0),
            start: self.start,
            end: self.end,
            position: self.position,
            last_request_bytes: self.last_request_bytes,
            open_ended: self.open_ended,
            pace: BitRate(self.pace_bps),
            idle: Duration(self.idle_ns),
        };
        (self.stream, chain)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All numbers differ, so that swapped fields are detected.
    #[test]
    fn learned_state_survives_a_round_trip() {
        let ended = |n: u64| EndedChain {
            read_bytes: n,
            whole_bytes: n + 1,
            rule_bytes_per_mib: n + 2,
            ahead_bytes: n + 3,
            pace: BitRate(n + 4),
            sent_bytes: n + 5,
        };
        let learned = ShardMeasurements {
            reference_bytes: Some(1),
            drive: Some(DriveTimes {
                reposition: Duration(2),
                transfer_per_mib: Duration(3),
            }),
            service: Duration(4),
            carried: BitRate(5),
            bit_rate_mean: Some(BitRate(6)),
            ended: vec![ended(10), ended(20)],
            sent_bytes: 7,
        };
        let chain = |viewer| SavedChain {
            viewer,
            stream: StreamId(0),
            start: 30,
            end: 31,
            position: 32,
            last_request_bytes: 33,
            open_ended: true,
            pace: BitRate(34),
            idle: Duration(35),
        };
        let unnamed = ReaderIdentity::Unnamed {
            origin: ViewerId(37),
            connection: None,
        };
        let told = LearnedState {
            learned,
            chains: vec![
                (38, chain(ReaderIdentity::Named(ViewerId(36)))),
                (39, chain(unnamed)),
            ],
            age: Duration(0),
            told_at: Clock::now(),
        };
        let text = serde_json::to_string(&StateRecord::of(&told)).expect("text");
        let record: StateRecord = serde_json::from_str(&text).expect("read");
        let read = record.learned(Duration(40));
        assert_eq!(format!("{:?}", read.learned), format!("{:?}", told.learned));
        assert_eq!(format!("{:?}", read.chains), format!("{:?}", told.chains));
        assert_eq!(read.age, Duration(40));
    }
}
