//! A shard that a node has open: the search service over its index, planned with the statistics
//! of the collection.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tonic::{Code, Status};
use warpseek::index::{Statistics, settings};
use warpseek::plan::{CollectionStatistics, ExecError, frequencies};
use warpseek::{
    Index, Progress, Response, Searcher, SearcherOptions, Service, ServiceError, ServiceOptions,
    Snapshot,
};
use xxhash_rust::xxh3::xxh3_64;

use crate::error::ClusterError;
use crate::{protocol, wire};

/// A version of a shard. It never changes: a later commit to its folder is opened as another
/// `OpenShard`.
pub(crate) struct OpenShard {
    pub(crate) description: protocol::ShardDescription,
    dir: PathBuf,
    searcher: Searcher,
    service: Service,
    preparation: Mutex<Preparation>,
}

/// State of computing a GPU's values for the statistics of a collection.
#[derive(Default)]
struct Preparation {
    /// Field statistics of the collection in the last request.
    wanted: Vec<Statistics>,
    /// True if a task is computing values.
    is_running: bool,
}

impl OpenShard {
    /// Opens a folder, verifies all bytes of its files, and prepares everything that the first
    /// query would have to wait for.
    pub(crate) fn open(
        number: u32,
        version: u64,
        dir: &Path,
        options: SearcherOptions,
    ) -> Result<Self, ClusterError> {
        let failed = |source| ClusterError::Shard { shard: number, dir: dir.to_owned(), source };
        let refused = |why| ClusterError::NoShard { shard: number, dir: dir.to_owned(), why };
        let searcher = Index::at(dir).searcher_with(options).map_err(failed)?;
        let snapshot = searcher.snapshot();
        let manifest = snapshot.manifest();
        if manifest.impacts.is_some() {
            return Err(refused(
                "a quantized index has the mean length of its own documents in its lists, so shards of it would not score as one index does; build it without `--quantize`",
            ));
        }
        // Cached files may have been damaged since they were fetched, without a change of size.
        let verified = snapshot.verify_again(&Progress::default());
        verified.map_err(|error| failed(error.into()))?;
        searcher.prepare().map_err(failed)?;
        let fields = (0..).take(snapshot.text_fields());
        let fields = fields.map(|field| (&snapshot.field_statistics(field)).into()).collect();
        let description = protocol::ShardDescription {
            shard: Some(protocol::Shard {
                number,
                version,
                snapshot: xxh3_64(&manifest.to_bytes()),
            }),
            documents: snapshot.doc_limit().into(),
            live: snapshot.statistics().documents,
            fields,
            settings: settings(manifest).to_bytes(),
        };
        // A GPU is calibrated, or was earlier, as in a single server. The CPU alone uses an earlier
        // calibration too, but without one, some milliseconds of measuring are precise enough to
        // refuse requests that cannot be answered in time.
        let service = match searcher.gpu_status().name {
            Some(_) => ServiceOptions::new(),
            None => ServiceOptions::new().calibration(Duration::ZERO),
        };
        let service = searcher.service(service).map_err(failed)?;
        let (dir, preparation) = (dir.to_owned(), Mutex::default());
        Ok(OpenShard { description, dir, searcher, service, preparation })
    }

    /// Returns the folder that the shard was opened from.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(crate) fn snapshot(&self) -> Arc<Snapshot> {
        self.searcher.snapshot()
    }

    pub(crate) fn id(&self) -> protocol::Shard {
        self.description.shard.unwrap_or_default()
    }

    /// Returns the number of live documents with each term.
    pub(crate) fn frequencies(&self, terms: &[protocol::Term]) -> Result<Vec<u64>, Status> {
        let terms = terms.iter().map(wire::term).collect::<Result<Vec<_>, _>>()?;
        let snapshot = self.searcher.snapshot();
        if terms.iter().any(|(field, _)| usize::from(*field) >= snapshot.text_fields()) {
            return Err(Status::invalid_argument(
                "a term names a text field that the shard does not have",
            ));
        }
        frequencies(&snapshot, terms).map_err(|error| Status::data_loss(error.to_string()))
    }

    /// Answers the queries of a request. A query that cannot be answered fails the others only if
    /// the shard is damaged, since then another node should answer them all. Dropping the future
    /// cancels the remaining work.
    pub(crate) async fn search(
        self: Arc<Self>,
        request: protocol::SearchRequest,
    ) -> Result<protocol::SearchResponse, Status> {
        let (shard, scales) = (self.clone(), request.queries.iter().map(|query| query.scale));
        let scales: Vec<i32> = scales.collect();
        // Planning reads the dictionary from disk.
        let tickets = blocking(move || {
            let collection = Arc::new(wire::collection(&request)?);
            shard.prepare_for(&collection);
            let deadline = (request.deadline > 0).then(|| Duration::from_micros(request.deadline));
            let submit = |query: &protocol::Query| {
                let query = wire::request(query, &shard.searcher, &collection, deadline)?;
                shard.service.submit(&query).map_err(|error| failed(&error))
            };
            Ok(request.queries.iter().map(submit).collect::<Vec<_>>())
        });
        let mut responses = Vec::with_capacity(scales.len());
        for (ticket, scale) in tickets.await?.into_iter().zip(scales) {
            let response = match ticket {
                Ok(ticket) => ticket.await.answer.map_err(|error| failed(&error)),
                Err(refused) => Err(refused),
            };
            responses.push(response.and_then(|response| match response.plan().scale == scale {
                true => Ok(response),
                false => Err(Status::internal(
                    "the node plans the query with a different scale than the aggregator, so its scores would not be comparable",
                )),
            }));
        }
        // Ids are read from disk.
        blocking(move || {
            let answers = responses.iter().map(|response| match response {
                Ok(response) => answer(response),
                Err(status) => Err(status.clone()),
            });
            together(answers.collect())
        })
        .await
    }

    /// Starts to compute the GPU's values for the collection's mean length, which only a request
    /// reveals. Requests do not wait for it: until it is done, the CPU answers, if the node may
    /// use it.
    fn prepare_for(self: &Arc<Self>, collection: &Arc<CollectionStatistics>) {
        {
            let mut preparation = self.preparation();
            if preparation.wanted == collection.fields {
                return;
            }
            preparation.wanted.clone_from(&collection.fields);
            // The running task will notice that different statistics are wanted.
            if preparation.is_running || self.searcher.gpu_status().name.is_none() {
                return;
            }
            preparation.is_running = true;
        }
        let (shard, mut collection) = (self.clone(), collection.clone());
        tokio::task::spawn_blocking(move || {
            loop {
                if let Err(error) = shard.searcher.prepare_as_part(&collection) {
                    let number = shard.id().number;
                    tracing::warn!(shard = number, %error, "the GPU's values for the collection could not be computed");
                }
                let mut preparation = shard.preparation();
                if preparation.wanted == collection.fields {
                    preparation.is_running = false;
                    return;
                }
                collection =
                    Arc::new(CollectionStatistics::with_fields(preparation.wanted.clone()));
            }
        });
    }

    fn preparation(&self) -> MutexGuard<'_, Preparation> {
        self.preparation.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of waiting queries.
    pub(crate) fn waiting(&self) -> usize {
        self.service.status().waiting
    }
}

