//! Answers of an engine, for measurements that end with their first error.

use warpseek_console::Failure;
use warpseek_exec::{Answer, Context, Engine, Plan};

/// Answers all plans, or returns the first error.
pub(crate) fn search_all(
    engine: &dyn Engine,
    plans: &[Plan],
    context: &Context,
) -> Result<Vec<Answer>, Failure> {
    let plans: Vec<&Plan> = plans.iter().collect();
    Ok(engine.search(&plans, context).into_iter().collect::<Result<_, _>>()?)
}

/// Checks that the first answers have the expected hits. `what` names the engine in the error.
pub(crate) fn check_hits(
    expected: &[Answer],
    answers: &[Answer],
    what: &str,
) -> Result<(), Failure> {
    let mut both = expected.iter().zip(answers);
    match both.position(|(expected, answer)| expected.hits != answer.hits) {
        None => Ok(()),
        Some(i) => Err(Failure::broken(format!(
            "query {}: the hits of {what} differ from those of the CPU's usual algorithm",
            i + 1
        ))),
    }
}
