//! Searches that report how they were answered, for display.

use std::sync::Arc;
use std::time::{Duration, Instant};

use warpseek_exec::{Choice, ExecError};
use warpseek_index::FilterCacheUsage;

use crate::error::Result;
use crate::query::Request;
use crate::response::Response;
use crate::searcher::Searcher;

/// A response, and a record of how it was computed.
///
/// ```
/// use warpseek::{Document, Index, Request};
///
/// # let folder = tempfile::tempdir().unwrap();
/// # let index = Index::create(folder.path().join("index"))?;
/// # let mut writer = index.writer()?;
/// # writer.add(Document::new("a", "", "apple"))?;
/// # writer.commit()?;
/// let traced = index.searcher()?.search_traced(&Request::new("apple"))?;
/// assert_eq!((traced.response.hits().len(), traced.choice.device.as_str()), (1, "CPU"));
/// assert!(traced.planning + traced.answering <= traced.response.took());
/// # Ok::<(), warpseek::Error>(())
/// ```
pub struct Traced {
    /// The response, equal to that of [`Searcher::search`].
    pub response: Response,
    /// The device that answered, even if it only did so because another one failed, and its
    /// algorithm.
    pub choice: Choice,
    /// Duration of planning, which looks up words and conditions.
    pub planning: Duration,
    /// Duration of answering the plan.
    pub answering: Duration,
}

impl Searcher {
    /// Answers a request, and reports the device, the algorithm, and the duration of each step.
    pub fn search_traced(&self, request: &Request) -> Result<Traced> {
        let (now, start) = (self.opened(), Instant::now());
        let context = self.context().with_limit(request.limit(start));
        let plan = now.plan(request, context.limit());
        let (planning, asked) = (start.elapsed(), Instant::now());
        let (plan, answer, by) = match plan {
            Ok(plan) => {
                let (answer, by) = now.answer_one(&plan, &context);
                (plan, answer?, by)
            }
            Err(ExecError::Stopped) => {
                let (plan, answer) = now.nothing(request)?;
                (plan, answer, None)
            }
            Err(error) => return Err(error.into()),
        };
        let answering = asked.elapsed();
        let (snapshot, took) = (now.snapshot.clone(), start.elapsed());
        let choice = now.choice(by.as_ref(), &plan, &context);
        let (plan, answer) = (Arc::new(plan), Arc::new(answer));
        let response = Response { snapshot, plan, answer, took };
        Ok(Traced { response, choice, planning, answering })
    }

    /// Returns the size of the cache of documents that filters admit, and counts of its hits and
    /// misses.
    pub fn filter_cache(&self) -> FilterCacheUsage {
        self.opened().filter_cache()
    }
}
