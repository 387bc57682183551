//! Tests of the query syntax: parsing, formatting and error messages.

use proptest::prelude::*;

use super::super::display::{display, escaped};
use super::*;

fn schema() -> Schema {
    Schema::parse(
        r#"{"text": [{"name": "title"}, {"name": "text"}, {"name": "placed", "positions": true}], "attributes": [
            {"name": "year", "type": "integer"}, {"name": "tag", "type": "keyword", "many": true},
            {"name": "price", "type": "float"}, {"name": "open", "type": "boolean"},
            {"name": "published", "type": "date"}, {"name": "a b:c", "type": "keyword"}]}"#,
    )
    .unwrap()
}

fn read(text: &str) -> Result<Node, SyntaxError> {
    parse(text, Some(&schema()), Operator::Or)
}

fn any(text: &str) -> Node {
    Node::Words(Words::any([], text))
}

fn title(text: &str) -> Node {
    Node::Words(Words::any(["title".to_owned()], text))
}

/// Returns a query without clauses.
fn clauses() -> Bool {
    Bool { skip_empty: true, ..Bool::default() }
}

fn boost(node: Node, weight: f64) -> Node {
    Node::Boost(Box::new(node), weight)
}

fn terms(field: &str, values: &[&str]) -> Node {
    let values = values.iter().map(|&value| value.to_owned()).collect();
    Node::Filter(Filter::Terms { field: field.to_owned(), values })
}

fn range(field: &str, from: Bound<&str>, to: Bound<&str>) -> Node {
    let (from, to) = (from.map(str::to_owned), to.map(str::to_owned));
    Node::Filter(Filter::Range { field: field.to_owned(), from, to })
}

