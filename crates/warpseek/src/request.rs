use std::sync::Arc;
use std::time::{Duration, Instant};

use warpseek_exec::gather::{Facet, SortKey, SortValues};
use warpseek_exec::query::Node;
use warpseek_exec::{Cancel, CollectionStatistics, Limit, Mode, Query, Ranking};

/// What is searched for: text that the index's analyzer takes apart, terms as the index has them, or a query with fields and conditions.
///
/// ```
/// use warpseek::query::{Node, Words};
/// use warpseek::{Query, QueryInput};
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
    /// Words, each optionally with a weight behind `^`; for an index of vectors, tokens with weights or a JSON object of them. With a schema, every word is searched
    /// for in every text field, and scores of fields are added.
    Text(String),
    /// Terms with their fields and weights. They are not analysed.
    Terms(Query),
    /// A query in the syntax of [`parse`](warpseek_exec::query::parse): words and conditions, with fields, signs and weights. With [`Mode::And`] a document must have all words without a sign.
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

/// A search.
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
    /// What is searched for.
    pub query: QueryInput,
    /// How many hits are wanted. Default: 10.
    pub k: usize,
    /// Which documents match. Default: those with at least one of the terms.
    pub mode: Mode,
    /// Whether all matching documents are counted too. Default: no.
    pub count: bool,
    /// Up to how many matches the count is of interest. Default: all. If it is clear without counting that there are more, they are not counted, which is much faster: [`Response::matches`](crate::Response::matches) is none then, unless the number comes out anyway, and [`Response::least_matches`](crate::Response::least_matches) is larger than this.
    pub count_to: u64,
    /// Only documents with these ids may be hits. Default: all may. Scores are the same as without; ids that the index does not have are ignored.
    pub among: Option<Arc<[String]>>,
    /// Only documents that match this tree may be hits. Default: all may. Scores are the same as without.
    pub filter: Option<Arc<Node>>,
    /// The order of hits. Default: none, which is by score. Documents that are equal by all keys are in the order of their ids, so the order is total. Scores of hits are exact whatever the order.
    pub sort: Vec<SortKey>,
    /// Only hits that come after this in the order. Default: from the first on.
    pub after: Option<SortValues>,
    /// What all matches are counted by, whatever k. Default: nothing.
    pub facets: Vec<Facet>,
    /// Another ranking than the searcher's. Default: none. On a GPU, another formula has to be copied there first.
    pub ranking: Option<Ranking>,
    /// Statistics of the whole collection, if the index holds a part of it: scores are then those that one index of all documents would give. Default: the index's own.
    pub collection: Option<Arc<CollectionStatistics>>,
    /// How long the search may take, from when it is asked for. Default: as long as it needs. When the time is up the response covers what was searched by then.
    pub deadline: Option<Duration>,
    /// Stops the search when it is set. Default: nothing does.
    pub cancel: Option<Cancel>,
}

impl Request {
    /// With the defaults.
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

    /// With this many hits.
    pub fn k(self, k: usize) -> Self {
        Request { k, ..self }
    }

    /// With another rule for which documents match.
    pub fn mode(self, mode: Mode) -> Self {
        Request { mode, ..self }
    }

    /// With all matches counted, or not.
    pub fn count(self, count: bool) -> Self {
        Request { count, ..self }
    }

    /// With matches counted, unless there are clearly more than this.
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
    /// // More than two: they need not be counted, unless the number comes out anyway.
    /// let response = searcher.search(&Request::new("apple").count_to(2))?;
    /// assert_eq!(response.least_matches(), 3);
    /// let response = searcher.search(&Request::new("apple").count_to(3))?;
    /// assert_eq!(response.matches(), Some(3));
    /// # Ok::<(), warpseek::Error>(())
    /// ```
    pub fn count_to(self, most: u64) -> Self {
        Request { count: true, count_to: most, ..self }
    }

    /// Only among documents with these ids.
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

    /// Only among documents that match a tree. [`Searcher::parse`](crate::Searcher::parse) makes one of a text.
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

    /// With hits in another order. All matches are looked at, by the CPU; a GPU refuses, and [`DeviceChoice::Auto`](crate::DeviceChoice::Auto) then takes the CPU. [`Mode::AndOr`] cannot be sorted.
    ///
    /// ```
    /// use warpseek::{Document, Index, IndexOptions, Request, Schema, SortKey};
    ///
    /// # let folder = tempfile::tempdir().unwrap();
    /// let schema = r#"{"text": [{"name": "text"}], "attributes": [{"name": "year", "type": "integer"}]}"#;
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
    /// To begin at a rank instead, ask for more hits and skip those before it: k is the rank plus the number wanted.
    pub fn sort(self, keys: impl Into<Vec<SortKey>>) -> Self {
        Request { sort: keys.into(), ..self }
    }

    /// With hits that come after a place in the order, which [`Response::sort_values`](crate::Response::sort_values) gives. It works for the usual order by score too, and is exact over one snapshot.
    pub fn after(self, place: SortValues) -> Self {
        Request { after: Some(place), ..self }
    }

    /// With counts of all matches by attributes: [`Response::facets`](crate::Response::facets).
    pub fn facets(self, facets: impl Into<Vec<Facet>>) -> Self {
        Request { facets: facets.into(), ..self }
    }

    /// With a ranking of its own.
    pub fn ranking(self, ranking: Ranking) -> Self {
        Request { ranking: Some(ranking), ..self }
    }

    /// With the statistics of a collection that the index holds a part of. They must have all terms of the query, or it is an error.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use warpseek::{CollectionStatistics, Document, Index, Request};
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
    /// let hits = [parts[0].search(&request)?.hits().to_vec(), parts[1].search(&request)?.hits().to_vec()];
    /// let want = whole.search(&Request::new("apple tart"))?;
    /// assert_eq!(hits[1][0].score, want.hits()[0].score);
    /// assert_eq!(hits[0][0].score, want.hits()[1].score);
    /// # Ok::<(), warpseek::Error>(())
    /// ```
    pub fn of_collection(self, statistics: Arc<CollectionStatistics>) -> Self {
        Request { collection: Some(statistics), ..self }
    }

    /// With this much time.
    pub fn deadline(self, time: Duration) -> Self {
        Request { deadline: Some(time), ..self }
    }

    /// Until somebody cancels.
    pub fn cancelled_by(self, cancel: Cancel) -> Self {
        Request { cancel: Some(cancel), ..self }
    }

    /// When work for it has to stop, if its time counts from a moment.
    pub fn limit(&self, start: Instant) -> Limit {
        limit_of(self.deadline, self.cancel.as_ref(), start)
    }
}

/// The limit of a request that came at a moment.
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
