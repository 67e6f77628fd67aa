use headlong_faults::*;
fn main() {
    let args: Vec<String> = std::env::args().collect();
    let first: u64 = args[1].parse().unwrap();
    let count: u64 = args[2].parse().unwrap();
    let plant = args.get(3).and_then(|name| Plant::from_name(name));
    let start = std::time::Instant::now();
    let mut sum = Counts::default();
    let mut failed = 0;
    for seed in first..first + count {
        let outcome = run(
            &Plan::of(seed),
            How {
                plant,
                with_lines: false,
            },
        );
        let c = outcome.counts;
        sum.steps += c.steps;
        sum.requests += c.requests;
        sum.whole += c.whole;
        sum.bytes += c.bytes;
        sum.flash_reads += c.flash_reads;
        sum.found_records += c.found_records;
        sum.starts += c.starts;
        if let Some(violation) = outcome.violation {
            failed += 1;
            println!("seed {seed}: {violation}");
            if plant.is_some() {
                break;
            }
        }
    }
    println!("{failed} failed, {sum:?} in {:?}", start.elapsed());
}