#[test]
fn queries_and_their_trees() {
    use Bound::{Excluded, Included, Unbounded};
    let all = |should: &[Node]| Node::Bool(Bool { should: should.to_vec(), ..clauses() });
    let exists = |field: &str| Node::Filter(Filter::Exists { field: field.to_owned() });
    let ids = |ids: &[&str]| Node::Filter(Filter::Ids(ids.iter().map(|&id| id.into()).collect()));
    for (text, want) in [
        ("", Node::Nothing),
        ("  \t", Node::Nothing),
        ("rust", any("rust")),
        ("+rust", any("rust")),
        ("((rust))", any("rust")),
        ("rust^2.5", boost(any("rust"), 2.5)),
        ("title:rust^2", boost(title("rust"), 2.0)),
        ("rust memory", all(&[any("rust"), any("memory")])),
        ("*", Node::All),
        ("*^2", boost(Node::All, 2.0)),
        ("(a^2)^3", boost(boost(any("a"), 2.0), 3.0)),
        ("title:(a b)^3", boost(all(&[title("a"), title("b")]), 3.0)),
        (r#""a b""#, Node::Phrase(Phrase::exact([], "a b"))),
        (r#"placed:"a \"b\""~12^3"#, {
            let phrase = Phrase::exact(["placed".to_owned()], "a \"b\"");
            boost(Node::Phrase(Phrase { slop: 12, ..phrase }), 3.0)
        }),
        ("placed:(\"a b\" c)", {
            let phrase = Phrase::exact(["placed".to_owned()], "a b");
            all(&[Node::Phrase(phrase), Node::Words(Words::any(["placed".to_owned()], "c"))])
        }),
        ("a~2", any("a~2")),
        ("title:(a text:b)", {
            all(&[title("a"), Node::Words(Words::any(["text".to_owned()], "b"))])
        }),
        (r"c\+\+ \-x a\:b \(", all(&[any("c++"), any("-x"), any("a:b"), any("(")])),
        ("c++ state-of-the-art", all(&[any("c++"), any("state-of-the-art")])),
        (r"a\ b", any("a b")),
        ("f(x)", all(&[any("f"), any("x")])),
        ("tag:a", terms("tag", &["a"])),
        ("+tag:a", terms("tag", &["a"])),
        ("tag:(a \"b c\" -d)", terms("tag", &["a", "b c", "-d"])),
        ("tag:http://x", terms("tag", &["http://x"])),
        ("tag:\"\"", terms("tag", &[""])),
        (r#"tag:"a \"b\" \\""#, terms("tag", &["a \"b\" \\"])),
        (r"a\ b\:c:d", terms("a b:c", &["d"])),
        ("tag:*", exists("tag")),
        ("title:*", exists("title")),
        ("_id:(7 8)", ids(&["7", "8"])),
        ("_id:x:y", ids(&["x:y"])),
        ("year:>=2020", range("year", Included("2020"), Unbounded)),
        ("year:>-5", range("year", Excluded("-5"), Unbounded)),
        ("year:<=7", range("year", Unbounded, Included("7"))),
        ("published:<2020-01-31T10:15:30Z", {
            range("published", Unbounded, Excluded("2020-01-31T10:15:30Z"))
        }),
        ("year:[1 TO 2]", range("year", Included("1"), Included("2"))),
        ("year:{ 1  TO\t2}", range("year", Excluded("1"), Excluded("2"))),
        ("price:[* TO 1e3}", range("price", Unbounded, Excluded("1e3"))),
        ("tag:[\"*\" TO *]", range("tag", Included("*"), Unbounded)),
    ] {
        assert_eq!(read(text), Ok(want), "{text}");
    }
    let prefix = Filter::Prefix { field: "tag".into(), prefix: "ab*".into() };
    assert_eq!(read(r"tag:ab\**"), Ok(Node::Filter(prefix)));
}

#[test]
fn signs() {
    let want = Bool {
        must: vec![any("memory")],
        should: vec![boost(title("rust"), 2.0)],
        must_not: vec![any("unsafe"), terms("tag", &["c"])],
        filter: vec![
            range("year", Bound::Included("2020"), Bound::Unbounded),
            terms("tag", &["a", "b"]),
        ],
        ..clauses()
    };
    let text = "title:rust^2 +memory -unsafe year:>=2020 +tag:(a b) -tag:c";
    assert_eq!(read(text), Ok(Node::Bool(want)));
    // Parentheses without words are a condition as a whole.
    let tagged = Bool { filter: vec![terms("tag", &["a"])], ..clauses() };
    let condition = Bool { must_not: vec![any("x")], ..tagged };
    let want = Bool {
        should: vec![any("rust")],
        least: Some(Least::count(1)),
        filter: vec![Node::Bool(condition)],
        ..clauses()
    };
    assert_eq!(read("rust (tag:a -x)"), Ok(Node::Bool(want)));
    let want = Bool { must: vec![any("a"), any("b")], ..clauses() };
    assert_eq!(parse("a b", None, Operator::And), Ok(Node::Bool(want)));
}

#[test]
fn errors_point_at_a_character() {
    for (text, column, message) in [
        ("titel:rust", 1, "there is no field `titel`; did you mean `title`?"),
        ("é titl:x", 3, "there is no field `titl`; did you mean `title`?"),
        ("http://x", 1, "there is no field `http`; write `\\:` if the colon belongs to a word"),
        ("a (b", 3, "`(` is not closed"),
        ("a tag:(b", 7, "`(` is not closed"),
        ("tag:\"b", 5, "`\"` is not closed"),
        ("ü) b", 2, "`)` closes nothing; write `\\)` if it belongs to a word"),
        ("a ()", 3, "a query between `(` and `)` is missing here"),
        ("a + b", 4, "a word is missing here"),
        ("a -", 4, "a word is missing here"),
        ("(+)", 3, "a word is missing here"),
        ("^2", 1, "a word is missing here"),
        (":b", 1, "the name of a field is missing here"),
        ("tag:", 5, "a value is missing here"),
        ("title: x", 7, "a value is missing here"),
        ("tag:()", 6, "a value is missing here"),
        ("year:>", 7, "a value is missing here"),
        ("year:[ TO 3]", 8, "`TO` cannot be a value of `year`; it must be an integer of 64 bits"),
        ("a^", 3, "`` is not a weight; it must be a number above 0 and up to 1e9"),
        ("a^x b", 3, "`x` is not a weight; it must be a number above 0 and up to 1e9"),
        ("a^0", 3, "`0` is not a weight; it must be a number above 0 and up to 1e9"),
        ("a^1e10", 3, "`1e10` is not a weight; it must be a number above 0 and up to 1e9"),
        ("a tag:b^2", 3, "a condition adds nothing to scores and cannot have a weight"),
        ("year:new", 6, "`new` cannot be a value of `year`; it must be an integer of 64 bits"),
        ("year:(1 x)", 9, "`x` cannot be a value of `year`; it must be an integer of 64 bits"),
        ("price:>a", 8, "`a` cannot be a value of `price`; it must be a number"),
        ("open:yes", 6, "`yes` cannot be a value of `open`; it must be true or false"),
        ("published:[2020 TO x]", 20, "`x` cannot be a value of `published`; it must be a date"),
        ("title:>3", 7, "`title` is a text field; ranges and comparisons are for attributes"),
        ("title:[a TO b]", 7, "`title` is a text field"),
        ("year:[1 2]", 6, "a range is written as `[from TO to]`"),
        ("year:[1 TO 2", 6, "a range is written as `[from TO to]`"),
        ("year:[1 TO2]", 6, "a range is written as `[from TO to]`"),
        ("ab*", 3, "`*` is only allowed at the end of a value of a keyword attribute"),
        ("title:ab*", 9, "`*` is only allowed at the end"),
        ("a*b", 2, "`*` is only allowed at the end"),
        ("year:20*", 8, "`*` is only allowed at the end"),
        ("tag:(a*)", 7, "`*` is only allowed at the end"),
        ("\\aé*", 4, "`*` is only allowed at the end"),
        ("_id:\\aé*", 8, "`*` is only allowed at the end"),
        ("year:\\aé*", 9, "`*` is only allowed at the end"),
        ("year:[\\aé* TO *]", 10, "`*` is only allowed at the end"),
        ("title*:a", 6, "`*` is only allowed at the end"),
        ("\"a b", 1, "`\"` is not closed"),
        ("a title:\"b\"", 9, "`title` has no positions to find phrases with"),
        ("placed:\"\"", 8, "a word is missing here"),
        ("\"a b\"~", 7, "`` is not a slop; it must be a number from 0 to 4294967295"),
        ("\"a b\"~-1", 7, "`-1` is not a slop"),
        ("\"a b\"~4294967296", 7, "`4294967296` is not a slop"),
        ("\"a b\"~x^2", 7, "`x` is not a slop"),
        ("tag:(a +b)", 8, "the values of an attribute cannot have a sign"),
        ("a\\", 2, "`\\` must be followed by the character that it escapes"),
    ] {
        let error = read(text).unwrap_err();
        assert_eq!(error.column, column, "{text}: {error}");
        assert!(error.kind.to_string().starts_with(message), "{text}: {error}");
        assert_eq!(error.query[..error.at].chars().count() + 1, column);
    }
    let none = parse("title:a", None, Operator::Or).unwrap_err();
    assert!(matches!(none.kind, SyntaxErrorKind::NoSchema { .. }));
    assert!(parse("_id:a", None, Operator::Or).is_ok());
    let nested = |n: usize| "(".repeat(n) + "a" + &")".repeat(n);
    assert!(read(&nested(MAX_TREE_DEPTH)).is_ok());
    let error = read(&nested(MAX_TREE_DEPTH + 1)).unwrap_err();
    assert_eq!((error.kind, error.column), (SyntaxErrorKind::TooDeep, MAX_TREE_DEPTH + 1));
}

#[test]
fn a_caret_is_under_the_character() {
    let error = read("é titl:x").unwrap_err();
    assert_eq!(error.caret(60), "é titl:x\n  ^");
    let long = format!("{} a^x", "word ".repeat(100));
    let caret = read(&long).unwrap_err().caret(20);
    let (query, mark) = caret.split_once('\n').unwrap();
    assert_eq!(query.chars().nth(mark.len() - 1), Some('x'), "{caret}");
    assert!(query.chars().count() <= 20);
    assert_eq!(read("a -").unwrap_err().caret(40), "a -\n   ^");
    assert_eq!(read("a\nb^x").unwrap_err().caret(40), "a\u{fffd}b^x\n    ^");
}

#[test]
fn what_the_syntax_cannot_say_has_no_text() {
    let bool = |query: Bool| Node::Bool(Bool { skip_empty: true, ..query });
    for node in [
        Node::Best { of: vec![any("a")], tie_breaker: 0.0 },
        Node::Term { field: "title".into(), term: "a".into() },
        any(""),
        terms("tag", &[]),
        boost(terms("tag", &["a"]), 2.0),
        bool(Bool::default()),
        bool(Bool { should: vec![any("a")], ..Bool::default() }),
        bool(Bool { should: vec![any("a"), terms("tag", &["b"])], ..Bool::default() }),
        bool(Bool { should: vec![any("a")], filter: vec![any("b")], ..Bool::default() }),
        bool(Bool { should: vec![any("a"), Node::Nothing], ..Bool::default() }),
        Node::Bool(Bool { should: vec![any("a"), any("b")], ..Bool::default() }),
    ] {
        assert_eq!(display(&node), None, "{node:?}");
    }
}

/// Generates texts that are mostly valid queries.
fn queries() -> impl Strategy<Value = String> {
    let word = prop_oneof!["[a-z]{1,3}", "[a-zé+:^()\\[\\]{}<>=*\"\\\\ -]{1,4}"];
    let word = word.prop_map(|word| escaped(&word)).boxed();
    let number = prop_oneof!["-?[0-9]{1,4}", "[0-9]{4}"];
    let bounds = ("[\\[{]", number.clone(), number, "[\\]}]");
    let leaf = prop_oneof![
        4 => word.clone(),
        1 => word.clone().prop_map(|word| format!("title:{word}")),
        1 => "(placed:)?\"[a-z é~^]{1,5}\"(~[0-9])?",
        1 => word.clone().prop_map(|word| format!("tag:{word}*")),
        1 => (word.clone(), word.clone()).prop_map(|(a, b)| format!("tag:({a} {b})")),
        1 => bounds.prop_map(|(open, a, b, close)| format!("year:{open}{a} TO {b}{close}")),
        1 => "[<>]=?[0-9]{1,4}".prop_map(|value| format!("year:{value}")),
        1 => word.prop_map(|id| format!("_id:{id}")),
        1 => Just("*".to_owned()),
        1 => Just("published:*".to_owned()),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        let clause = ("[+-]?", inner, prop_oneof![3 => "", 1 => "\\^[1-9]\\.[1-9]"]);
        let clauses = proptest::collection::vec(clause, 1..5).prop_map(|clauses| {
            let clauses: Vec<String> =
                clauses.into_iter().map(|(sign, unit, weight)| sign + &unit + &weight).collect();
            clauses.join(" ")
        });
        prop_oneof![clauses.clone(), clauses.prop_map(|query| format!("({query})"))]
    })
}

proptest! {
    #[test]
    fn a_tree_is_read_from_its_text(text in queries()) {
        if let Ok(node) = read(&text) {
            let shown = display(&node).unwrap();
            prop_assert_eq!(read(&shown), Ok(node), "{}", shown);
        }
    }

    #[test]
    fn any_text_is_a_query_or_an_error(text in "[ab:+\\-^()\\[\\]{}<>=*\"\\\\ é0-9TO_idyeartg]{0,24}") {
        match read(&text) {
            Ok(node) => {
                let shown = display(&node).unwrap();
                prop_assert_eq!(read(&shown), Ok(node));
            }
            Err(error) => {
                prop_assert!(text.is_char_boundary(error.at));
                error.caret(10);
            }
        }
    }
}
