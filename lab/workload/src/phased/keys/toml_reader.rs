//! Reads values from TOML, each within its bounds.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use headlong_random::Empirical;
use headlong_settings::{
    Document, Rejection, Value, ValueKind, choice, number, seconds, size, text, whole,
};

use super::visitor::{CONTENTS, FORMS, KeyVisitor, RATES};
use crate::phased::specification::{PhasedRendition, RateSelection, RequestForm};
use crate::specification::{curve, read_only};

/// Largest number of files of a kind per title.
const RENDITIONS_MAX: usize = 64;

/// Stores a valid value of a key in `value`.
fn take<V: 'static>(document: &mut Document, key: &str, kind: &ValueKind<V>, value: &mut V) {
    if let Some(read) = document.get(key, kind) {
        *value = read;
    }
}

impl KeyVisitor for Document {
    fn text(&mut self, key: &str, value: &mut String) {
        take(self, key, &text(), value);
    }

    fn number(&mut self, key: &str, value: &mut f64, from: f64, to: f64) {
        take(self, key, &number().between(from, to), value);
    }

    fn whole(&mut self, key: &str, value: &mut u64, from: u64, to: u64) {
        take(self, key, &whole().between(from, to), value);
    }

    fn bytes(&mut self, key: &str, value: &mut u64, from: u64, to: u64) {
        take(self, key, &size().between(from, to), value);
    }

    fn seconds(&mut self, key: &str, value: &mut f64, from: f64, to: f64) {
        take(self, key, &seconds().between(from, to), value);
    }

    fn curve(&mut self, key: &str, value: &mut Empirical, from: f64, to: f64) {
        let law = curve(true).check(move |curve, _| {
            let (least, most) = (curve.law.quantile(0.0), curve.law.quantile(1.0));
            match least < from || most > to {
                true => Err(format!(
                    "goes from {least} to {most}; values lie from {from} to {to}"
                )),
                false => Ok(()),
            }
        });
        if let Some(curve) = self.get(key, &law) {
            *value = curve.law;
        }
    }

    fn form(&mut self, key: &str, value: &mut RequestForm) {
        take(self, key, &choice(&FORMS), value);
    }

    fn content(&mut self, key: &str, is_separate: &mut bool) {
        take(self, key, &choice(&CONTENTS), is_separate);
    }

    fn rates(&mut self, key: &str, value: &mut RateSelection) {
        take(self, key, &choice(&RATES), value);
    }

    fn weights(&mut self, key: &str, value: &mut Vec<f64>) {
        let form = "weights like [1, 0.5, 2], one for each part";
        let weights = read_only(form, |value| {
            let items = value.items().ok_or(Rejection::Unfit)?;
            let weights = items.iter().map(|item| number().read(item));
            let weights: Vec<f64> = weights.collect::<Result<_, _>>()?;
            let sum: f64 = weights.iter().sum();
            let is_good = sum > 0.0 && sum.is_finite() && weights.iter().all(|w| *w >= 0.0);
            match is_good && weights.len() <= 100_000 {
                true => Ok(weights),
                false => Err(Rejection::Unfit),
            }
        });
        take(self, key, &weights, value);
    }

    fn renditions(&mut self, key: &str, value: &mut Vec<PhasedRendition>) {
        let form = "[[kbps, share of titles that have it, weight], ...], bit rates ascending";
        take(self, key, &read_only(form, renditions), value);
    }
}

/// `[[kbps, share of titles, weight], ...]`.
fn renditions(value: &Value) -> Result<Vec<PhasedRendition>, Rejection> {
    let items = value.items().ok_or(Rejection::Unfit)?;
    if items.len() > RENDITIONS_MAX {
        let count = items.len();
        return Err(format!("has {count} bit rates; at most {RENDITIONS_MAX}").into());
    }
    let one = |item: &Value| {
        let Some([kbps, share, weight]) = item.items() else {
            return Err(Rejection::Unfit);
        };
        Ok(PhasedRendition {
            kbps: number().between(1.0, 1e7).read(kbps)? as u32,
            titles_share: number().between(0.0, 1.0).read(share)?,
            weight: number().between(0.0, 1e9).read(weight)?,
        })
    };
    let all: Vec<PhasedRendition> = items.iter().map(one).collect::<Result<_, _>>()?;
    let is_ascending = all.windows(2).all(|pair| pair[0].kbps < pair[1].kbps);
    is_ascending.then_some(all).ok_or(Rejection::Unfit)
}
