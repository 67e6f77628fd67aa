//! Partial sums: the sums over some shards of a log, which can be stored, merged and reported.

use std::path::Path;

use headlong_chains::ChainRules;
use headlong_characterise::{Accumulators, Characterisation, Merge as _};
use headlong_report::write_output;
use serde::{Deserialize, Serialize};

use super::constants::LogConstants;
use super::error::ShardError;
use super::framing::StoredKind;
use super::session_sums::sum_sessions;
use super::shard::{Shard, SplitIdentity};

/// The sums over some shards of a log.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PartialSums {
    constants: LogConstants,
    split: SplitIdentity,
    rules: ChainRules,
    sums: Accumulators,
    shards: Vec<SummedShard>,
}

/// A shard, and the file that its sums came from.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct SummedShard {
    number: u32,
    name: String,
}

impl PartialSums {
    /// The sums of a whole log, as its only shard.
    pub(crate) fn whole(constants: LogConstants, rules: ChainRules, sums: Accumulators) -> Self {
        let split = SplitIdentity::whole(&constants);
        Self::of_shard(constants, (split, 0), rules, sums)
    }

    /// The sums of this shard of a log.
    pub(crate) fn of_shard(
        constants: LogConstants,
        (split, number): (SplitIdentity, u32),
        rules: ChainRules,
        sums: Accumulators,
    ) -> Self {
        let name = constants.logs();
        Self {
            split,
            constants,
            rules,
            sums,
            shards: vec![SummedShard { number, name }],
        }
    }

    /// Sums a shard. `done` is called with the number of requests processed so far.
    ///
    /// # Errors
    /// If the shard cannot be read back, or has a session of another shard.
    pub fn of(
        shard: &Shard,
        rules: ChainRules,
        threads: usize,
        done: impl Fn(u64) + Sync,
    ) -> Result<Self, ShardError> {
        let log = shard.constants().context();
        let check = |_, _: &mut _, requests: &mut [_]| Ok(shard.check(requests)?);
        let how = (rules, threads);
        let waits_for_none = (check, || ());
        let sums = sum_sessions::<ShardSumError>(shard.parts(), &log, how, waits_for_none, done);
        Ok(Self {
            sums: sums.map_err(|error| error.named(shard))?,
            constants: shard.constants().clone(),
            split: shard.split(),
            rules,
            shards: vec![SummedShard {
                number: shard.number(),
                name: shard.name().to_owned(),
            }],
        })
    }

    /// Adds the sums of other shards. On an error nothing was added.
    ///
    /// # Errors
    /// If the other sums are of another log, split or rules, or of a shard that is here already.
    pub fn merge(&mut self, other: Self) -> Result<(), ShardError> {
        let name = |of: &Self| of.shards.first().map_or(String::new(), |s| s.name.clone());
        if self.split != other.split {
            return Err(ShardError::Log {
                one: name(self),
                ours: self.constants.logs(),
                other: name(&other),
                theirs: other.constants.logs(),
            });
        }
        if self.rules != other.rules {
            return Err(ShardError::Rules {
                one: name(self),
                ours: rules_text(&self.rules),
                other: name(&other),
                theirs: rules_text(&other.rules),
            });
        }
        for theirs in &other.shards {
            let ours = self.shards.iter().find(|ours| ours.number == theirs.number);
            if let Some(ours) = ours {
                return Err(ShardError::Twice {
                    one: ours.name.clone(),
                    other: theirs.name.clone(),
                    shard: theirs.number,
                    of: self.split.shards,
                });
            }
        }
        self.sums.merge(other.sums);
        self.shards.extend(other.shards);
        Ok(())
    }

    /// Numbers of the shards that are summed, ascending, from 0.
    pub fn shards(&self) -> Vec<u32> {
        let mut numbers: Vec<u32> = self.shards.iter().map(|shard| shard.number).collect();
        numbers.sort_unstable();
        numbers
    }

    /// Number of shards of the whole log.
    pub fn shards_total(&self) -> u32 {
        self.split.shards
    }

    /// The rules by which requests were joined to chains.
    pub fn rules(&self) -> ChainRules {
        self.rules
    }

    /// Remarks on the intake of the whole log.
    pub fn notes(&self) -> &[String] {
        self.constants.notes()
    }

    /// The words given to the split, by [`SplitSettings::words`](super::SplitSettings::words).
    pub fn words(&self) -> &[String] {
        &self.constants.words
    }

