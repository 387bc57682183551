//! Indexes documents created in memory, searches them, changes them, and searches again.
//!
//!     cargo run -p warpseek --example in_memory

use warpseek::{Document, Index, Request};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let index = Index::create(folder.path().join("planets"))?;

    let mut writer = index.writer()?;
    for (id, title, text) in [
        ("earth", "Earth", "The third planet from the Sun, and the only one with oceans of water."),
        ("mars", "Mars", "The fourth planet from the Sun, red with iron oxide."),
        ("jupiter", "Jupiter", "The largest planet, a gas giant with a great red spot."),
    ] {
        let mut document = Document::new(id, title, text);
        document.fields.insert("source".into(), "textbook".into());
        writer.add(document)?;
    }
    let commit = writer.commit()?;
    println!("{} documents, generation {}", commit.added.documents, commit.generation);

    let searcher = index.searcher()?;
    let request = Request::new("red planet").k(2).count(true);
    let response = searcher.search(&request)?;
    println!("{} documents match", response.matches().unwrap_or(0));
    for rank in 0..response.hits().len() {
        let document = response.document(rank)?.unwrap_or_default();
        let snippet = response.snippet(document["text"].as_str().unwrap_or(""), 60);
        println!("{:.3} {}: {}", response.score(rank), response.id(rank)?, snippet.text);
    }
    assert_eq!(response.id(0)?, "mars");

    // Searches see a commit after a refresh. Searches in progress keep the snapshot with which
    // they started.
    writer.delete("mars");
    writer.commit()?;
    assert_eq!(searcher.search(&request)?.id(0)?, "mars");
    searcher.refresh()?;
    assert_eq!(searcher.search(&request)?.id(0)?, "jupiter");
    Ok(())
}
