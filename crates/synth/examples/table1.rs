//! Prints the counts of (Wakatsuki 2016, table 1) for collections with the same numbers of
//! documents, and the speed of generation: `cargo run --release -p warpseek-synth --example table1
//! [burst]`.

use std::time::{Duration, Instant};

use warpseek_synth::{MAX_VOCABULARY, TextConfig, TextFormat, TextGenerator, write_document};

/// The numbers of documents at 100 MB, 200 MB and so on.
const ROWS: [u64; 5] = [24_411, 48_725, 73_163, 97_683, 122_178];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let burst = std::env::args().nth(1).map_or(Ok(0.0), |given| given.parse())?;
    let generator = TextGenerator::new(TextConfig { burst, ..TextConfig::table1() })?;
    let mut seen = vec![false; MAX_VOCABULARY as usize];
    let (mut words, mut pairs, mut distinct, mut bytes) = (0, 0, 0, 0);
    let (mut ranks, mut out) = (Vec::new(), Vec::new());
    let mut spent = Duration::ZERO;
    let mut ordinal = 0;
    println!("documents\twords\tpairs\tdistinct\tbytes\tMB/s");
    for documents in ROWS {
        while ordinal < documents {
            let start = Instant::now();
            out.clear();
            generator.document(ordinal, &mut ranks);
            write_document(TextFormat::Words, ordinal, &ranks, &mut out);
            spent += start.elapsed();
            ordinal += 1;
            words += ranks.len();
            bytes += out.len();
            ranks.sort_unstable();
            ranks.dedup();
            pairs += ranks.len();
            for &rank in &ranks {
                distinct += usize::from(!std::mem::replace(&mut seen[rank as usize], true));
            }
        }
        let speed = bytes as f64 / 1e6 / spent.as_secs_f64();
        println!("{documents}\t{words}\t{pairs}\t{distinct}\t{bytes}\t{speed:.1}");
    }
    Ok(())
}
