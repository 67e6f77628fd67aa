//! The full report on a table: points, and their comparison with the thesis.

use headlong_engine::Policy;
use serde::Serialize;

use crate::claims::{Claim, claims};
use crate::drive::DriveRates;
use crate::first_sizes::{FirstSizes, first_sizes};
use crate::point::{CostPoint, SimulationError, SimulationSettings};
use crate::read::DroppedLines;
use crate::sizes::Algorithm;
use crate::survival::{SurvivalFit, survival};
use crate::sweep::{Sweep, SweepResult};
use crate::table::ChainTable;

/// Largest first prefetch evaluated, bytes.
const FIRST_BYTES_MAX: u64 = 64 << 20;

/// Description of the table.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TableSource {
    /// Origin.
    pub name: String,
    /// Number of chains.
    pub chains: usize,
    /// Their total bytes.
    pub bytes: u64,
    /// Drives that count.
    pub drives: usize,
    /// First minute.
    pub first_minute: usize,
    /// Number of minutes.
    pub minutes: usize,
    /// Chains without a bit rate, sized as if they had 2,000 kbit/s.
    pub without_bit_rate: usize,
    /// Chains whose file is missing in the files table.
    pub unlisted: u64,
    /// Dropped lines.
    pub dropped: DroppedLines,
}

/// Parameters of the simulation.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SimulationParameters {
    /// Bytes of a MB.
    pub mb: u64,
    /// Bytes of a GB.
    pub gb: u64,
    /// The drive.
    #[serde(flatten)]
    pub drive: DriveRates,
}

/// The report.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SimulationReport {
    /// The table.
    pub source: TableSource,
    /// The settings.
    pub given: SimulationParameters,
    /// Every rule at every size.
    pub points: SweepResult,
    /// Table 5.6.
    pub first_sizes: FirstSizes,
    /// Figure 5.13 and the growth derived from it.
    pub survival: SurvivalFit,
    /// Comparison with the claims of the thesis.
    pub claims: Vec<Claim>,
}

impl TableSource {
    /// Description of a parsed or generated table.
    pub fn of(name: impl Into<String>, table: &ChainTable, settings: &SimulationSettings) -> Self {
        let minutes = table.minutes();
        Self {
            name: name.into(),
            chains: table.len(),
            // At most 2^60, as checked by the table.
            bytes: table.total_bytes() as u64,
            drives: settings.drives(table),
            first_minute: minutes.start,
            minutes: minutes.len(),
            without_bit_rate: table.without_bit_rate(),
            unlisted: 0,
            dropped: DroppedLines::default(),
        }
    }
}

impl SimulationReport {
    /// Simulates everything; if `is_fitted`, also First-Grow and First-Grow-SR with first sizes and
    /// growth fitted to this table. `seen` receives each point when it is done.
    ///
    /// # Errors
    /// As [`CostPoint::simulate`].
    pub fn make(
        source: TableSource,
        table: &ChainTable,
        sweep: &Sweep,
        settings: &SimulationSettings,
        is_fitted: bool,
        seen: impl FnMut(&CostPoint),
    ) -> Result<Self, SimulationError> {
        let first_sizes = first_sizes(table, settings.drive.seek_bytes(), FIRST_BYTES_MAX);
        let survival = survival(table);
        let mut sweep = sweep.clone();
        if is_fitted {
            let growth = survival.growth(&first_sizes);
            let policies: Vec<Policy> = sweep.algorithms.iter().map(|one| one.policy).collect();
            let growing = policies.into_iter().filter(|one| Algorithm::grows(*one));
            sweep.algorithms.extend(growing.map(|policy| Algorithm {
                policy,
                fitted: Some(growth),
            }));
        }
        let points = sweep.run(table, settings, seen)?;
        Ok(Self {
            source,
            given: SimulationParameters {
                mb: settings.megabyte.bytes(),
                gb: settings.megabyte.gigabyte(),
                drive: settings.drive,
            },
            claims: claims(&points),
            points,
            first_sizes,
            survival,
        })
    }
}