    /// The report; `title` and `command` are those of the report.
    ///
    /// # Errors
    /// If a shard is missing.
    pub fn report(self, title: &str, command: &str) -> Result<Characterisation, ShardError> {
        let have = self.shards();
        let missing = (0..self.split.shards).find(|number| have.binary_search(number).is_err());
        if let Some(missing) = missing {
            return Err(ShardError::Missing {
                first: self
                    .shards
                    .first()
                    .map_or(String::new(), |s| s.name.clone()),
                have: have.len(),
                missing,
                of: self.split.shards,
            });
        }
        let about = self.constants.about(title, command);
        let context = self.constants.context_of(&self.sums);
        let mut told = self.sums.finish(&context, about);
        told.observed.name = self.constants.name(title);
        Ok(told)
    }

    /// The bytes of a file that holds these sums.
    pub fn to_bytes(&self) -> Vec<u8> {
        StoredKind::Partial.framed(self)
    }

    /// Reads such bytes; `name` is theirs in messages.
    ///
    /// # Errors
    /// If they are of another version, cut or damaged.
    pub fn from_bytes(name: &str, bytes: &[u8]) -> Result<Self, ShardError> {
        let mut read: Self = StoredKind::Partial.contents(name, bytes)?;
        if !read.constants.are_possible() {
            return Err(StoredKind::Partial.damaged(name));
        }
        let mut sums = Accumulators::new(&read.constants.context());
        // Whatever the bytes say, no list is shorter than the log needs.
        sums.merge(read.sums);
        read.sums = sums;
        for shard in &mut read.shards {
            name.clone_into(&mut shard.name);
        }
        Ok(read)
    }

    /// Writes the file, completely or not at all.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), ShardError> {
        write_output(path, &self.to_bytes()).map_err(|source| ShardError::Write {
            path: path.to_owned(),
            source,
        })
    }

    /// Reads a file.
    ///
    /// # Errors
    /// If it cannot be read, is of another version, cut or damaged.
    pub fn read(path: &Path) -> Result<Self, ShardError> {
        let name = path.display().to_string();
        match std::fs::read(path) {
            Ok(bytes) => Self::from_bytes(&name, &bytes),
            Err(source) => Err(ShardError::Read { name, source }),
        }
    }
}

/// Why the sessions of a shard could not be summed, before the file is named.
enum ShardSumError {
    Shard(ShardError),
    Parts(crate::PartitionsError),
}

impl From<crate::PartitionsError> for ShardSumError {
    fn from(error: crate::PartitionsError) -> Self {
        Self::Parts(error)
    }
}

impl From<ShardError> for ShardSumError {
    fn from(error: ShardError) -> Self {
        Self::Shard(error)
    }
}

impl ShardSumError {
    fn named(self, shard: &Shard) -> ShardError {
        match self {
            Self::Shard(error) => error,
            Self::Parts(source) => ShardError::Parts {
                name: shard.name().to_owned(),
                source,
            },
        }
    }
}

fn rules_text(rules: &ChainRules) -> String {
    format!("{:?}, {:?}", rules.gap, rules.link).to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::super::framing::stored;
    use super::*;
    use crate::{CharacteriseSettings, Intake, SilentProgress, characterise_sums, take_in};

    #[test]
    fn partial_sums_keep_their_bytes() {
        let folder = tempfile::tempdir().expect("a folder");
        let log = folder.path().join("log.csv");
        let mut text = String::from("ts_ms,service_ms,session,device,file,offset,size,bytes\n");
        for number in 0..3000_u64 {
            let (session, piece) = (number % 50, number / 50);
            let bytes = 300_000 + 7 * session;
            text.push_str(&format!(
                "{},{},{session},{},film-{}.mp4,{},{bytes},{bytes}\n",
                1_000_000 + piece * 15_000 + session * 77,
                400 + session,
                session % 3,
                session % 9,
                piece * bytes,
            ));
        }
        std::fs::write(&log, text).expect("written");
        let intake = Intake {
            logs: vec![log],
            memory_bytes_max: 128 << 20,
            threads: 1,
            ..Intake::default()
        };
        let settings = CharacteriseSettings {
            rules: ChainRules::default(),
            threads: 1,
            tables: None,
            title: String::new(),
            command: String::new(),
        };
        let taken = take_in(&intake, &SilentProgress).expect("a readable log");
        let sums = characterise_sums(&taken, &settings, |_| {}).expect("sums");
        let hash = xxhash_rust::xxh3::xxh3_64(&stored(&sums.sums));
        // If this differs, sums are stored or added up otherwise: raise FORMAT, and put the new hash.
        assert_eq!(
            (super::super::framing::FORMAT, hash),
            (1, 9_185_961_340_746_184_346)
        );
    }
}
