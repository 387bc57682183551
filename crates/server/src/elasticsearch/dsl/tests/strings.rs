//! Queries in one line: `query_string` and `simple_query_string`.

use super::*;

fn title(text: &str) -> Node {
    Node::Words(words(&["title"], text))
}

/// Builds the clauses of the field `title` that a query string joins.
fn of(must: &[&str], should: &[&str], must_not: &[&str]) -> Node {
    let nodes = |list: &[&str]| list.iter().map(|text| title(text)).collect::<Vec<_>>();
    let (must, should, must_not) = (nodes(must), nodes(should), nodes(must_not));
    joined(must, should, must_not)
}

fn joined(must: Vec<Node>, should: Vec<Node>, must_not: Vec<Node>) -> Node {
    Node::Bool(Bool { must, should, must_not, skip_empty: true, ..Bool::default() })
}

fn exists(field: &str) -> Node {
    one(Node::Filter(Filter::Exists { field: field.into() }))
}

fn year(from: Bound<&str>, to: Bound<&str>) -> Node {
    let (from, to) = (from.map(str::to_owned), to.map(str::to_owned));
    one(Node::Filter(Filter::Range { field: "year".into(), from, to }))
}

fn line(text: &str) -> Node {
    node(json!({"query_string": {"query": text, "default_field": "title"}}))
}

#[test]
fn query_strings() {
    use Bound::{Excluded, Included, Unbounded};
    assert_eq!(line("a"), title("a"));
    assert_eq!(line("a b"), of(&[], &["a", "b"], &[]));
    assert_eq!(line("a AND b"), of(&["a", "b"], &[], &[]));
    assert_eq!(line("a OR b"), of(&[], &["a", "b"], &[]));
    assert_eq!(line("+a b -c"), of(&["a"], &["b"], &["c"]));
    assert_eq!(line("a NOT b"), of(&[], &["a"], &["b"]));
    assert_eq!(line("a AND NOT b"), of(&["a"], &[], &["b"]));
    assert_eq!(line("a^2"), Node::Boost(Box::new(title("a")), 2.0));
    assert_eq!(line("(a)"), title("a"));
    // A phrase of one word, which the engine searches as a word; `a-b` would be two words.
    assert_eq!(line("\"a\""), phrase("title", "a", 0));
    assert_eq!(line("a\\:b"), title("a:b"));
    assert_eq!(line("a\\*"), title("a*"));
    assert_eq!(line("\\/a\\/"), title("/a/"));
    assert_eq!(line("and/or"), title("and/or"));
    assert_eq!(line(""), Node::Nothing);
    assert_eq!(line("tag:x"), one(terms("tag", &["x"])));
    let prefix = Filter::Prefix { field: "tag".into(), prefix: "x".into() };
    assert_eq!(line("tag:x*"), one(Node::Filter(prefix)));
    assert_eq!(line("_exists_:tag"), exists("tag"));
    assert_eq!(line("tag:*"), exists("tag"));
    assert_eq!(line("*:*"), Node::All);
    assert_eq!(line("*"), exists("title"));
    // A pattern selects the text fields that it matches.
    assert_eq!(line("t*:*"), exists("title"));
    assert_eq!(line("t*:[* TO *]"), exists("title"));
    assert_eq!(line("year:[1 TO 5}"), year(Included("1"), Excluded("5")));
    assert_eq!(line("year:{1 TO 5]"), year(Excluded("1"), Included("5")));
    assert_eq!(line("year:[* TO 5]"), year(Unbounded, Included("5")));
    assert_eq!(line("year:[* TO *]"), exists("year"));
    assert_eq!(line("year:>2001"), year(Excluded("2001"), Unbounded));
    assert_eq!(line("year:>=2001"), year(Included("2001"), Unbounded));
    assert_eq!(line("year:<2001"), year(Unbounded, Excluded("2001")));
    assert_eq!(line("year:<=-1"), year(Unbounded, Included("-1")));
    assert_eq!(
        line("year:(>=10 AND <20)"),
        joined(
            vec![year(Included("10"), Unbounded), year(Unbounded, Excluded("20"))],
            vec![],
            vec![]
        )
    );
    let boosted = Node::Boost(Box::new(year(Excluded("1"), Unbounded)), 2.0);
    assert_eq!(line("year:>1^2"), boosted);
    // Without a field before it, a comparison is an ordinary word.
    assert_eq!(line(">2001"), title(">2001"));
    let of_year = json!({"query_string": {"query": "[1 TO 5]", "default_field": "year"}});
    assert_eq!(node(of_year), year(Included("1"), Included("5")));
    let dates = node(json!({"query_string": {"query": "at:>=2024-01-01"}}));
    assert_eq!(dates, node(json!({"range": {"at": {"gte": "2024-01-01"}}})));
}

