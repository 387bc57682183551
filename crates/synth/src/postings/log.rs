//! Queries that match the lists.
//!
//! Terms are drawn with probabilities proportional to a power of their number of documents, and the
//! power is chosen to give the desired mean number of postings per query. The first term sets the
//! topic; half of the other terms come from the same home topic, because the words of real queries
//! are related.

use super::config::PostingsConfig;
use super::list::PostingsGenerator;
use crate::format::write_sentence;
use crate::random::{Purpose, Random};

/// The share of later terms that come from the home topic of the first.
const RELATED: f64 = 0.5;

/// The number of attempts to draw distinct terms; after that the query is left shorter.
const TRIES: u32 = 64;

/// The range of powers: from equal weights for all terms to almost only the most frequent ones.
const POWERS: (f64, f64) = (0.0, 4.0);

/// The number of bisection steps, which gives more digits than the mean of a log has.
const STEPS: u32 = 24;

/// A query log.
#[derive(Debug, Clone, PartialEq)]
pub struct PostingsQueries {
    /// The queries, each consisting of distinct words separated by single spaces.
    pub queries: Vec<String>,
    /// The mean number of postings of a query.
    pub mean_postings: f64,
    /// The mean number of terms of a query.
    pub mean_terms: f64,
}

impl PostingsQueries {
    /// Creates the log for lists with the given numbers of documents, by rank.
    pub fn new(generator: &PostingsGenerator, documents: &[u32]) -> Self {
        let config = generator.config();
        let wanted = config.query_postings * config.documents as f64;
        let (mut low, mut high) = POWERS;
        for _ in 0..STEPS {
            let power = (low + high) / 2.0;
            let log = Sampler::new(generator, documents, power).log(config);
            *(if postings(&log, documents) < wanted { &mut low } else { &mut high }) = power;
        }
        let log = Sampler::new(generator, documents, high).log(config);
        let terms: usize = log.iter().map(Vec::len).sum();
        PostingsQueries {
            mean_postings: postings(&log, documents),
            mean_terms: terms as f64 / log.len().max(1) as f64,
            queries: log.iter().map(|ranks| spell(ranks)).collect(),
        }
    }
}

/// Returns the mean number of postings of a query.
fn postings(log: &[Vec<u32>], documents: &[u32]) -> f64 {
    let length = |&rank: &u32| u64::from(documents[rank as usize]);
    let all: u64 = log.iter().flatten().map(length).sum();
    all as f64 / log.len().max(1) as f64
}

fn spell(ranks: &[u32]) -> String {
    let mut text = Vec::new();
    write_sentence(ranks, &mut text);
    text.into_iter().map(char::from).collect()
}

/// Draws terms by weight, from all terms or from one topic.
struct Sampler {
    /// The ranks, grouped by topic.
    ranks: Vec<u32>,
    /// The sum of the weights before each rank, followed by the total.
    sums: Vec<f64>,
    /// The range of each rank's topic.
    homes: Vec<(u32, u32)>,
}

impl Sampler {
    fn new(generator: &PostingsGenerator, documents: &[u32], power: f64) -> Self {
        let topic = |&rank: &u32| generator.topic(rank);
        let mut ranks: Vec<u32> = (0..documents.len() as u32).collect();
        ranks.retain(|&rank| documents[rank as usize] > 0);
        ranks.sort_by_key(topic);
        let most = f64::from(documents.iter().copied().max().unwrap_or(1));
        let (mut sum, mut sums) = (0.0, vec![0.0]);
        for &rank in &ranks {
            sum += libm::pow(f64::from(documents[rank as usize]) / most, power);
            sums.push(sum);
        }
        let (mut homes, mut start) = (Vec::with_capacity(ranks.len()), 0);
        for home in ranks.chunk_by(|a, b| topic(a) == topic(b)) {
            let end = start + home.len() as u32;
            homes.extend(home.iter().map(|_| (start, end)));
            start = end;
        }
        Sampler { ranks, sums, homes }
    }

    fn log(&self, config: &PostingsConfig) -> Vec<Vec<u32>> {
        let query = |ordinal| {
            let mut random = Random::stream(config.seed, Purpose::ListQuery, ordinal);
            self.query(&config.query_shares, &mut random)
        };
        (0..config.queries).map(query).collect()
    }

    fn query(&self, shares: &[f64; 5], random: &mut Random) -> Vec<u32> {
        let mut ranks = Vec::new();
        if self.ranks.is_empty() {
            return ranks;
        }
        let mut left = random.unit() * shares.iter().sum::<f64>();
        let more = shares.iter().take_while(|&&share| {
            left -= share;
            left >= 0.0
        });
        let (terms, mut home) = (2 + more.count().min(shares.len() - 1), None);
        for _ in 0..TRIES {
            let related = random.unit() < RELATED;
            let within = home.filter(|_| related).unwrap_or((0, self.ranks.len() as u32));
            let at = self.draw(within, random);
            home = home.or(Some(self.homes[at]));
            if !ranks.contains(&self.ranks[at]) {
                ranks.push(self.ranks[at]);
            }
            if ranks.len() == terms {
                break;
            }
        }
        ranks
    }

    fn draw(&self, (start, end): (u32, u32), random: &mut Random) -> usize {
        let (start, end) = (start as usize, end as usize);
        let at = self.sums[start] + random.unit() * (self.sums[end] - self.sums[start]);
        // The last sum at or below the point is chosen; rounding must not lead out of the range.
        let after = self.sums[start..=end].partition_point(|&sum| sum <= at);
        (start + after).saturating_sub(1).clamp(start, end - 1)
    }
}
