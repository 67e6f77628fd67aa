//! The visitor of all keys, and the names of enumerated values.

use alloc::string::String;
use alloc::vec::Vec;

use headlong_random::Empirical;

use crate::phased::specification::{PhasedRendition, RateSelection, RequestForm};

/// Reads or writes values by key.
pub(super) trait KeyVisitor {
    fn text(&mut self, key: &str, value: &mut String);
    fn number(&mut self, key: &str, value: &mut f64, from: f64, to: f64);
    fn whole(&mut self, key: &str, value: &mut u64, from: u64, to: u64);
    fn bytes(&mut self, key: &str, value: &mut u64, from: u64, to: u64);
    fn seconds(&mut self, key: &str, value: &mut f64, from: f64, to: f64);
    fn curve(&mut self, key: &str, value: &mut Empirical, from: f64, to: f64);
    fn form(&mut self, key: &str, value: &mut RequestForm);
    fn content(&mut self, key: &str, is_separate: &mut bool);
    fn rates(&mut self, key: &str, value: &mut RateSelection);
    fn weights(&mut self, key: &str, value: &mut Vec<f64>);
    fn renditions(&mut self, key: &str, value: &mut Vec<PhasedRendition>);
}

pub(super) const FORMS: [(&str, RequestForm); 2] =
    [("chunk", RequestForm::Chunk), ("open", RequestForm::Open)];
pub(super) const CONTENTS: [(&str, bool); 2] = [("separate", true), ("combined", false)];
pub(super) const RATES: [(&str, RateSelection); 2] = [
    ("several", RateSelection::Several),
    ("one", RateSelection::One),
];
