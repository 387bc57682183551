//! Sort orders of hits, positions in them, and facets: parsing of the options and output as text
//! and JSON.

use std::io::Write;
use std::ops::Bound;

use clap::Args;
use serde_json::{Value, json};
use warpseek::query::{Facet, FacetCounts, Missing, SortBy, SortKey, SortValue, value_as_json};
use warpseek::schema::AttributeValue;
use warpseek::{Request, Response, Searcher};
use warpseek_console::Failure;
use warpseek_console::terminal::{Theme, count, counted, table};

use crate::report::text::printable;

/// Number of values that a facet shows unless the option gives one.
const TOP: usize = 10;

/// The sort order of hits, and the facets that count matches.
#[derive(Args, Clone, Default)]
#[command(next_help_heading = "Sorting and counting")]
pub(crate) struct Sorting {
    /// Sort hits by these keys: attributes, `_score`, or `_doc` (the order of addition). Append
    /// `:asc` or `:desc`, and `:first` or `:last` for documents without a value [default:
    /// _score:desc; other keys: asc, last]
    #[arg(long, value_name = "KEY,...", value_parser = order)]
    sort: Option<Order>,
    /// Continue after a hit of the same order: its `sort` from the output of --json, e.g. '[2019,
    /// 17]'
    #[arg(long, value_name = "JSON", hide_short_help = true)]
    after: Option<String>,
    /// Count all matches by the values of an attribute and show the ten most frequent (`tag`) or
    /// the N most frequent (`tag:N`), or count by ranges, which include the lower bound and exclude
    /// the upper (`year:2000..2010,2010..`). May be repeated
    #[arg(long, value_name = "FIELD", value_parser = facet)]
    facet: Vec<Facet>,
}

#[derive(Clone, Debug, PartialEq)]
struct Order(Vec<SortKey>);

fn order(text: &str) -> Result<Order, String> {
    text.split(',').map(key).collect::<Result<_, _>>().map(Order)
}

fn key(text: &str) -> Result<SortKey, String> {
    let mut parts = text.trim().split(':');
    let mut key = match parts.next().unwrap_or_default() {
        "" => return Err("a sort key has no name".to_owned()),
        "_score" => SortKey::score(),
        "_doc" => SortKey::document(),
        field => SortKey::ascending(field),
    };
    for part in parts {
        match part {
            "asc" => key.descending = false,
            "desc" => key.descending = true,
            "first" => key.missing = Missing::First,
            "last" => key.missing = Missing::Last,
            _ => return Err(format!("`{part}` is not one of asc, desc, first, last")),
        }
    }
    Ok(key)
}

fn facet(text: &str) -> Result<Facet, String> {
    let (field, rest) = text.split_once(':').map_or((text, None), |(f, rest)| (f, Some(rest)));
    let field = field.trim().to_owned();
    if field.is_empty() {
        return Err("the facet has no field".to_owned());
    }
    let Some(rest) = rest else { return Ok(Facet::Values { field, top: TOP }) };
    if !rest.contains("..") {
        let top = rest.parse();
        let top = top.map_err(|_| format!("`{rest}` is neither a number nor ranges like 1..5"))?;
        return Ok(Facet::Values { field, top });
    }
    let range = |range: &str| {
        let Some((from, to)) = range.split_once("..") else {
            return Err(format!("`{range}` is not a range like 1..5, ..5 or 1.."));
        };
        let bound = |text: &str, bound: fn(String) -> Bound<String>| match text.trim() {
            "" => Bound::Unbounded,
            text => bound(text.to_owned()),
        };
        Ok((bound(from, Bound::Included), bound(to, Bound::Excluded)))
    };
    let ranges = rest.split(',').map(range).collect::<Result<_, _>>()?;
    Ok(Facet::Ranges { field, ranges })
}

impl Sorting {
    /// Returns the request with the order, the position to continue after, and the facets.
    pub(crate) fn apply(&self, searcher: &Searcher, request: Request) -> Result<Request, Failure> {
        let sort = self.sort.as_ref().map_or(Vec::new(), |order| order.0.clone());
        let mut request = request.sort(sort).facets(self.facet.clone());
        if let Some(text) = &self.after {
            let values: Vec<Value> = serde_json::from_str(text).map_err(|error| {
                let hint = "pass the `sort` of a hit from the output of --json";
                Failure::user(format!("--after is not a JSON array: {error}; {hint}"))
            })?;
            request.after = Some(searcher.sort_values(&request.sort, &values)?);
        }
        Ok(request)
    }

    /// Returns true if hits are shown with the values that they are sorted by.
    pub(crate) fn is_sorted(&self) -> bool {
        self.sort.is_some() || self.after.is_some()
    }

