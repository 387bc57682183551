//! Searches that tell how they were answered, for those who show it to people.

use std::sync::Arc;
use std::time::{Duration, Instant};

use warpseek_exec::{Choice, ExecError};
use warpseek_index::FilterCacheUsage;

use crate::error::Result;
use crate::request::Request;
use crate::response::Response;
use crate::searcher::Searcher;

/// A response, and how it came about.
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
    /// The response, which is the same as that of [`Searcher::search`].
    pub response: Response,
    /// The device that answered, also if it did so because another one failed, and its algorithm.
    pub choice: Choice,
    /// How long planning took: words and conditions are looked up.
    pub planning: Duration,
    /// How long the engine took.
    pub answering: Duration,
}

impl Searcher {
    /// Answers a request, and says by which device and algorithm, and how long the steps took.
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
        let response = Response { snapshot, plan: Arc::new(plan), answer, took };
        Ok(Traced { response, choice, planning, answering })
    }

    /// How much the sets of documents that filters admit take, and how often they were found.
    pub fn filter_cache(&self) -> FilterCacheUsage {
        self.opened().filter_cache()
    }
}
