//! Every algorithm of this crate against the suite of all engines.

use warpseek_exec_cpu::{Algorithm, CpuEngine};
use warpseek_testkit::conformance;

macro_rules! algorithms {
    ($($name:ident $algorithm:expr,)*) => {
        $(conformance!($name, |snapshot, threads| Box::new(CpuEngine::new(snapshot, $algorithm, threads)));)*
    };
}

algorithms! {
    daat Some(Algorithm::Daat),
    taat Some(Algorithm::Taat),
    wand Some(Algorithm::Wand),
    maxscore Some(Algorithm::MaxScore),
    block_max_wand Some(Algorithm::BlockMaxWand),
    block_max_maxscore Some(Algorithm::BlockMaxMaxScore),
    ranges Some(Algorithm::Ranges),
    auto None,
}
