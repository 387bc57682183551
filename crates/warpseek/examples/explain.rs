//! Explains a score: the contributions of the terms are integers whose sum is the score, exactly.
//!
//!     cargo run -p warpseek --example explain

use warpseek::{Document, Index, Ranking, RankingFunction, Request};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let index = Index::create(folder.path().join("recipes"))?;
    let mut writer = index.writer()?;
    writer.add(Document::new("pie", "Apple pie", "Six apples, butter, flour. Bake the pie."))?;
    writer.add(Document::new("sauce", "Apple sauce", "Cook apples with a little sugar."))?;
    writer.add(Document::new("bread", "Bread", "Flour, water, salt, time."))?;
    writer.commit()?;

    let function = RankingFunction::Bm25 { k1: 1.2, b: 0.75 };
    let ranking = Ranking { function, ..Ranking::default() };
    let request = Request::new("apple^2 pie flour").ranking(ranking);
    let response = index.searcher()?.search(&request)?;
    for rank in 0..response.hits().len() {
        let explanation = response.explain(rank)?;
        println!("{}: {:.4}", response.id(rank)?, response.score(rank));
        for term in &explanation.terms {
            let score = response.plan().real(term.score);
            println!(
                "  {:<6} weight {} idf {:.3} frequency {} -> {} units, {score:.4}",
                term.term, term.query_weight, term.idf, term.freq, term.score
            );
        }
        // Nothing is lost to rounding: the parts are integers.
        let sum: u32 = explanation.terms.iter().map(|term| term.score).sum();
        assert_eq!(sum + explanation.static_score, response.hits()[rank].score);
    }
    Ok(())
}