/// Consecutive words are one text, which each field turns into a query.
#[test]
fn words_in_several_fields() {
    let best = |text: &str, operator| {
        let across = Across::Best { tie_breaker: 0.0 };
        Node::Words(Words { operator, across, ..words(&["title", "body"], text) })
    };
    let read = |text: &str, operator: &str| {
        node(
            json!({"query_string": {"query": text, "fields": ["title", "body"], "default_operator": operator}}),
        )
    };
    use Operator::{And, Or};
    assert_eq!(read("a b", "and"), best("a b", And));
    assert_eq!(read("a b c", "or"), best("a b c", Or));
    let all = |texts: &[&str]| texts.iter().map(|text| best(text, And)).collect::<Vec<_>>();
    let any = |texts: &[&str]| texts.iter().map(|text| best(text, Or)).collect::<Vec<_>>();
    assert_eq!(read("a AND b", "or"), joined(any(&["a", "b"]), vec![], vec![]));
    // A word with an operator, a boost or a sign is a separate clause.
    assert_eq!(read("a b c AND d", "or"), joined(any(&["c", "d"]), any(&["a b"]), vec![]));
    assert_eq!(read("a b OR c", "and"), joined(all(&["a"]), all(&["b", "c"]), vec![]));
    assert_eq!(read("+a b c", "or"), joined(any(&["a"]), any(&["b c"]), vec![]));
    assert_eq!(read("-a b c", "and"), joined(all(&["b c"]), vec![], all(&["a"])));
    let boosted = Node::Boost(Box::new(best("b", And)), 2.0);
    assert_eq!(read("a b^2", "and"), joined(vec![best("a", And), boosted], vec![], vec![]));
    assert_eq!(read("a (b c) d", "and"), joined(all(&["a", "b c", "d"]), vec![], vec![]));
    // A keyword is the whole text.
    assert_eq!(line("tag:(a b)"), one(terms("tag", &["a b"])));
    let of_type = |kind: &str, tie: Value| {
        let mut body = json!({"query": "a b", "fields": ["title", "body"], "type": kind});
        if tie.is_number() {
            body["tie_breaker"] = tie;
        }
        node(json!({"query_string": body}))
    };
    let across = |tie_breaker| {
        let across = Across::Best { tie_breaker };
        Node::Words(Words { across, ..words(&["title", "body"], "a b") })
    };
    assert_eq!(of_type("best_fields", Value::Null), across(0.0));
    assert_eq!(of_type("best_fields", json!(0.3)), across(0.3));
    assert_eq!(of_type("most_fields", Value::Null), across(1.0));
    let phrases = |tie_breaker| {
        let queries = ["title", "body"].map(|field| phrase(field, "a b", 0)).to_vec();
        Node::Best { of: queries, tie_breaker }
    };
    assert_eq!(of_type("phrase", Value::Null), phrases(0.0));
    assert_eq!(of_type("phrase", json!(0.5)), phrases(0.5));
    let Node::Bool(crossed) = of_type("cross_fields", Value::Null) else { panic!() };
    assert_eq!(crossed.should.len(), 2, "a clause a word: {crossed:?}");
    let slop = json!({"query_string": {"query": "\"a b\" \"c d\"~1", "default_field": "title", "phrase_slop": 2}});
    let clauses = vec![phrase("title", "a b", 2), phrase("title", "c d", 1)];
    assert_eq!(node(slop), joined(vec![], clauses, vec![]));
}

