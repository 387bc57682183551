//! Resolution of the field names in orders and facets to columns.

use std::ops::Bound;

use warpseek_text::{AttributeValue, DATES};

use super::Gather;
use super::facet::{Facet, MAX_FACET_RANGES, MAX_FACET_VALUES, MAX_FACETS, PlanCounts, PlanFacet};
use super::sort::{
    MAX_SORT_KEYS, Missing, PlanBy, PlanKey, SortBy, SortKey, SortValue, SortValues,
};
use crate::error::ExecError;
use crate::plan::Planner;
use crate::query::{attribute, read};

/// The only key of the default order.
const PLAIN: PlanKey = PlanKey { by: PlanBy::Score, descending: true, missing: Missing::Last };

impl Planner {
    /// Returns the gathering for an order, the values to continue after, and facets; `None` if
    /// the request only needs the hits in the default order.
    pub fn gather(
        &self,
        sort: &[SortKey],
        after: Option<&SortValues>,
        facets: &[Facet],
    ) -> Result<Option<Gather>, ExecError> {
        if sort.len() > MAX_SORT_KEYS {
            let limit = format!("{} keys, but at most {MAX_SORT_KEYS} are allowed", sort.len());
            return Err(ExecError::Sort(limit));
        }
        if facets.len() > MAX_FACETS {
            let limit = format!("there are {}, but at most {MAX_FACETS} are allowed", facets.len());
            return Err(ExecError::Facet(limit));
        }
        let mut order = self.order(sort)?;
        if order.is_empty() {
            order.push(PLAIN);
        }
        if order == [PLAIN] && after.is_none() && facets.is_empty() {
            return Ok(None);
        }
        let after = after.cloned();
        if let Some(after) = &after {
            check(&order, after)?;
        }
        let facets = facets.iter().map(|facet| self.facet(facet)).collect::<Result<_, _>>()?;
        Ok(Some(Gather { order, after, facets }))
    }

    /// Resolves the keys of an order.
    pub(super) fn order(&self, sort: &[SortKey]) -> Result<Vec<PlanKey>, ExecError> {
        let key = |key: &SortKey| {
            let by = match &key.by {
                SortBy::Score => PlanBy::Score,
                SortBy::Document => PlanBy::Document,
                SortBy::Attribute(field) => {
                    let (column, kind) = attribute(self.schema(), field)?;
                    PlanBy::Attribute { column, kind }
                }
            };
            Ok(PlanKey { by, descending: key.descending, missing: key.missing })
        };
        sort.iter().map(key).collect()
    }

    fn facet(&self, facet: &Facet) -> Result<PlanFacet, ExecError> {
        let (Facet::Values { field, .. } | Facet::Ranges { field, .. }) = facet;
        let (column, kind) = attribute(self.schema(), field)?;
        let counts = match facet {
            Facet::Values { top, .. } if *top > MAX_FACET_VALUES => {
                return Err(ExecError::Facet(format!(
                    "`{field}` asks for {top} values, but at most {MAX_FACET_VALUES} are returned"
                )));
            }
            Facet::Values { top, .. } => PlanCounts::Values(*top),
            Facet::Ranges { ranges, .. } if ranges.len() > MAX_FACET_RANGES => {
                return Err(ExecError::Facet(format!(
                    "`{field}` has {} ranges, but at most {MAX_FACET_RANGES} are allowed",
                    ranges.len()
                )));
            }
            Facet::Ranges { ranges, .. } => {
                let bound = |bound: &Bound<String>| {
                    Ok::<_, ExecError>(match bound {
                        Bound::Included(value) => Bound::Included(read(field, kind, value)?),
                        Bound::Excluded(value) => Bound::Excluded(read(field, kind, value)?),
                        Bound::Unbounded => Bound::Unbounded,
                    })
                };
                let range = |(from, to): &(Bound<String>, Bound<String>)| {
                    Ok::<_, ExecError>((bound(from)?, bound(to)?))
                };
                PlanCounts::Ranges(ranges.iter().map(range).collect::<Result<_, _>>()?)
            }
        };
        Ok(PlanFacet { column, kind, counts })
    }
}

