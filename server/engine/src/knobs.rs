//! The engine's settings by name, one row for each.
//!
//! A setting is a field of [`EngineConfig`], which holds its default and its relation to other
//! fields, and a row here. The server's configuration, `simulate --set server.KEY` and the manual
//! read these rows; a new setting needs no other change. Rows of [`Tier::Lab`] are for simulations
//! only: every value that operators had reason to write is the default, or is derived.

use alloc::format;
use alloc::string::String;

use headlong_flash::FlashPolicy;
use headlong_settings::{Rows, Tier, Value, ValueKind, bit_rate, named, size, time, whole};
use headlong_units::{BitRate, Duration, KIB, MIB};

use crate::config::{Admission, Control, EngineConfig, Order, Policy, Prefetch, Retention};

const PIECE_MIN: u64 = 4 * KIB;

/// Every setting of an engine.
#[rustfmt::skip]
pub fn knobs() -> Rows<EngineConfig> {
    use Tier::{Basic, Expert, Lab};
    let mut rows = Rows::<EngineConfig>::default();
    rows.add("memory", size().at_least(8 * PIECE_MIN), |c| &mut c.memory_bytes,
        "The whole budget for pieces of files, at least eight of them (`piece`). Devices with a `memory` of their own get that; the others share the rest equally.").restart();
    rows.add("piece", size().between(PIECE_MIN, 2 * MIB).check(power_of_two), |c| &mut c.piece_bytes,
        "The unit of memory and the alignment of reads: a power of two from 4KiB to 2MiB.").restart().tier(Expert);
    rows.add("policy", policy(), |c| &mut c.sizing.policy,
        "How the size of a prefetch is chosen: a constant, proportional to the bit rate or to its square root, or growing with the length of the chain (first-grow; first-grow-sr also scales its largest size with the square root).").tier(Expert);
    rows.add_with(
        "prefetch",
        prefetch(),
        EngineConfig::prefetch, EngineConfig::set_prefetch,
        "The policy's reference size: the size itself (fixed), the size for a title of 2000 kbps (proportional, square-root), or the largest size (first-grow, first-grow-sr). `auto` finds it for each device while it serves, from the device's measured times, the viewers and the memory; `auto-paper` by the slower descent of the published controller. See prefetch-size.md.",
    );
    rows.add("prefetch_start", size().optional(), |c| &mut c.control.start_bytes,
        "The size that `auto` and `auto-paper` begin with if none is remembered. If not set, `auto` begins with a 300th of the memory, from 5 to 12 MiB, and `auto-paper` with a size derived from the measured device.").tier(Lab);
    rows.add("prefetch_step", size().at_least(1), |c| &mut c.control.step_bytes,
        "Step by which `auto-paper` changes the size.").tier(Lab);
    rows.add("adjust_interval", some_time(), |c| &mut c.control.adjust_interval,
        "How long a device is measured before `auto` or `auto-paper` changes its size.").tier(Lab);
    rows.add("reference_bit_rate", some_rate(), |c| &mut c.sizing.reference_bit_rate,
        "The bit rate that `prefetch` is for.").tier(Lab);
    rows.add("order", named(Order::ALL, Order::name), |c| &mut c.order,
        "Which job a device does next: the oldest, the next one upwards by physical position, or the latter unless a viewer is about to run dry.").tier(Expert);
    rows.add("retention", named(Retention::ALL, Retention::name), |c| &mut c.retention,
        "Which pieces to keep once they have been read: those that are expected to be read again soonest, by a viewer a little behind or because their part of the title is read often; or, for comparisons, the most recently used, or everything by last use, including unread pieces.").tier(Expert);
    rows.add("read_max", size(), |c| &mut c.read_bytes_max,
        "Largest run of bytes that merged jobs read at once.").tier(Expert);
    rows.add("outstanding_reads_rotating", whole().at_least(1), |c| &mut c.outstanding_reads_max,
        "Most runs of reads that a device with moving parts works on at a time; a run is one prefetch with the chunk files that it continues in. Every device begins with one run, and gets the beginning of the next when that is nearly complete. Twice as many are tried for 32 runs every 15 minutes, and stay if they transferred more.").tier(Expert);
    rows.add("outstanding_reads_flash", whole().at_least(1), |c| &mut c.outstanding_reads_flash,
        "Most outstanding reads of a device without moving parts.").tier(Lab);
    rows.add("outstanding_max", size(), |c| &mut c.outstanding_bytes_max,
        "No further read is issued to a device while the outstanding ones have this many bytes in total.").tier(Expert);
    rows.add("ahead_horizon", time(), |c| &mut c.ahead_horizon,
        "While fewer than four jobs wait, a chain's next prefetch is queued when its remaining bytes last no longer than this, or than its next request. With more waiting, or with `\"0s\"`, it is queued only when bytes are missing.").tier(Expert);
    rows.add("sweep", some_time(), |c| &mut c.sweep,
        "With `order = \"deadline-elevator\"`, the longest planned duration of one sweep over the jobs of viewers about to run dry. Longer sweeps save seeks; shorter ones let a viewer just behind the head wait less.").tier(Lab);
    rows.add("chain_gap", time(), |c| &mut c.chain_gap,
        "Two requests of one viewer for one file belong to one chain if at most this far apart.").tier(Expert);
    rows.add("patience", time(), |c| &mut c.patience,
        "How long a viewer that is already playing may wait for bytes that are not in memory. A device that cannot meet this refuses new viewers, if `admission` is `refuse`; while replies are delivered quickly and no viewer leaves while waiting, only at up to twice this time.");
    rows.add("startup_patience", time(), |c| &mut c.startup_patience,
        "The same for a viewer that starts, seeks, or reports that it is about to run dry.").tier(Lab);
    rows.add("pace_default", some_rate(), |c| &mut c.pace_default,
        "Assumed reading speed of a viewer without an observed or reported one.").tier(Lab);
    rows.add("send_window", size(), |c| &mut c.send_window_bytes,
        "Bytes handed to one reply that its socket has not yet taken.").tier(Lab);
    rows.add("admission", named(Admission::ALL, Admission::name), |c| &mut c.admission,
        "What new viewers get from a device that cannot meet its deadlines: status 503 with Retry-After, or their share of the slowness.").tier(Basic);
    rows.add("read_timeout", some_time(), |c| &mut c.read_timeout,
        "A read that takes longer counts as an error of the device, and the replies that wait for it fail.");
    rows.add("wait_timeout", some_time(), |c| &mut c.wait_timeout,
        "A reply that has waited this long for its next bytes, whether for its turn, for memory or for the device, fails.").tier(Expert);
    rows.add("error_window", some_time(), |c| &mut c.error_window,
        "Window over which the errors of a device are counted.").tier(Lab);
    rows.add("errors_offline", whole().at_least(1), |c| &mut c.errors_offline,
        "Errors in this many regions (of 16 MiB) within a minute take a device out of service, if most of its last reads failed.").tier(Expert);
    rows.add("offline_retry", some_time(), |c| &mut c.offline_retry,
        "How often a device out of service is retried.").tier(Expert);
    rows.add("flash_policy", named(FlashPolicy::ALL, FlashPolicy::name), |c| &mut c.flash.policy,
        "Admission to flash: `adaptive` writes the pieces that save the disk most for each byte written; the others write every piece that leaves memory, and replace the block that was read least recently, or least often (FlashStream).").tier(Expert);
    rows.add("flash_write_per_day", size().at_least(MIB).optional(), |c| &mut c.flash.write_per_day_bytes,
        "Most bytes that one device's part of the flash tier writes in any 24 hours; the initial fill of a new SSD is extra. If not set, three tenths of its size.");
    rows.add("flash_horizon", some_time(), |c| &mut c.flash.horizon,
        "Time after which a read has half its weight in the popularity that `flash_policy = \"adaptive\"` computes.").tier(Lab);
    rows.add("requests_max", whole().at_least(1), |c| &mut c.requests_max,
        "Most requests in progress at one device.").tier(Lab);
    rows.add("chains_max", whole().at_least(1), |c| &mut c.chains_max,
        "Most chains remembered for one device.").tier(Lab);
    rows.add("streams_max", whole().at_least(1), |c| &mut c.streams_max,
        "Most streams registered with one device at a time.").tier(Lab);
    rows
}