#[test]
fn minimum_should_match_counts_clauses() {
    let least = |clause: &str, text: &str, fields: Value| match node(
        json!({clause: {"query": text, "fields": fields, "minimum_should_match": 2}}),
    ) {
        Node::Bool(parts) => (parts.should.len(), parts.least),
        _ => (0, None),
    };
    let two = Some(Least::count(2));
    for clause in ["query_string", "simple_query_string"] {
        assert_eq!(least(clause, "a a b", json!(["title"])), (3, two.clone()));
        assert_eq!(least(clause, "(a b c)", json!(["title"])), (3, two.clone()));
        assert_eq!(least(clause, "a", json!(["title"])), (0, None));
    }
    // The text is one clause, whose words the fields count.
    assert_eq!(least("query_string", "a b", json!(["title", "body"])), (0, None));
    assert_eq!(least("query_string", "a OR b", json!(["title", "body"])), (2, two.clone()));
    assert_eq!(least("simple_query_string", "a b", json!(["title", "body"])), (2, two));
    assert_eq!(least("query_string", "+a +b", json!(["title"])), (0, None));
}

fn simple(text: &str) -> Node {
    simple_with(text, json!({}))
}

fn simple_with(text: &str, options: Value) -> Node {
    let mut body = json!({"query": text, "fields": ["title"]});
    body.as_object_mut().unwrap().extend(options.as_object().unwrap().clone());
    node(json!({"simple_query_string": body}))
}

/// Builds a query for all documents except those of a clause.
fn not(clause: Node) -> Node {
    one(joined(vec![], vec![], vec![clause]))
}

#[test]
fn simple_query_strings() {
    let and = |clauses: Vec<Node>| joined(clauses, vec![], vec![]);
    let or = |clauses: Vec<Node>| joined(vec![], clauses, vec![]);
    let [a, b, c, d] = ["a", "b", "c", "d"].map(title);
    assert_eq!(simple("a + b"), of(&["a", "b"], &[], &[]));
    assert_eq!(simple("a+b"), of(&["a", "b"], &[], &[]));
    assert_eq!(simple("a | b"), of(&[], &["a", "b"], &[]));
    // Operators apply from left to right.
    let ab = || and(vec![a.clone(), b.clone()]);
    assert_eq!(simple("a + b | c"), or(vec![ab(), c.clone()]));
    assert_eq!(simple("a + b | c | d"), or(vec![ab(), c.clone(), d.clone()]));
    assert_eq!(simple("a | b + c"), and(vec![or(vec![a.clone(), b.clone()]), c.clone()]));
    assert_eq!(simple("a | (b + c)"), or(vec![a.clone(), and(vec![b.clone(), c.clone()])]));
    assert_eq!(simple("a + b c"), or(vec![ab(), c.clone()]));
    let and_by_default = json!({"default_operator": "and"});
    assert_eq!(simple_with("a b | c", and_by_default.clone()), or(vec![ab(), c.clone()]));
    assert_eq!(simple_with("a b", and_by_default.clone()), ab());
    // The first of several operators counts, and operators before all clauses are ignored.
    assert_eq!(simple("a + | b"), ab());
    assert_eq!(simple("+a b"), of(&[], &["a", "b"], &[]));
    // Negated clauses.
    assert_eq!(simple("a -b"), or(vec![a.clone(), not(b.clone())]));
    assert_eq!(simple("a +-b"), and(vec![a.clone(), not(b.clone())]));
    assert_eq!(simple_with("a -b", and_by_default), and(vec![a.clone(), not(b.clone())]));
    assert_eq!(simple("-a"), not(a.clone()));
    assert_eq!(simple("--a"), a);
    assert_eq!(simple("- a"), a);
    assert_eq!(simple("a-b"), title("a-b"));
    assert_eq!(simple("-(a | b)"), not(or(vec![a.clone(), b.clone()])));
    assert_eq!(simple("-\"a b\""), not(phrase("title", "a b", 0)));
    assert_eq!(simple("a:b"), title("a:b"));
    assert_eq!(simple("*"), Node::All);
    assert_eq!(simple(" * "), Node::All);
    assert_eq!(simple(""), Node::Nothing);
    // Unmatched parentheses and quotation marks do not affect the rest.
    assert_eq!(simple("1) apples 2) pears"), of(&[], &["1", "apples", "2", "pears"], &[]));
    assert_eq!(simple(")a"), a);
    assert_eq!(simple("a (b"), of(&[], &["a", "b"], &[]));
    assert_eq!(simple("a + ((b"), ab());
    assert_eq!(simple("a + () + ("), a);
    assert_eq!(simple("(a))"), a);
    assert_eq!(simple("a + () b"), of(&[], &["a", "b"], &[]));
    assert_eq!(simple("a \"b"), of(&[], &["a", "b"], &[]));
    assert_eq!(simple("a \"\" b"), of(&[], &["a", "b"], &[]));
    // Phrases with a slop, and escaped characters.
    assert_eq!(simple("\"a b\"~3"), phrase("title", "a b", 3));
    assert_eq!(simple("\"a b\"~3+c"), and(vec![phrase("title", "a b", 3), c.clone()]));
    assert_eq!(simple("\"a b\"~ c"), or(vec![phrase("title", "a b", 2), c.clone()]));
    assert_eq!(simple("\"a b\"~"), phrase("title", "a b", 0));
    assert_eq!(simple("a\\+b"), title("a+b"));
    assert_eq!(simple("\\-a"), title("-a"));
    assert_eq!(simple("a\\*"), title("a*"));
    assert_eq!(simple("(a\\) b)"), of(&[], &["a)", "b"], &[]));
    assert_eq!(simple("a\\"), a);
    assert_eq!(simple("a~0"), a);
    assert_eq!(simple("~a"), title("~a"));
    let prefix = Node::Filter(Filter::Prefix { field: "tag".into(), prefix: "x".into() });
    assert_eq!(simple_with("x*", json!({"fields": ["tag"]})), one(prefix));
    assert_eq!(simple_with("a*", json!({"flags": "NONE"})), title("a*"));
    assert_eq!(simple_with("a + b", json!({"flags": "NONE"})), title("a + b"));
    assert_eq!(
        simple_with("-a|b", json!({"flags": "OR | WHITESPACE"})),
        of(&[], &["-a", "b"], &[])
    );
    assert_eq!(simple_with("-a|b", json!({"flags": 132})), of(&[], &["-a", "b"], &[]));
    assert_eq!(simple_with("a + b", json!({"flags": -1})), ab());
    // Scores of fields are added word by word.
    let sum = |text: &str| {
        let across = Across::Best { tie_breaker: 1.0 };
        Node::Words(Words { across, ..words(&["title", "body"], text) })
    };
    let both = json!({"fields": ["title", "body"], "default_operator": "and"});
    assert_eq!(simple_with("a b", both), and(vec![sum("a"), sum("b")]));
}

