//! The syntax of queries: docs/queries.md is run, and errors show the place.

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
    // Signs and colons are not part of words, as they never were.
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
const PAGE: &str = include_str!("../../../../docs/queries.md");

/// The page's blocks of JSON.
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

#[test]
fn filters_with_a_schema() {
    let space = example();
    assert_eq!(ids(&space, &["rust", "--filter", "year:>=2020 tag:language"]), "3");
    assert_eq!(ids(&space, &["rust", "--filter", "-title:unsafe"]), "1 2");
    // The scores are those of the query alone.
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
