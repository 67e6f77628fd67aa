//! Exceptions, and the errors of the libraries as such.

use headlong_trace::{CharacteriseError, IntakeError};
use pyo3::exceptions::{PyException, PyOSError};
use pyo3::{PyErr, create_exception};

create_exception!(
    headlong,
    HeadlongError,
    PyException,
    "Base class of the exceptions of this package."
);
create_exception!(
    headlong,
    LogError,
    HeadlongError,
    "A log cannot be read or recognised, or too many of its lines were dropped."
);
create_exception!(
    headlong,
    ShardError,
    HeadlongError,
    "A shard or partial sum is of another version, log, split or rules, repeated, cut or missing."
);

/// An error of intake: one that the caller can fix is a [`LogError`], the rest an `OSError`.
pub(crate) fn of_intake(error: IntakeError) -> PyErr {
    match error {
        IntakeError::Spill { .. } => PyOSError::new_err(error.to_string()),
        _ => LogError::new_err(error.to_string()),
    }
}

/// An error of characterisation.
pub(crate) fn of_characterise(error: CharacteriseError) -> PyErr {
    match error {
        CharacteriseError::Shards(error) => of_shards(error),
        _ => LogError::new_err(error.to_string()),
    }
}

/// An error of shards: one of the system is an `OSError`.
pub(crate) fn of_shards(error: headlong_trace::ShardError) -> PyErr {
    use headlong_trace::ShardError as Error;
    match error {
        Error::Read { .. } | Error::Write { .. } => PyOSError::new_err(error.to_string()),
        _ => ShardError::new_err(error.to_string()),
    }
}
