//! Requests: a query, and everything that a search can be asked to do with it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use warpseek_exec::gather::{Facet, SortKey, SortValues};
use warpseek_exec::query::Node;
use warpseek_exec::{Cancel, CollectionStatistics, Limit, Mode, Query, Ranking};

/// The query of a request: text for the index's analyzer, terms of the index, or a query with
/// fields and conditions.
///
/// ```
/// use warpseek::QueryInput;
/// use warpseek::query::{Node, Query, Words};
///
/// let text = QueryInput::from("apple^2.5 pie");
/// let expression = QueryInput::Expression("+title:apple -year:<2020".to_owned());
/// let tree = QueryInput::from(Node::Words(Words::any(["title".to_owned()], "apple pie")));
/// assert_ne!(expression, tree);
/// let terms = QueryInput::from(Query::of([("appl", 2.5), ("pie", 1.0)]));
/// assert_ne!(text, terms);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum QueryInput {
    /// Words, each optionally followed by `^` and a weight. For an index of vectors: tokens with
    /// weights, or a JSON object of them. With a schema, every word is searched for in every text
    /// field, and the scores of the fields are added.
    Text(String),
    /// Terms with their fields and weights, which are not analyzed.
    Terms(Query),
    /// A query string in the syntax of [`parse`](warpseek_exec::query::parse): words and
    /// conditions, with fields, signs and weights. With [`Mode::And`], documents must contain all
    /// words without a sign.
    Expression(String),
    /// A query tree.
    Tree(Node),
}

impl From<Node> for QueryInput {
    fn from(tree: Node) -> Self {
        QueryInput::Tree(tree)
    }
}

impl From<&str> for QueryInput {
    fn from(text: &str) -> Self {
        QueryInput::Text(text.to_owned())
    }
}

impl From<String> for QueryInput {
    fn from(text: String) -> Self {
        QueryInput::Text(text)
    }
}

impl From<Query> for QueryInput {
    fn from(query: Query) -> Self {
        QueryInput::Terms(query)
    }
}

/// A search request.
///
/// ```
/// use std::time::{Duration, Instant};
/// use warpseek::{Mode, Request};
///
/// let request = Request::new("route flap damping")
///     .k(20)
///     .mode(Mode::AndOr)
///     .count(true)
///     .deadline(Duration::from_millis(50));
/// assert_eq!(request.k, 20);
/// ```
#[derive(Clone, Debug)]
pub struct Request {
    /// The query.
    pub query: QueryInput,
    /// The maximum number of hits. Default: 10.
    pub k: usize,
    /// The rule that decides which documents match. Default: those with at least one of the
    /// terms.
    pub mode: Mode,
    /// True if all matching documents are to be counted. Default: false.
    pub count: bool,
    /// The number up to which an exact count of matches is needed. Default: no limit.
    ///
    /// If it is known without counting that there are more matches, they are not counted, which
    /// is much faster. In that case [`Response::least_matches`](crate::Response::least_matches)
    /// exceeds this number, and [`Response::matches`](crate::Response::matches) returns `None`
    /// unless the search determined the number anyway.
    pub count_to: u64,
    /// The ids of the documents that may be hits. Default: all. Scores do not depend on it, and
    /// ids that the index does not contain are ignored.
    pub among: Option<Arc<[String]>>,
    /// A query tree that hits must match. Default: none. Scores do not depend on it.
    pub filter: Option<Arc<Node>>,
    /// The sort order of hits. Default: empty, for the order by score. Ties are broken by
    /// document id, so the order is total. Scores of hits are exact whatever the order.
    pub sort: Vec<SortKey>,
    /// The position in the sort order after which hits begin. Default: none.
    pub after: Option<SortValues>,
    /// The attributes by which all matches are counted, independently of `k`. Default: none.
    pub facets: Vec<Facet>,
    /// The ranking, if it differs from the searcher's. Default: none. A GPU may have to compute
    /// the values of all postings for another ranking first.
    pub ranking: Option<Ranking>,
    /// The statistics of the whole collection, if the index contains a part of it. Scores are
    /// then those that a single index of the whole collection would give. Default: the statistics
    /// of the index.
    pub collection: Option<Arc<CollectionStatistics>>,
    /// The time limit of the search, counted from its start. Default: none. When time is up, the
    /// response covers the documents searched so far.
    pub deadline: Option<Duration>,
    /// A token that cancels the search. Default: none.
    pub cancel: Option<Cancel>,
}