/// Rules for the size of a prefetch.
fn policy() -> ValueKind<Policy> {
    named(Policy::ALL, Policy::name)
}

/// A size, or the name of the controller that finds it.
pub fn prefetch() -> ValueKind<Prefetch> {
    let size = size().map(Prefetch::Size, |prefetch| prefetch.size().unwrap_or(0));
    [Control::Auto, Control::Paper]
        .into_iter()
        .fold(size, |kind, mode| {
            kind.or_word(mode.name(), Prefetch::Found(mode))
        })
}

/// A duration that is not zero.
fn some_time() -> ValueKind<Duration> {
    time().at_least(Duration::from_millis(1))
}

/// A rate that is not zero.
fn some_rate() -> ValueKind<BitRate> {
    bit_rate().at_least(BitRate::from_kbps(1))
}

fn power_of_two(bytes: &u64, written: &Value) -> Result<(), String> {
    match bytes.is_power_of_two() {
        true => Ok(()),
        false => Err(format!(
            "{} is not a power of two; write one from 4KiB to 2MiB",
            written.quoted()
        )),
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;
    use crate::config::ConfigError;

    #[test]
    fn prefetch_is_a_size_or_a_controller() {
        let (rows, mut config) = (knobs(), EngineConfig::default());
        let mut set = |name, value: &str| rows.set(&mut config, name, &Value::of_word(value));
        set("prefetch", "auto-paper").expect("a controller");
        set("prefetch_start", "2MiB").expect("a size");
        let error = set("prefetch", "automatic").expect_err("neither a size nor a controller");
        assert!(error.contains("auto-paper"), "{error}");
        assert_eq!(config.control.mode, Control::Paper);
        assert_eq!(config.control.start_bytes, Some(2 * MIB));
        rows.set(&mut config, "prefetch", &Value::of_word("6MiB"))
            .expect("a size");
        assert_eq!(config.prefetch(), Prefetch::Size(6 * MIB));
    }

    #[test]
    fn errors_name_existing_settings() {
        let mut wrong = EngineConfig {
            piece_bytes: 5000,
            memory_bytes: 0,
            read_bytes_max: 0,
            outstanding_reads_max: 0,
            outstanding_reads_flash: 0,
            requests_max: 0,
            ..EngineConfig::default()
        };
        wrong.sizing.reference_bytes = 0;
        let errors: Vec<ConfigError> = wrong.check().collect();
        assert_eq!(errors.len(), 7, "{errors:?}");
        let rows = knobs();
        for error in errors {
            let names = error.setting().replace(" and ", ", ");
            for name in names.split(", ") {
                assert!(rows.iter().any(|row| row.split().1 == name), "{name}");
            }
        }
    }

    #[test]
    fn every_default_is_a_valid_value() {
        let (rows, mut config) = (knobs(), EngineConfig::default());
        for row in rows.iter() {
            let shown = row.value(&mut config);
            if !shown.is_empty() {
                let set = rows.set(&mut config, row.name, &Value::of_word(&shown));
                assert_eq!(set, Ok(()), "{} = {shown}", row.name);
            }
        }
        assert_eq!(config, EngineConfig::default());
    }
}
