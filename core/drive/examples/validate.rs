//! x
use headlong_drive::*;
fn main() {
    for p in presets() {
        let spec = p.spec();
        for kb in [4, 64, 512u64, 2048, 4096, 8192] {
            println!(
                "{kb} {:.2} ncq4 {:.2} ncq {:.2} seq {:.1}",
                random_rate(&mut *spec.build(), kb << 10, 2000, 1) / 1e6,
                random_rate(&mut *spec.build(), kb << 10, 2000, 4) / 1e6,
                random_rate(&mut *spec.build(), kb << 10, 2000, 32) / 1e6,
                sequential_rate(&mut *spec.build(), 0, kb << 10, 200) / 1e6
            );
        }
        let t = std::time::Instant::now();
        let _ = random_rate(&mut *spec.build(), 1 << 20, 1_000_000, 1);
        println!("qd1 random {:?}", t.elapsed());
        let t = std::time::Instant::now();
        let _ = random_rate(&mut *spec.build(), 1 << 20, 1_000_000, 4);
        println!("qd4 random {:?}", t.elapsed());
        let t = std::time::Instant::now();
        let _ = random_rate(&mut *spec.build(), 1 << 20, 1_000_000, 32);
        println!("qd32 random {:?}", t.elapsed());
        let t = std::time::Instant::now();
        let _ = sequential_rate(&mut *spec.build(), 0, 1 << 20, 900_000);
        println!("seq 900k {:?}", t.elapsed());
    }
}
