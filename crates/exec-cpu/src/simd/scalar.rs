use warpseek_core::Score;
use warpseek_exec::Formula;

pub(super) fn score(
    formula: &Formula,
    weight: f32,
    docs: &[u32],
    freqs: &[u32],
    factors: &[f32],
    out: &mut [Score],
) {
    for ((slot, &doc), &freq) in out.iter_mut().zip(docs).zip(freqs) {
        *slot = formula.contribution(weight, freq, factors[doc as usize]);
    }
}
