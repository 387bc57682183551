//! warpseek as a library.

use std::path::Path;
use std::sync::Arc;

use warpseek_exec::{Context, Engine as _, Mask, Mode, Planner, Query, Ranking};
use warpseek_exec_cpu::{Algorithm, CpuEngine};
use warpseek_index::{BuildConfig, DocSet, Progress, Snapshot, StoreMode, create};

use crate::{Case, Failure, K, SHARES, admits};

/// The warpseek engine on one thread, with a mask for each filter, in the form in which the library
/// caches filters.
pub struct Engine {
    planner: Planner,
    engine: CpuEngine,
    context: Context,
    masks: Vec<Option<Arc<Mask>>>,
}

impl Engine {
    pub fn open(corpus: &Path, dir: &Path, algorithm: Option<Algorithm>) -> Result<Self, Failure> {
        if !dir.exists() {
            let analyzer = "raw".parse()?;
            let config = BuildConfig { analyzer, store: StoreMode::Ids, ..BuildConfig::default() };
            create(dir, &[corpus.to_owned()], &config, false, &Progress::default())?;
        }
        let snapshot = Arc::new(Snapshot::open(dir)?);
        let ranking = Ranking { function: "bm25".parse()?, static_weight: 0.0 };
        let planner = Planner::new(snapshot.clone(), ranking)?;
        let mask = |(filter, &share): (usize, &u64)| {
            let set = |segment: &Arc<warpseek_index::Segment>| {
                let count = segment.documents().count();
                let mut set = DocSet::new(count);
                let admitted = |doc: &u32| admits(share, u64::from(segment.base() + doc));
                (0..count).filter(admitted).for_each(|doc| {
                    set.insert(doc);
                });
                set
            };
            let sets = snapshot.segments().iter().map(set).collect();
            (filter + 1 < SHARES.len()).then(|| Arc::new(Mask::new(&snapshot, sets)))
        };
        let masks = SHARES.iter().enumerate().map(mask).collect();
        let engine = CpuEngine::new(snapshot, algorithm);
        Ok(Engine { planner, engine, context: Context::new(1), masks })
    }

    pub fn search(&self, case: &Case<'_>) -> Result<Vec<u64>, Failure> {
        let query = Query::of(case.words.iter().map(|word| (word.as_str(), 1.0)));
        let mode = if case.and { Mode::And } else { Mode::Or };
        let mut plan = self.planner.plan(&query, mode, K)?;
        plan.mask.clone_from(&self.masks[case.filter]);
        let answer = self.engine.search(&[&plan], &self.context).remove(0)?;
        Ok(answer.hits.iter().map(|hit| u64::from(hit.doc)).collect())
    }
}