    /// Returns the values of the attributes that a hit is sorted by, for its line.
    pub(crate) fn line(&self, response: &Response, rank: usize) -> String {
        let Some(Order(sort)) = &self.sort else { return String::new() };
        let values = response.sort_values(rank).values;
        let shown = sort.iter().zip(values).filter_map(|(key, value)| {
            let SortBy::Attribute(field) = &key.by else { return None };
            Some(match value {
                SortValue::Value(value) => format!("{field} {}", shown(&value)),
                _ => format!("no {field}"),
            })
        });
        printable(&shown.collect::<Vec<_>>().join(", "))
    }

    /// Returns the facets of a response as JSON.
    pub(crate) fn json(&self, response: &Response) -> Value {
        let facet = |(facet, counts): (&Facet, &FacetCounts)| match (facet, counts) {
            (_, FacetCounts::Values { values, other, distinct, missing }) => {
                let value = |(value, count): &(AttributeValue<'_>, u64)| json!({ "value": value_as_json(value), "count": count });
                let values: Vec<Value> = values.iter().map(value).collect();
                json!({
                    "field": field_of(facet), "values": values, "other": other, "distinct": distinct,
                    "missing": missing,
                })
            }
            (facet, FacetCounts::Ranges { counts, missing }) => {
                let range =
                    |(range, count): (String, &u64)| json!({ "range": range, "count": count });
                let ranges: Vec<Value> = names(facet).into_iter().zip(counts).map(range).collect();
                json!({ "field": field_of(facet), "ranges": ranges, "missing": missing })
            }
        };
        self.facet.iter().zip(response.facets()).map(facet).collect()
    }

    /// Prints the facets of a response as tables.
    pub(crate) fn print(
        &self,
        response: &Response,
        out: &mut impl Write,
        theme: &Theme,
    ) -> Result<(), Failure> {
        for (facet, counts) in self.facet.iter().zip(response.facets()) {
            let row = |name: String, n: u64| vec![format!("     {}", printable(&name)), count(n)];
            let (mut rows, missing) = match counts {
                FacetCounts::Values { values, other, distinct, missing } => {
                    let mut rows: Vec<_> = values.iter().map(|(v, n)| row(shown(v), *n)).collect();
                    let more = distinct - values.len() as u64;
                    if more > 0 {
                        rows.push(row(counted(more, "other value"), *other));
                    }
                    (rows, *missing)
                }
                FacetCounts::Ranges { counts, missing } => {
                    let ranges = names(facet).into_iter().zip(counts);
                    (ranges.map(|(name, n)| row(name, *n)).collect(), *missing)
                }
            };
            if missing > 0 {
                rows.push(row("no value".to_owned(), missing));
            }
            writeln!(out, "{}", theme.paint(theme.strong, printable(field_of(facet))))?;
            table(&rows, out)?;
        }
        Ok(())
    }
}

fn field_of(facet: &Facet) -> &str {
    let (Facet::Values { field, .. } | Facet::Ranges { field, .. }) = facet;
    field
}

/// Returns the ranges of a facet as the user wrote them.
fn names(facet: &Facet) -> Vec<String> {
    let Facet::Ranges { ranges, .. } = facet else { return Vec::new() };
    let bound = |bound: &Bound<String>| match bound {
        Bound::Included(text) | Bound::Excluded(text) => text.clone(),
        Bound::Unbounded => String::new(),
    };
    ranges.iter().map(|(from, to)| format!("{}..{}", bound(from), bound(to))).collect()
}

/// Returns a value as text.
fn shown(value: &AttributeValue<'_>) -> String {
    match value_as_json(value) {
        Value::String(text) => text,
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn orders_as_users_write_them() {
        let Order(keys) = order("year:desc:first, _score,_doc:desc,tag:asc").unwrap();
        let year = SortKey::descending("year").missing(Missing::First);
        let doc = SortKey { descending: true, ..SortKey::document() };
        assert_eq!(keys, [year, SortKey::score(), doc, SortKey::ascending("tag")]);
        assert_eq!(order("year:down").unwrap_err(), "`down` is not one of asc, desc, first, last");
        assert!(order("year,").is_err() && order("").is_err() && order(":asc").is_err());
    }

    #[test]
    fn facets_as_users_write_them() {
        let values = |top| Facet::Values { field: "tag".to_owned(), top };
        assert_eq!(facet("tag"), Ok(values(TOP)));
        assert_eq!(facet("tag:25"), Ok(values(25)));
        let ranges = facet("year:..2000,2000..2010, 2010..").unwrap();
        assert_eq!(names(&ranges), ["..2000", "2000..2010", "2010.."]);
        let dates = facet("at:2020-01-01T10:00:00Z..2021").unwrap();
        let from = Bound::Included("2020-01-01T10:00:00Z".to_owned());
        let ranges = vec![(from, Bound::Excluded("2021".to_owned()))];
        assert_eq!(dates, Facet::Ranges { field: "at".to_owned(), ranges });
        assert!(facet("year:many").is_err() && facet("year:1..2,3").is_err());
        assert!(facet(":1..2").is_err());
    }
}
