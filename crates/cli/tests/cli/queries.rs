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
