//! The syntax of queries: the examples of docs/reference/query-syntax.md, and errors that show
//! the position.

use crate::support::Space;

const DOCS: &str = "\
{\"id\":\"a\",\"text\":\"route flap damping\"}
{\"id\":\"b\",\"text\":\"route route route and nothing of the other kind\"}
{\"id\":\"c\",\"text\":\"damping of oscillations\"}
";

fn ids(space: &Space, args: &[&str]) -> String {
    let found = space.args(&[&["search", "idx", "--json"], args].concat()).json();
    let ids = found["hits"].as_array().unwrap().iter().map(|hit| hit["id"].as_str().unwrap());
    ids.collect::<Vec<_>>().join(" ")
}

#[test]
fn queries_without_a_schema() {
    let space = Space::with_index(DOCS);
    // Signs and colons are not part of words.
    assert_eq!(ids(&space, &["--", "+route -damping x:y"]), "a b c");
    for (query, want) in [
        ("+route -damping", "b"),
        ("route damping _id:(a c)", "a c"),
        ("-route", "c"),
        ("+damping +(route oscillations)^2", "c a"),
        ("*", "a b c"),
    ] {
        assert_eq!(ids(&space, &["--syntax", "--", query]), want, "{query}");
    }
    assert_eq!(ids(&space, &["--syntax", "--mode", "and", "route damping"]), "a");
    assert_eq!(ids(&space, &["--filter", "-flap", "route damping"]), "b c");
    assert_eq!(ids(&space, &["--filter", "*", "route damping"]), "a b c");
    space.write("q.tsv", "1\t+route -damping\n2\tdamping\n");
    let run = ["run", "idx", "--queries", "q.tsv", "-q", "--syntax", "--filter", "_id:(b c)"];
    let run = space.args(&run).ok();
    let hits: Vec<&str> = run.lines().map(|line| line.split(' ').nth(2).unwrap()).collect();
    assert_eq!(hits, ["b", "c"]);
}

#[test]
fn errors_show_the_place() {
    let space = Space::with_index(DOCS);
    let lines = ["error: `(` is not closed\n", "\n  route (flap\n        ^\n"];
    space.args(&["search", "idx", "--syntax", "route (flap"]).fails(2, &lines);
    let field = ["the index has no schema and no field `title`"];
    space.args(&["search", "idx", "route", "--filter", "title:x"]).fails(2, &field);
    let mode = ["mode `and-or` is for words without a syntax"];
    space.args(&["search", "idx", "--syntax", "--mode", "and-or", "route"]).fails(2, &mode);
    space.write("q.tsv", "1\troute\n2\tflap)\n");
    let at = ["q.tsv:2: `)` closes nothing"];
    space.run("run idx --queries q.tsv -q --syntax").fails(2, &at);
    let tree = ["`wand` cannot answer the query", "sum of their words"];
    space.args(&["search", "idx", "--syntax", "*", "--algorithm", "wand"]).fails(2, &tree);
}

/// The page that explains the syntax.
const PAGE: &str = include_str!("../../../../docs/reference/query-syntax.md");

/// Returns the blocks of JSON on the page.
fn blocks() -> Vec<&'static str> {
    let blocks = PAGE.split("```json\n").skip(1);
    blocks.map(|block| block.split("```").next().unwrap()).collect()
}

fn example() -> Space {
    let space = Space::new();
    let [schema, docs] = blocks()[..] else { panic!("a schema and documents") };
    space.write("schema.json", schema);
    space.write("docs.jsonl", docs);
    space.run("index docs.jsonl --schema schema.json -o idx -q").ok();
    space
}

#[test]
fn the_queries_of_the_page() {
    let space = example();
    let table = PAGE.split("| query | hits |\n").nth(1).unwrap();
    let rows = table.lines().skip(1).take_while(|line| line.starts_with('|'));
    let (mut count, mut wrong) = (0, Vec::new());
    for row in rows {
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").collect();
        let [query, hits] = cells[..] else { panic!("{row}") };
        let query = query.trim().trim_matches('`');
        let found = ids(&space, &["--", query]);
        if found != hits.trim() {
            wrong.push((query, found));
        }
        count += 1;
    }
    assert!(count > 10 && wrong.is_empty(), "{count} queries, of which {wrong:?}");
    let error = PAGE.split("$ warpseek search idx \"").nth(1).unwrap();
    let (query, message) = error.split_once("\"\n").unwrap();
    let message: Vec<&str> = message.lines().take(3).map(str::trim).collect();
    space.args(&["search", "idx", query]).fails(2, &message);
}

/// Returns the output of a command in the format of the page: facets if there are any, otherwise
/// the ids of hits.
fn shown(found: &serde_json::Value) -> String {
    let Some(facets) = found["facets"].as_array() else {
        let hits = found["hits"].as_array().unwrap();
        return hits.iter().map(|hit| hit["id"].as_str().unwrap()).collect::<Vec<_>>().join(" ");
    };
    let mut parts = Vec::new();
    for facet in facets {
        let counts = facet["values"].as_array().or(facet["ranges"].as_array()).unwrap();
        for count in counts {
            let name = if count["value"].is_null() { &count["range"] } else { &count["value"] };
            let name = name.as_str().map_or_else(|| name.to_string(), str::to_owned);
            parts.push(format!("{name} {}", count["count"]));
        }
        if facet["other"].as_u64().unwrap_or(0) > 0 {
            let more = facet["distinct"].as_u64().unwrap() - counts.len() as u64;
            parts.push(format!("{more} other value {}", facet["other"]));
        }
        if facet["missing"].as_u64().unwrap() > 0 {
            parts.push(format!("no value {}", facet["missing"]));
        }
    }
    parts.join(", ")
}

#[test]
fn the_orders_and_facets_of_the_page() {
    let space = example();
    let table = PAGE.split("| command | prints |\n").nth(1).unwrap();
    let rows = table.lines().skip(1).take_while(|line| line.starts_with('|'));
    let (mut count, mut wrong) = (0, Vec::new());
    for row in rows {
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").map(str::trim).collect();
        let [command, prints] = cells[..] else { panic!("{row}") };
        let args: Vec<&str> = command.trim_matches('`').split(' ').collect();
        count += 1;
        if let Some(error) = prints.strip_prefix("error: ") {
            space.args(&[&["search", "idx"], &args[..]].concat()).fails(2, &[error]);
            continue;
        }
        let found = shown(&space.args(&[&["search", "idx", "--json"], &args[..]].concat()).json());
        if found != prints {
            wrong.push((command, found));
        }
    }
    assert!(count > 10 && wrong.is_empty(), "{count} commands, of which {wrong:?}");
}

#[test]
fn pages_and_tables_of_sorted_hits() {
    let space = example();
    let search = |more: &[&str]| {
        let order = ["search", "idx", "*", "--sort", "published:desc,_score", "-k", "1", "--json"];
        space.args(&[&order, more].concat()).json()
    };
    let (mut ids, mut page) = (Vec::new(), search(&[]));
    while let Some(hit) = page["hits"].as_array().unwrap().first() {
        ids.push(hit["id"].as_str().unwrap().to_owned());
        page = search(&["--after", &hit["sort"].to_string()]);
    }
    assert_eq!(ids, ["3", "2", "1", "4"]);
    let facets = ["--facet", "tag", "--facet", "year:2020..", "--facet", "open:1"];
    let order = ["search", "idx", "*", "--sort", "year:desc,tag"];
    let text = space.args(&[&order[..], &facets].concat()).ok();
    for part in [
        "  1. 3  year 2022, tag language  1.0000\n",
        "  2. 4  year 2022, no tag  1.0000\n",
        "tag\n     language  2\n     systems   2\n     no value  1\n",
        "year\n     2020..  3\n",
        "open\n     false          1\n     1 other value  1\n     no value       2\n",
        "by tree (all matches are sorted or counted)",
    ] {
        assert!(text.contains(part), "{part:?} in {text}");
    }
}

#[test]
fn orders_and_facets_that_cannot_be() {
    let space = example();
    for (args, messages) in [
        (&["--sort", "yaer"][..], &["there is no field `yaer`; did you mean `year`?"][..]),
        (&["--facet", "tags"], &["there is no field `tags`; did you mean `tag`?"]),
        (&["--sort", "year:up"], &["`up` is not one of asc, desc, first, last"]),
        (&["--facet", "year:a..b"], &["`a` cannot be a value of `year`"]),
        (&["--facet", "tag:65537"], &["at most 65536 are returned"]),
        (&["--sort", "year", "--after", "[1]]"], &["--after is not a JSON array"]),
        (&["--sort", "year", "--after", "[true, 1]"], &["`true` cannot be a value of `year`"]),
        (&["--sort", "year", "--after", "[]"], &["there must be 1, one for each key"]),
        (&["--sort", "year", "--algorithm", "wand"], &["`wand` cannot answer the query"]),
    ] {
        space.args(&[&["search", "idx", "rust"], args].concat()).fails(2, messages);
    }
    let plain = Space::with_index(DOCS);
    let sort = ["search", "idx", "route", "--sort", "year"];
    plain.args(&sort).fails(2, &["there is no field `year`"]);
    let mode = ["search", "idx", "route", "--mode", "and-or", "--sort", "_doc"];
    plain.args(&mode).fails(2, &["mode `and-or` depends on how many hits are wanted"]);
    assert_eq!(ids(&plain, &["route damping", "--sort", "_doc:desc"]), "c b a");
}

#[test]
fn filters_with_a_schema() {
    let space = example();
    assert_eq!(ids(&space, &["rust", "--filter", "year:>=2020 tag:language"]), "3");
    assert_eq!(ids(&space, &["rust", "--filter", "-title:unsafe"]), "1 2");
    // The filter does not affect scores.
    let scores = |args: &[&str]| {
        let found = space.args(&[&["search", "idx", "--json"], args].concat()).json();
        let hit = |hit: &serde_json::Value| (hit["id"].to_string(), hit["score"].to_string());
        found["hits"].as_array().unwrap().iter().map(hit).collect::<Vec<_>>()
    };
    let all = scores(&["rust memory"]);
    let some = scores(&["rust memory", "--filter", "open:*"]);
    assert_eq!(some, all.into_iter().filter(|hit| hit.0 != "\"2\"").collect::<Vec<_>>());
    let value =
        ["`new` cannot be a value of `year`; it must be an integer", "\n  year:new\n       ^"];
    space.args(&["search", "idx", "rust", "--filter", "year:new"]).fails(2, &value);
}
