use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;
use warpseek_exec::Context;
use warpseek_index::*;
use warpseek_ngram::*;
use warpseek_text::*;
fn main() {
    let a: Vec<String> = std::env::args().collect();
    if a[1] == "build" {
        let config = BuildConfig {
            grams: Some(GramConfig::default()),
            store: StoreMode::Ids,
            codec: std::env::var("CODEC").unwrap_or("bitpack".into()).parse().unwrap(),
            ..Default::default()
        };
        let t = Instant::now();
        let r = create(
            &PathBuf::from(&a[3]),
            &[PathBuf::from(&a[2])],
            &config,
            true,
            &Progress::default(),
        )
        .unwrap();
        println!("{:?} {:?}", t.elapsed(), r);
        let i = inspect(&PathBuf::from(&a[3])).unwrap();
        println!("{:?} doc bits {:.2} map bits {:.2}", i.sizes, i.bits_per_doc, i.bits_per_freq);
        println!("{:?}", i.histogram);
        return;
    }
    let snap = Arc::new(Snapshot::open(&PathBuf::from(&a[2])).unwrap());
    let s = Searcher::new(snap.clone()).unwrap();
    let alg: Algorithm = a[4].parse().unwrap();
    let ctx = Context::new(1);
    let lines: Vec<(u32, u32, String)> = std::fs::read_to_string(&a[3])
        .unwrap()
        .lines()
        .map(|l| {
            let v: Vec<&str> = l.split('\t').collect();
            (v[1].parse().unwrap(), v[2].parse().unwrap(), v[4].to_string())
        })
        .collect();
    for m in a[5].split(',') {
        for e in 0..5 {
            let qs: Vec<_> = lines
                .iter()
                .filter(|l| l.0 == e)
                .map(|l| {
                    let m = if m == "e" { e * 3 } else { m.parse().unwrap() };
                    (s.query(&l.2, Misses::Count(m)).unwrap(), l.1)
                })
                .collect();
            if qs.is_empty() {
                continue;
            }
            for (q, _) in &qs {
                s.search(q, 10, alg, &ctx).unwrap();
            }
            let mut best = f64::MAX;
            let mut recall = 0.0;
            let mut sum = 0u64;
            for _ in 0..5 {
                sum = 0;
                let t = Instant::now();
                let mut found = 0;

                for (q, d) in &qs {
                    let x = s.search(q, 10, alg, &ctx).unwrap();
                    found += x.hits.iter().any(|h| h.doc == *d) as u32;
                    for h in x.hits {
                        sum = sum.wrapping_mul(31) + h.doc as u64 * 7 + h.score as u64;
                    }
                }
                best = best.min(t.elapsed().as_secs_f64() * 1e3 / qs.len() as f64);
                recall = found as f64 / qs.len() as f64;
            }
            println!("{alg} misses {m} errors {e}: {best:.3} ms recall {recall:.3} sum {sum:x}");
        }
    }
}
