//! Runs the conformance suite of all engines on every algorithm of this crate.

use warpseek_exec::Engine;
use warpseek_exec_cpu::{Algorithm, CpuEngine};
use warpseek_testkit::conformance;

macro_rules! algorithms {
    ($($name:ident $algorithm:expr,)*) => {
        $(conformance!($name, |snapshot, _| Box::new(CpuEngine::new(snapshot, $algorithm)));)*
    };
}

algorithms! {
    daat Some(Algorithm::Daat),
    taat Some(Algorithm::Taat),
    wand Some(Algorithm::Wand),
    maxscore Some(Algorithm::MaxScore),
    block_max_wand Some(Algorithm::BlockMaxWand),
    block_max_maxscore Some(Algorithm::BlockMaxMaxScore),
    windowed_maxscore Some(Algorithm::WindowedMaxScore),
    cohort Some(Algorithm::Cohort),
    filtered Some(Algorithm::Filtered),
    tree Some(Algorithm::Tree),
    decoded Some(Algorithm::Decoded),
    auto None,
}

/// Phrases need trees; algorithms that cannot answer them return an error.
mod phrases {
    use super::*;
    use warpseek_testkit::phrases::check_phrases;

    #[test]
    fn tree() {
        check_phrases(|snapshot, _| {
            Box::new(CpuEngine::new(snapshot, Some(Algorithm::Tree))) as Box<dyn Engine>
        });
    }

    #[test]
    fn auto() {
        check_phrases(|snapshot, _| Box::new(CpuEngine::new(snapshot, None)) as Box<dyn Engine>);
    }

    #[test]
    fn windowed_maxscore() {
        check_phrases(|snapshot, _| {
            let algorithm = Some(Algorithm::WindowedMaxScore);
            Box::new(CpuEngine::new(snapshot, algorithm)) as Box<dyn Engine>
        });
    }
}

/// Tiles of a few documents, in which windows, blocks and lists begin and end anywhere.
mod tiles {
    use super::*;

    conformance!(of_9, |snapshot, _| Box::new(
        CpuEngine::new(snapshot, Some(Algorithm::Cohort)).with_tile(9)
    ));
    conformance!(of_200, |snapshot, _| Box::new(
        CpuEngine::new(snapshot, Some(Algorithm::Cohort)).with_tile(200)
    ));
}
