//! Comparison of the hand-written types with the contract in `proto/cluster.proto`.

use std::collections::BTreeSet;
use std::fmt::Debug;

use prost::Message;
use prost_reflect::{
    DescriptorPool, DynamicMessage, Kind, MessageDescriptor, ReflectMessage, Value,
};

use super::service::{DESCRIBE, FREQUENCIES, SEARCH, SERVICE};
use super::*;

/// Comparison of messages with their descriptors, and the names of those compared so far.
struct Contract {
    pool: DescriptorPool,
    compared: BTreeSet<String>,
    /// Names of alternatives of which a message has only one at a time.
    alternatives: BTreeSet<String>,
}

impl Contract {
    fn read() -> Self {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/proto");
        let files = protox::compile(["cluster.proto"], [folder]).unwrap();
        let pool = DescriptorPool::from_file_descriptor_set(files).unwrap();
        Contract { pool, compared: BTreeSet::new(), alternatives: BTreeSet::new() }
    }

    fn message(&self, name: &str) -> MessageDescriptor {
        self.pool.get_message_by_name(&format!("warpseek.cluster.v1.{name}")).unwrap()
    }

    /// Decodes a message whose fields all have values other than their defaults, and checks that
    /// the contract knows all of them and that none is missing.
    fn compare<M: Message + Default + PartialEq + Debug>(&mut self, name: &str, message: &M) {
        let bytes = message.encode_to_vec();
        let decoded = DynamicMessage::decode(self.message(name), &bytes[..]).unwrap();
        self.check(&decoded, &format!("{message:?}"));
        // Both read what the other writes.
        assert_eq!(M::decode(&decoded.encode_to_vec()[..]).unwrap(), *message, "{name}");
    }

    fn check(&mut self, message: &DynamicMessage, shown: &str) {
        let descriptor = message.descriptor();
        let name = descriptor.full_name().to_owned();
        assert!(message.unknown_fields().next().is_none(), "{name}: {message:?}");
        for field in descriptor.fields() {
            let at = format!("{name}.{}", field.name());
            let is_alternative =
                field.containing_oneof().is_some_and(|oneof| oneof.fields().len() > 1);
            match (is_alternative, message.has_field(&field)) {
                (true, false) => continue,
                (true, true) => {
                    self.alternatives.insert(at.clone());
                    let variant = field.name()[..1].to_uppercase() + &field.name()[1..];
                    assert!(shown.contains(&format!("{variant}(")), "{at} is not in {shown}");
                }
                (false, there) => {
                    assert!(there, "{at} is missing in {message:?}");
                    let known = format!("{}: ", field.name());
                    assert!(shown.contains(&known), "{at} is not in {shown}");
                }
            }
            let value = message.get_field(&field);
            match value.as_ref() {
                Value::Message(inner) => self.check(inner, shown),
                Value::List(values) => values
                    .iter()
                    .filter_map(Value::as_message)
                    .for_each(|inner| self.check(inner, shown)),
                // Integers, booleans and enumerations have one wire type, so their kinds are
                // compared by the value that both read.
                Value::I32(number) => assert_eq!(*number, -3, "{at}"),
                Value::EnumNumber(number) => {
                    let Kind::Enum(of_field) = field.kind() else { panic!("{at}") };
                    let value = of_field.get_value(*number).unwrap();
                    assert_eq!((value.name(), *number), ("AND", Mode::And as i32), "{at}");
                    assert_eq!(of_field.get_value_by_name("OR").unwrap().number(), Mode::Or as i32);
                }
                _ => {}
            }
        }
        self.compared.insert(name);
    }
}

fn shard() -> Shard {
    Shard { number: 1, version: 2, snapshot: 3 }
}

fn fields() -> Vec<FieldStatistics> {
    vec![FieldStatistics { documents: 1, tokens: u64::MAX, max_static: 3 }]
}

fn terms() -> Vec<Term> {
    vec![Term { field: 1, term: "fig".into() }]
}

fn query(input: Input) -> Query {
    let ranking = Ranking { function: "bm25".into(), k1: 0.9, b: 0.4, static_weight: 2.0 };
    Query {
        input: Some(input),
        mode: Mode::And.into(),
        k: u32::MAX,
        count: true,
        count_to: u64::MAX,
        ranking: Some(ranking),
        among: Some(Ids { ids: vec!["a".into()] }),
        filter: "plum".into(),
        scale: -3,
    }
}

#[test]
fn messages_are_those_of_the_contract() {
    let mut contract = Contract::read();
    contract.compare("DescribeRequest", &DescribeRequest {});
    contract.compare(
        "DescribeResponse",
        &DescribeResponse {
            program: "1.2.3".into(),
            shards: vec![ShardDescription {
                shard: Some(shard()),
                documents: 4,
                fields: fields(),
                settings: vec![0xff, 0],
                live: 5,
            }],
            busy: 6,
            capacity: 7,
            draining: true,
            damaged: vec![DamagedShard { number: 8, version: 9, reason: "page 3".into() }],
        },
    );
    contract.compare(
        "FrequenciesRequest",
        &FrequenciesRequest { shard: Some(shard()), terms: terms() },
    );
    contract.compare("FrequenciesResponse", &FrequenciesResponse { documents: vec![1, u64::MAX] });
    let terms_with_weights = Terms { terms: terms(), weights: vec![0.5] };
    contract.compare(
        "SearchRequest",
        &SearchRequest {
            shard: Some(shard()),
            fields: fields(),
            terms: terms(),
            documents: vec![1],
            queries: vec![
                query(Input::Text("fig".into())),
                query(Input::Expression("+fig".into())),
                query(Input::Terms(terms_with_weights)),
            ],
            deadline: 10,
        },
    );
    contract.compare(
        "SearchResponse",
        &SearchResponse {
            answers: vec![Answer {
                documents: vec![1],
                scores: vec![2],
                ids: vec!["a".into()],
                matches: Some(3),
                searched: 4,
                complete: true,
                failure: 5,
                reason: "why".into(),
            }],
        },
    );
    let all: BTreeSet<String> =
        contract.pool.all_messages().map(|message| message.full_name().to_owned()).collect();
    assert_eq!(contract.compared, all);
    let alternatives = ["expression", "terms", "text"];
    let alternatives = alternatives.map(|name| format!("warpseek.cluster.v1.Query.{name}"));
    assert_eq!(contract.alternatives, BTreeSet::from(alternatives));
}

#[test]
fn calls_are_those_of_the_contract() {
    let contract = Contract::read();
    let services: Vec<_> = contract.pool.services().collect();
    assert_eq!(services.len(), 1);
    let methods: Vec<_> = services[0]
        .methods()
        .map(|method| {
            assert!(!method.is_client_streaming() && !method.is_server_streaming());
            let names = (method.input().name().to_owned(), method.output().name().to_owned());
            (format!("/{}/{}", services[0].full_name(), method.name()), names)
        })
        .collect();
    let call = |path: &str| {
        let name = path.rsplit('/').next().unwrap();
        (path.to_owned(), (format!("{name}Request"), format!("{name}Response")))
    };
    assert_eq!(services[0].full_name(), SERVICE);
    assert_eq!(methods, [DESCRIBE, FREQUENCIES, SEARCH].map(call));
}