/// Checks that values can be those of a hit in an order.
fn check(order: &[PlanKey], after: &SortValues) -> Result<(), ExecError> {
    if after.values.len() != order.len() {
        return Err(ExecError::Sort(format!(
            "{} values to continue after, but {} keys; there must be a value for each key",
            after.values.len(),
            order.len()
        )));
    }
    for (i, (key, value)) in order.iter().zip(&after.values).enumerate() {
        let fits = match (key.by, value) {
            (PlanBy::Score, SortValue::Score(score)) => score.is_finite(),
            (PlanBy::Document, SortValue::Document(_)) => true,
            (PlanBy::Attribute { .. }, SortValue::Missing) => true,
            (PlanBy::Attribute { kind, .. }, SortValue::Value(value)) => {
                let sound = match value {
                    AttributeValue::Date(date) => DATES.contains(date),
                    value => value.flaw().is_none(),
                };
                sound && value.kind() == kind
            }
            _ => false,
        };
        if !fits {
            let what = format!("value {} to continue after does not fit its key", i + 1);
            return Err(ExecError::Sort(what));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use warpseek_testkit::{Library, orders};

    use super::*;

    fn planner() -> Planner {
        let library = Library::new(1, 10, orders()[0].clone());
        Planner::suited(library.fixture.snapshot()).unwrap()
    }

    #[test]
    fn limits_hold_at_the_edge() {
        let planner = planner();
        let sorted = |n: usize| planner.gather(&vec![SortKey::ascending("year"); n], None, &[]);
        assert!(sorted(MAX_SORT_KEYS).is_ok());
        assert!(matches!(sorted(MAX_SORT_KEYS + 1), Err(ExecError::Sort(_))));
        let values = |top| Facet::Values { field: "tag".to_owned(), top };
        let ranges = |n: usize| Facet::Ranges {
            field: "tag".to_owned(),
            ranges: vec![(Bound::Unbounded, Bound::Unbounded); n],
        };
        let counted = |facets: &[Facet]| planner.gather(&[], None, facets);
        for (facets, more) in [
            (vec![values(1); MAX_FACETS], vec![values(1); MAX_FACETS + 1]),
            (vec![values(MAX_FACET_VALUES)], vec![values(MAX_FACET_VALUES + 1)]),
            (vec![ranges(MAX_FACET_RANGES)], vec![ranges(MAX_FACET_RANGES + 1)]),
        ] {
            assert!(counted(&facets).is_ok());
            assert!(matches!(counted(&more), Err(ExecError::Facet(_))));
        }
    }

    #[test]
    fn the_usual_order_gathers_nothing() {
        let planner = planner();
        assert_eq!(planner.gather(&[], None, &[]).unwrap(), None);
        assert_eq!(planner.gather(&[SortKey::score()], None, &[]).unwrap(), None);
        let worst = SortKey { descending: false, ..SortKey::score() };
        assert!(planner.gather(&[worst], None, &[]).unwrap().is_some());
        let after = SortValues { values: vec![SortValue::Score(1.5)], doc: Some(3) };
        let gather = planner.gather(&[], Some(&after), &[]).unwrap().unwrap();
        assert_eq!((&gather.order[..], gather.after), (&[PLAIN][..], Some(after)));
    }

    #[test]
    fn what_does_not_fit_is_an_error() {
        let planner = planner();
        let sorted = |field: &str| planner.gather(&[SortKey::ascending(field)], None, &[]);
        let message = sorted("yaer").unwrap_err().to_string();
        assert_eq!(message, "there is no field `yaer`; did you mean `year`?");
        assert!(matches!(sorted("title"), Err(ExecError::NotAttribute { .. })));
        let after = |value| {
            let after = SortValues { values: vec![value], doc: None };
            planner.gather(&[SortKey::ascending("year")], Some(&after), &[])
        };
        let value = |value| after(SortValue::Value(value));
        assert!(after(SortValue::Missing).is_ok() && value(AttributeValue::Integer(1)).is_ok());
        assert!(value(AttributeValue::Date(1)).is_err());
        assert!(after(SortValue::Score(1.0)).is_err() && after(SortValue::Document(1)).is_err());
        let score = |score| {
            let after = SortValues { values: vec![SortValue::Score(score)], doc: None };
            planner.gather(&[], Some(&after), &[])
        };
        assert!(score(0.0).is_ok() && score(f64::NAN).is_err() && score(f64::INFINITY).is_err());
        let two = SortValues { values: vec![SortValue::Missing; 2], doc: None };
        assert!(planner.gather(&[SortKey::ascending("year")], Some(&two), &[]).is_err());
    }

    #[test]
    fn places_from_json() {
        let planner = planner();
        let read = |field: &str, value: Value| {
            let found = planner.sort_values(&[SortKey::ascending(field)], &[value]);
            found.map(|found| found.values[0].clone())
        };
        let date = 86_400_000;
        for (field, given, want) in [
            ("year", json!(7), AttributeValue::Integer(7)),
            ("year", json!("7"), AttributeValue::Integer(7)),
            ("price", json!(7), AttributeValue::Float(7.0)),
            ("price", json!(-0.1), AttributeValue::Float(-0.1)),
            ("open", json!(true), AttributeValue::Boolean(true)),
            ("tag", json!("é"), AttributeValue::Keyword("é".into())),
            // The number is not read as a year.
            ("published", json!(2020), AttributeValue::Date(2020)),
            ("published", json!("1970-01-02"), AttributeValue::Date(date)),
        ] {
            assert_eq!(read(field, given).unwrap(), SortValue::Value(want), "{field}");
        }
        assert_eq!(read("year", Value::Null).unwrap(), SortValue::Missing);
        for (field, given) in [
            ("year", json!(1.5)),
            ("year", json!("x")),
            ("year", json!([1])),
            ("tag", json!(1)),
            ("open", json!(1)),
            ("published", json!(i64::MAX)),
        ] {
            assert!(read(field, given).is_err(), "{field}");
        }
        let plain = planner.sort_values(&[], &[json!(1.5), json!(3)]).unwrap();
        assert_eq!(plain, SortValues { values: vec![SortValue::Score(1.5)], doc: Some(3) });
        assert!(planner.sort_values(&[], &[json!(1.5), json!(-3)]).is_err());
        assert!(planner.sort_values(&[], &[json!("1.5")]).is_err());
        assert!(planner.sort_values(&[], &[json!(1), json!(1), json!(1)]).is_err());
        let doc = planner.sort_values(&[SortKey::document()], &[json!(4)]).unwrap();
        assert_eq!(doc.values, [SortValue::Document(4)]);
    }
}
