//! `headlong disk probe`, for devices and models.

use headlong_drive::DriveSpec;
use headlong_survey::{ProbeOptions, ProbedDrive, probe_page};
use headlong_vdisk::ModelTarget;

use super::fit::{model, model_of_model};
use super::{mark_mistakes, mistake};
use crate::drive_args::drive_spec;

/// Measures a drive and prints the result.
pub(crate) fn probe(probing: &ProbeOptions) -> anyhow::Result<()> {
    probing.check().map_err(mark_mistakes)?;
    let done = match probing.is_of_model() {
        true => {
            let subject = modelled(&spec(probing.drive())?);
            headlong_survey::probe(probing, subject, &model_of_model, &probe_page)
        }
        false => {
            let subject = probing.device().map_err(mark_mistakes)?;
            headlong_survey::probe(probing, subject, &model, &probe_page)
        }
    };
    done.map_err(mark_mistakes)
}

fn spec(name: &str) -> anyhow::Result<DriveSpec> {
    drive_spec(name).map_err(|error| match name.ends_with(".toml") {
        true => mistake(error),
        false => mistake(format!(
            "{error}; a device is named by its path, such as /dev/sdb"
        )),
    })
}

fn modelled(spec: &DriveSpec) -> ProbedDrive {
    ProbedDrive {
        name: spec.name().to_string(),
        kind: "a model, in virtual time",
        target: Box::new(ModelTarget::new(spec)),
        rotational: Some(spec.rpm().is_some()),
        rpm: spec.rpm(),
        // Costs nothing on a model, and is the main question for an SSD.
        finds_blocks: spec.rpm().is_none(),
        settle: 1.0,
    }
}
