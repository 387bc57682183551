//! Random query trees.

use warpseek_exec::query::{Across, Bool, Filter, Least, Node, Operator, Phrase, Words};

use crate::generator::{Case, word};
use crate::random::Random;

/// A tree with all its parameters.
#[derive(Clone, Debug)]
pub struct TreeSearch {
    /// The tree.
    pub tree: Node,
    /// Filter that hits must match in addition.
    pub filter: Option<Node>,
    /// Number of hits.
    pub k: usize,
}

/// The names that trees may use.
#[derive(Clone, Debug, Default)]
pub struct Names {
    /// Words, some of which may be in no document.
    pub words: Vec<String>,
    /// Ids, some of which may not exist.
    pub ids: Vec<String>,
    /// Text fields; none in an index without a schema.
    pub fields: Vec<String>,
    /// Conditions on attributes.
    pub filters: Vec<Filter>,
    /// True if there are phrases; then all text fields have positions.
    pub phrases: bool,
}

impl Case {
    /// Generates random trees over the words of the case.
    pub fn trees(self, count: usize) -> Vec<TreeSearch> {
        let mut words: Vec<String> = (0..self.vocabulary()).map(word).collect();
        words.extend(["absent", "the"].map(String::from));
        let ids = (0..self.docs + 2).map(|id| format!("d{id}")).collect();
        let names = Names { words, ids, ..Names::default() };
        names.trees(&mut Random::new(self.seed ^ 0x7ee5), count)
    }
}

impl Names {
    /// Generates random trees.
    pub fn trees(&self, random: &mut Random, count: usize) -> Vec<TreeSearch> {
        let tree = |_| {
            let depth = random.below(4);
            let tree = self.node(random, depth);
            let filter = random.one_in(4).then(|| self.node(random, 1));
            let k = *random.pick(&[0, 1, 10, 100, usize::MAX]);
            TreeSearch { tree, filter, k }
        };
        (0..count).map(tree).collect()
    }

    fn node(&self, random: &mut Random, depth: usize) -> Node {
        if depth == 0 {
            return self.leaf(random);
        }
        let depth = depth - 1;
        match random.below(12) {
            0 => {
                let branches = self.nodes(random, depth, 4);
                Node::Best { of: branches, tie_breaker: *random.pick(&[0.0, 0.3, 1.0]) }
            }
            1 => {
                let score = *random.pick(&[0.0, 1.0, 0.7, 25.0]);
                Node::Constant { filter: Box::new(self.node(random, depth)), score }
            }
            2 | 3 => {
                let weight = *random.pick(&[0.25, 2.0, 3.7]);
                Node::Boost(Box::new(self.node(random, depth)), weight)
            }
            4 if random.one_in(2) => {
                Node::IfEmpty { of: Box::new(self.leaf(random)), then: Box::new(self.leaf(random)) }
            }
            4 => self.leaf(random),
            _ => {
                let least = ["0", "1", "2", "-1", "60%", "3<70%", "9"];
                let some = |random: &mut Random, most| match random.one_in(2) {
                    true => Vec::new(),
                    false => self.nodes(random, depth, most),
                };
                Node::Bool(Bool {
                    must: some(random, 3),
                    should: some(random, 5),
                    must_not: some(random, 2),
                    filter: some(random, 2),
                    least: random.one_in(3).then(|| random.pick(&least).parse().unwrap()),
                    skip_empty: random.one_in(2),
                })
            }
        }
    }

    fn nodes(&self, random: &mut Random, depth: usize, most: usize) -> Vec<Node> {
        let nodes = random.below(most + 1);
        (0..nodes).map(|_| self.node(random, depth)).collect()
    }

    fn leaf(&self, random: &mut Random) -> Node {
        match random.below(16) {
            0 => Node::All,
            1 if random.one_in(3) => Node::Nothing,
            1 | 2 => {
                let ids = (0..random.below(30)).map(|_| random.pick(&self.ids).clone());
                Node::Filter(Filter::Ids(ids.collect()))
            }
            3..=5 if !self.filters.is_empty() => Node::Filter(random.pick(&self.filters).clone()),
            6 if !self.fields.is_empty() => {
                let field = random.pick(&self.fields).clone();
                Node::Term { field, term: random.pick(&self.words).clone() }
            }
            7..=12 if self.phrases => Node::Phrase(self.phrase(random)),
            _ => self.words(random),
        }
    }

    /// Returns a phrase of a few words.
    pub(crate) fn phrase(&self, random: &mut Random) -> Phrase {
        let words = *random.pick(&[1, 2, 2, 2, 3, 4]);
        let text: Vec<&str> = (0..words).map(|_| random.pick(&self.words).as_str()).collect();
        let fields = match self.fields.len() {
            0 => 0,
            n => random.below(n + 1),
        };
        let field = |random: &mut Random| {
            (random.pick(&self.fields).clone(), *random.pick(&[1.0, 1.0, 2.5]))
        };
        Phrase {
            fields: (0..fields).map(|_| field(random)).collect(),
            text: text.join(" "),
            slop: *random.pick(&[0, 0, 0, 1, 2, 3, 90]),
        }
    }

    fn words(&self, random: &mut Random) -> Node {
        let words = *random.pick(&[1, 1, 1, 2, 3, 5]);
        let text: Vec<&str> = (0..words).map(|_| random.pick(&self.words).as_str()).collect();
        let fields = match self.fields.len() {
            0 => 0,
            n => random.below(n + 1),
        };
        let field = |random: &mut Random| {
            (random.pick(&self.fields).clone(), *random.pick(&[1.0, 1.0, 2.5]))
        };
        let least: [&str; 3] = ["2", "75%", "-1"];
        let least: Option<Least> = random.one_in(4).then(|| random.pick(&least).parse().unwrap());
        Node::Words(Words {
            fields: (0..fields).map(|_| field(random)).collect(),
            text: text.join(" "),
            operator: *random.pick(&[Operator::Or, Operator::Or, Operator::And]),
            least,
            across: *random.pick(&[
                Across::Most,
                Across::Best { tie_breaker: 0.0 },
                Across::Best { tie_breaker: 0.4 },
                Across::Cross { tie_breaker: 0.0 },
                Across::Cross { tie_breaker: 0.3 },
                Across::Cross { tie_breaker: 1.0 },
            ]),
        })
    }
}