impl Request {
    /// Creates a request with the default settings.
    pub fn new(query: impl Into<QueryInput>) -> Self {
        Request {
            query: query.into(),
            k: 10,
            mode: Mode::Or,
            count: false,
            count_to: u64::MAX,
            among: None,
            filter: None,
            sort: Vec::new(),
            after: None,
            facets: Vec::new(),
            ranking: None,
            collection: None,
            deadline: None,
            cancel: None,
        }
    }

    /// Sets the maximum number of hits.
    pub fn k(self, k: usize) -> Self {
        Request { k, ..self }
    }

    /// Sets the rule that decides which documents match.
    pub fn mode(self, mode: Mode) -> Self {
        Request { mode, ..self }
    }

    /// Sets whether all matching documents are counted.
    pub fn count(self, count: bool) -> Self {
        Request { count, ..self }
    }

    /// Requests a count of matches that is exact up to `most`. If there are clearly more matches,
    /// they are not counted.
    ///
    /// ```
    /// use warpseek::{Document, Index, Request};
    ///
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let index = Index::create(folder.path().join("idx"))?;
    /// let mut writer = index.writer()?;
    /// for id in ["1", "2", "3"] {
    ///     writer.add(Document::new(id, "", "apple pie"))?;
    /// }
    /// writer.commit()?;
    /// let searcher = index.searcher()?;
    /// // There are more than two matches, so they need not be counted.
    /// let response = searcher.search(&Request::new("apple").count_to(2))?;
    /// assert_eq!(response.least_matches(), 3);
    /// let response = searcher.search(&Request::new("apple").count_to(3))?;
    /// assert_eq!(response.matches(), Some(3));
    /// # Ok::<(), warpseek::Error>(())
    /// ```
    pub fn count_to(self, most: u64) -> Self {
        Request { count: true, count_to: most, ..self }
    }

    /// Restricts hits to documents with these ids.
    ///
    /// ```
    /// use warpseek::{Document, Index, Request};
    ///
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let index = Index::create(folder.path().join("idx"))?;
    /// let mut writer = index.writer()?;
    /// writer.add(Document::new("1", "", "apple pie"))?;
    /// writer.add(Document::new("2", "", "apple tart"))?;
    /// writer.commit()?;
    /// let response = index.searcher()?.search(&Request::new("apple pie").among(["2", "3"]))?;
    /// assert_eq!(response.hits().len(), 1);
    /// assert_eq!(response.id(0)?, "2");
    /// # Ok::<(), warpseek::Error>(())
    /// ```
    pub fn among(self, ids: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Request { among: Some(ids.into_iter().map(Into::into).collect()), ..self }
    }

    /// Restricts hits to documents that match a query tree.
    /// [`Searcher::parse`](crate::Searcher::parse) creates one from a query string.
    ///
    /// ```
    /// use warpseek::query::{Filter, Node};
    /// use warpseek::{Document, Index, Request};
    ///
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let index = Index::create(folder.path().join("idx"))?;
    /// let mut writer = index.writer()?;
    /// writer.add(Document::new("1", "", "apple pie"))?;
    /// writer.add(Document::new("2", "", "apple tart"))?;
    /// writer.commit()?;
    /// let searcher = index.searcher()?;
    /// let request = Request::new("apple").filter(searcher.parse("pie")?);
    /// assert_eq!(searcher.search(&request)?.hits().len(), 1);
    /// let request = Request::new("apple").filter(Node::Filter(Filter::Ids(vec!["2".into()])));
    /// assert_eq!(searcher.search(&request)?.id(0)?, "2");
    /// # Ok::<(), warpseek::Error>(())
    /// ```
    pub fn filter(self, filter: impl Into<Arc<Node>>) -> Self {
        Request { filter: Some(filter.into()), ..self }
    }