#[test]
fn operators_that_take_turns_for_ever_are_refused() {
    let text = "a + b | ".repeat(100);
    let failure = read(json!({"simple_query_string": {"query": text}})).unwrap_err();
    assert!(failure.reason.contains("alternate"), "{}", failure.reason);
    let text = format!("{}a{}", "(".repeat(40), ")".repeat(40));
    for clause in ["simple_query_string", "query_string"] {
        let failure = read(json!({clause: {"query": text}})).unwrap_err();
        assert!(failure.reason.contains("parentheses"), "{}", failure.reason);
    }
    // The scan for unclosed parentheses takes linear time.
    let text = "(".repeat(990);
    assert_eq!(simple(&text), Node::Nothing);
}

#[test]
fn every_kind_of_clause_has_its_boost() {
    for clause in [
        "a",
        "\"a b\"~2",
        "(a b)",
        "*",
        "*:*",
        "_exists_:tag",
        "tag:x",
        "tag:x*",
        "tag:*",
        "year:>1",
        "year:[1 TO 5}",
        "year:[* TO *]",
        "tag:(x y)",
        "title:\"a b\"",
    ] {
        let plain = line(clause);
        assert_eq!(line(&format!("{clause}^2.5")), Node::Boost(Box::new(plain), 2.5), "{clause}");
    }
    // The boost of a field applies to every query in it.
    let field = |text: &str| node(json!({"query_string": {"query": text, "fields": ["tag^3"]}}));
    for clause in ["*", "x*"] {
        assert!(matches!(field(clause), Node::Boost(_, 3.0)), "{clause}");
    }
}
