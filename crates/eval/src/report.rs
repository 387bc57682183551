//! All measures for all queries, and their means.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::ranking::Ranking;
use crate::{Measure, Qrels, Run};

/// Options that determine which queries count.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Options {
    /// Counts judged queries without hits in the run as 0 in every measure (`trec_eval -c`).
    ///
    /// Off by default, as in `trec_eval`, which then ignores those queries. This flatters a system
    /// that answers only easy queries.
    pub complete: bool,
}

/// The result of [`evaluate`]. Every list of figures is in the order of `measures`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The requested measures.
    pub measures: Vec<Measure>,
    /// The figures of each counted query.
    pub per_query: BTreeMap<String, Vec<f64>>,
    /// The mean over `per_query`, or the sum if [`Measure::is_summed`]; 0 if no query is counted.
    pub mean: Vec<f64>,
    /// The number of counted queries. If it is 0, the judgements and the run have no query in
    /// common, usually because they do not belong together, and callers should not report a mean.
    pub queries: usize,
    /// The number of judged queries without hits in the run. They are counted only if the
    /// evaluation is complete.
    pub missing_in_run: usize,
    /// The number of queries in the run without judgements. They are never counted.
    pub unjudged: usize,
    /// The number of counted queries without relevant documents, which score 0 whatever the system
    /// returns.
    pub without_relevant: usize,
}

/// Evaluates a run against judgements, as `trec_eval` does.
pub fn evaluate(qrels: &Qrels, run: &Run, measures: &[Measure], options: Options) -> Report {
    let mut report = Report {
        measures: measures.to_vec(),
        per_query: BTreeMap::new(),
        mean: vec![0.0; measures.len()],
        queries: 0,
        missing_in_run: 0,
        unjudged: run.queries().filter(|qid| !qrels.contains(qid)).count(),
        without_relevant: 0,
    };
    for qid in qrels.queries() {
        let ranking = Ranking::of(qrels, run, qid);
        let missing = !run.contains(qid);
        report.missing_in_run += usize::from(missing);
        if missing && !options.complete {
            continue;
        }
        report.without_relevant += usize::from(ranking.ideal.is_empty());
        // A missing query does not add to `num_rel` either, because `trec_eval` never looks at it.
        let figure = |measure: &Measure| if missing { 0.0 } else { measure.of(&ranking) };
        let figures: Vec<f64> = measures.iter().map(figure).collect();
        for (mean, figure) in report.mean.iter_mut().zip(&figures) {
            *mean += figure;
        }
        report.per_query.insert(qid.to_owned(), figures);
    }
    report.queries = report.per_query.len();
    for (mean, measure) in report.mean.iter_mut().zip(measures) {
        if report.queries > 0 && !measure.is_summed() {
            *mean /= report.queries as f64;
        }
    }
    report
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fixture() -> (Qrels, Run, Vec<Measure>) {
        let qrels = "1 0 a 1\n1 0 b 0\n2 0 a 1\n3 0 a 0\n4 0 a -1\n4 0 b -1\n";
        let run = "1 Q0 a 1 2 t\n1 Q0 x 2 1 t\n3 Q0 a 1 1 t\n4 Q0 a 1 1 t\n9 Q0 a 1 1 t\n";
        (
            Qrels::parse(qrels.as_bytes(), "q").unwrap(),
            Run::parse(run.as_bytes(), "r").unwrap(),
            ["map", "num_rel", "num_ret"].map(|name| name.parse().unwrap()).to_vec(),
        )
    }

    #[test]
    fn only_shared_queries_count_by_default() {
        let (qrels, run, measures) = fixture();
        let report = evaluate(&qrels, &run, &measures, Options::default());
        assert_eq!(report.mean, [1.0 / 3.0, 1.0, 4.0]);
        assert_eq!((report.queries, report.missing_in_run, report.unjudged), (3, 1, 1));
        assert_eq!(report.without_relevant, 2);
        assert!(!report.per_query.contains_key("2"));
        assert_eq!(report.per_query["4"], [0.0, 0.0, 1.0]);
    }

    #[test]
    fn complete_counts_missing_queries_as_zero() {
        let (qrels, run, measures) = fixture();
        let report = evaluate(&qrels, &run, &measures, Options { complete: true });
        assert_eq!(report.mean, [0.25, 1.0, 4.0]);
        assert_eq!((report.queries, report.missing_in_run), (4, 1));
        assert_eq!(report.per_query["2"], [0.0; 3]);
    }

    #[test]
    fn no_query_counts_if_run_and_judgements_have_none_in_common() {
        let (qrels, _, measures) = fixture();
        let report = evaluate(&qrels, &Run::default(), &measures, Options::default());
        assert_eq!((report.queries, report.mean), (0, vec![0.0; 3]));
    }

    #[test]
    fn a_report_round_trips_through_json() {
        let (qrels, run, measures) = fixture();
        let report = evaluate(&qrels, &run, &measures, Options::default());
        let text = serde_json::to_string(&report).unwrap();
        assert!(text.contains(r#""measures":["map","num_rel","num_ret"]"#));
        assert_eq!(serde_json::from_str::<Report>(&text).unwrap(), report);
    }
}