    /// Sorts hits by other keys than the score.
    ///
    /// The CPU examines all matches; GPUs do not support sorting, so
    /// [`DeviceChoice::Auto`](crate::DeviceChoice::Auto) chooses the CPU. Sorting cannot be
    /// combined with [`Mode::AndOr`].
    ///
    /// ```
    /// use warpseek::query::SortKey;
    /// use warpseek::{Document, Index, IndexOptions, Request, Schema};
    ///
    /// # let folder = tempfile::tempdir().unwrap();
    /// let schema = r#"{
    ///     "text": [{"name": "text"}],
    ///     "attributes": [{"name": "year", "type": "integer"}]
    /// }"#;
    /// let options = IndexOptions::new().schema(Schema::parse(schema)?);
    /// let index = Index::create_with(folder.path().join("idx"), options)?;
    /// let mut writer = index.writer()?;
    /// for (id, year) in [("a", 1999), ("b", 2005), ("c", 2001)] {
    ///     let mut document = Document::new(id, "", "apple pie");
    ///     document.fields.insert("year".to_owned(), year.into());
    ///     writer.add(document)?;
    /// }
    /// writer.commit()?;
    /// let searcher = index.searcher()?;
    /// let request = Request::new("apple").sort([SortKey::descending("year")]).k(2);
    /// let page = searcher.search(&request)?;
    /// assert_eq!((page.id(0)?, page.id(1)?), ("b".to_owned(), "c".to_owned()));
    /// // The next page begins after the last hit of this one.
    /// let next = searcher.search(&request.after(page.sort_values(1)))?;
    /// assert_eq!(next.id(0)?, "a");
    /// # Ok::<(), warpseek::Error>(())
    /// ```
    ///
    /// To start at a rank instead, set `k` to that rank plus the size of the page, and skip the
    /// hits before it.
    pub fn sort(self, keys: impl Into<Vec<SortKey>>) -> Self {
        Request { sort: keys.into(), ..self }
    }

    /// Continues after the hit with these sort values, as returned by
    /// [`Response::sort_values`](crate::Response::sort_values). It also works for the order by
    /// score, and is exact over one snapshot.
    pub fn after(self, place: SortValues) -> Self {
        Request { after: Some(place), ..self }
    }

    /// Counts all matches by attributes; see [`Response::facets`](crate::Response::facets).
    pub fn facets(self, facets: impl Into<Vec<Facet>>) -> Self {
        Request { facets: facets.into(), ..self }
    }

    /// Sets a ranking for this request only.
    pub fn ranking(self, ranking: Ranking) -> Self {
        Request { ranking: Some(ranking), ..self }
    }

    /// Sets the statistics of the collection of which the index contains a part. It is an error
    /// if they lack a term of the query.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use warpseek::plan::CollectionStatistics;
    /// use warpseek::{Document, Index, Request};
    ///
    /// # let folder = tempfile::tempdir().unwrap();
    /// let part = |name: &str, texts: &[&str]| {
    ///     let index = Index::create(folder.path().join(name))?;
    ///     let mut writer = index.writer()?;
    ///     for text in texts {
    ///         writer.add(Document::new(*text, "", *text))?;
    ///     }
    ///     writer.commit()?;
    ///     index.searcher()
    /// };
    /// let parts = [part("a", &["apple pie", "plum"])?, part("b", &["apple tart"])?];
    /// let whole = part("whole", &["apple pie", "plum", "apple tart"])?;
    ///
    /// let mut all = CollectionStatistics::of(&parts[0].snapshot());
    /// all.add_fields(&CollectionStatistics::of(&parts[1].snapshot()).fields)?;
    /// for part in &parts {
    ///     for term in ["appl", "tart"] {
    ///         all.add_term(0, term, part.snapshot().document_frequency(term.as_bytes())?)?;
    ///     }
    /// }
    /// let request = Request::new("apple tart").of_collection(Arc::new(all));
    /// let first = parts[0].search(&request)?;
    /// let second = parts[1].search(&request)?;
    /// let want = whole.search(&Request::new("apple tart"))?;
    /// assert_eq!(second.hits()[0].score, want.hits()[0].score);
    /// assert_eq!(first.hits()[0].score, want.hits()[1].score);
    /// # Ok::<(), warpseek::Error>(())
    /// ```
    pub fn of_collection(self, statistics: Arc<CollectionStatistics>) -> Self {
        Request { collection: Some(statistics), ..self }
    }

    /// Sets a time limit. A search that exceeds it returns a partial response; see
    /// [`Response::coverage`](crate::Response::coverage).
    pub fn deadline(self, time: Duration) -> Self {
        Request { deadline: Some(time), ..self }
    }

    /// Attaches a cancellation token. Cancelling it ends the search with a partial response.
    pub fn cancelled_by(self, cancel: Cancel) -> Self {
        Request { cancel: Some(cancel), ..self }
    }

    /// Returns the limit of a search for this request that started at `start`.
    pub fn limit(&self, start: Instant) -> Limit {
        limit_of(self.deadline, self.cancel.as_ref(), start)
    }
}

/// Returns the limit of a search that started at `start`.
pub(crate) fn limit_of(
    deadline: Option<Duration>,
    cancel: Option<&Cancel>,
    start: Instant,
) -> Limit {
    let limit = match deadline {
        Some(time) => Limit::none().after(start, time),
        None => Limit::none(),
    };
    match cancel {
        Some(cancel) => limit.cancelled_by(cancel.clone()),
        None => limit,
    }
}
