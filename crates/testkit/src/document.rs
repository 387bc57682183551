//! Documents of tests.

use serde_json::{Map, Value, json};

/// The field that contains static scores.
pub const STATIC_FIELD: &str = "score";

/// A document of a test.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Doc {
    /// External id.
    pub id: String,
    /// Title, which is searched together with the text.
    pub title: String,
    /// Text.
    pub text: String,
    /// Tokens with weights; if present, title and text are not searched.
    pub vector: Option<Vec<(String, f64)>>,
    /// Static score.
    pub static_score: Option<f32>,
}

impl Doc {
    /// Creates a document with text.
    pub fn text(id: impl ToString, text: impl Into<String>) -> Self {
        Doc { id: id.to_string(), text: text.into(), ..Doc::default() }
    }

    /// Creates a document with weights.
    pub fn vector(id: impl ToString, weights: &[(&str, f64)]) -> Self {
        let weights = weights.iter().map(|&(token, w)| (token.to_owned(), w)).collect();
        Doc { id: id.to_string(), vector: Some(weights), ..Doc::default() }
    }

    /// Adds a static score.
    pub fn with_static(mut self, score: f32) -> Self {
        self.static_score = Some(score);
        self
    }

    /// Returns the document as JSON, without a line feed.
    pub fn to_json(&self) -> String {
        let mut object = Map::new();
        object.insert("id".into(), json!(self.id));
        if !self.title.is_empty() {
            object.insert("title".into(), json!(self.title));
        }
        match &self.vector {
            None => object.insert("text".into(), json!(self.text)),
            Some(weights) => {
                let weights: Map<String, Value> =
                    weights.iter().map(|(token, w)| (token.clone(), json!(w))).collect();
                object.insert("vector".into(), Value::Object(weights))
            }
        };
        if let Some(score) = self.static_score {
            object.insert(STATIC_FIELD.into(), json!(score));
        }
        Value::Object(object).to_string()
    }
}
