//! Chains as comma-separated values.

use std::io::Write as _;

use headlong_chains::Chain;

use super::order::NameOrder;
use crate::names::Name;
use crate::quoted::quote;

/// Appends the rows of one session.
pub(super) fn append(
    rows: &mut Vec<u8>,
    chains: &[Chain],
    sessions: &NameOrder<'_>,
    files: &NameOrder<'_>,
) {
    let Some(first) = chains.first() else {
        return;
    };
    let mut session = Vec::new();
    put_name(&mut session, sessions.name(first.session));
    for chain in chains {
        rows.extend_from_slice(&session);
        rows.push(b',');
        put_name(rows, files.name(chain.file));
        rows.push(b',');
        put_number(rows, chain.start);
        rows.push(b',');
        put_number(rows, chain.length);
        for moment_ms in [chain.start_ms, chain.end_ms] {
            rows.push(b',');
            if moment_ms < 0 {
                rows.push(b'-');
            }
            put_number(rows, moment_ms.unsigned_abs());
        }
        rows.extend_from_slice(if chain.is_open { b",1," } else { b",0," });
        put_number(rows, u64::from(chain.requests));
        rows.push(b'\n');
    }
}

/// Writes a name as it was in the log; quoted if it would be read as several cells.
pub(super) fn put_name(rows: &mut Vec<u8>, name: Name<'_>) {
    if let Name::Number(number) = name {
        return put_number(rows, number);
    }
    let from = rows.len();
    write!(rows, "{name}").expect("write to memory");
    quote(rows, from);
}

fn put_number(rows: &mut Vec<u8>, mut number: u64) {
    // The largest number has twenty digits.
    let mut digits = [0; 20];
    let mut from = digits.len();
    loop {
        from -= 1;
        digits[from] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    rows.extend_from_slice(&digits[from..]);
}