/// Runs work that may read from disk on a thread that may block.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Status> + Send + 'static,
) -> Result<T, Status> {
    tokio::task::spawn_blocking(work)
        .await
        .unwrap_or_else(|error| Err(Status::internal(error.to_string())))
}

/// Returns the response to a request whose queries have these answers. If none is answered, as if
/// the node had too much to do, the whole request fails, so that another node gets all of it.
fn together(
    answers: Vec<Result<protocol::Answer, Status>>,
) -> Result<protocol::SearchResponse, Status> {
    let is_answered = answers.iter().any(Result::is_ok);
    let answer = |answer: Result<protocol::Answer, Status>| match answer {
        Err(status) if !is_answered || status.code() == Code::DataLoss => Err(status),
        Err(status) => Ok(protocol::Answer {
            failure: status.code() as u32,
            reason: status.message().to_owned(),
            ..protocol::Answer::default()
        }),
        answer => answer,
    };
    let answers = answers.into_iter().map(answer).collect::<Result<_, _>>()?;
    Ok(protocol::SearchResponse { answers })
}

fn answer(response: &Response) -> Result<protocol::Answer, Status> {
    let hits = response.hits();
    let ids = (0..hits.len()).map(|rank| response.id(rank));
    let ids = ids.collect::<Result<_, _>>();
    Ok(protocol::Answer {
        documents: hits.iter().map(|hit| hit.doc).collect(),
        scores: hits.iter().map(|hit| hit.score).collect(),
        ids: ids.map_err(|error: warpseek::Error| Status::data_loss(error.to_string()))?,
        matches: response.matches(),
        searched: response.documents_searched().0,
        complete: response.coverage().is_complete(),
        failure: 0,
        reason: String::new(),
    })
}

/// Converts an error to a status. Its code tells the aggregator whether the query is at fault or
/// another node may answer.
fn failed(error: &ServiceError) -> Status {
    let reason = error.to_string();
    match error {
        ServiceError::Refused { .. } => Status::resource_exhausted(reason),
        ServiceError::Cancelled => Status::cancelled(reason),
        ServiceError::Closed => Status::unavailable(reason),
        ServiceError::Exec(ExecError::Index(_)) => Status::data_loss(reason),
        ServiceError::Exec(
            ExecError::Device { .. }
            | ExecError::NoAnswer
            | ExecError::OtherSnapshot
            | ExecError::Unsupported { .. },
        ) => Status::internal(reason),
        ServiceError::Exec(_) => Status::invalid_argument(reason),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_that_fails_does_not_fail_the_others() {
        let good = || Ok(protocol::Answer { complete: true, ..protocol::Answer::default() });
        let refused = || Err(Status::resource_exhausted("too late"));
        let found = together(vec![good(), refused(), good()]).unwrap().answers;
        let codes: Vec<_> = found.iter().map(|answer| (answer.failure, answer.complete)).collect();
        assert_eq!(codes, [(0, true), (Code::ResourceExhausted as u32, false), (0, true)]);
        assert_eq!(found[1].reason, "too late");
        // Another node should get the whole request.
        let damage = || Err(Status::data_loss("damage"));
        for all in [vec![refused(), refused()], vec![refused()], vec![damage(), damage()]] {
            let code = all[0].as_ref().unwrap_err().code();
            assert_eq!(together(all).unwrap_err().code(), code);
        }
        assert_eq!(together(vec![good(), damage()]).unwrap_err().code(), Code::DataLoss);
        assert_eq!(together(Vec::new()).unwrap().answers.len(), 0);
    }
}
