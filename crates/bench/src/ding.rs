//! Table 2 of (Ding 2009), which `bench queries` and `bench gpu` show beside their own figures.

use warpseek_exec::Mode;

/// Number of hits per query.
pub(crate) const K: usize = 10;

/// A row of the table: milliseconds per query on GOV2, on one core of 2.66 GHz and on a GeForce
/// 8800 GTS.
#[derive(Clone, Copy)]
pub(crate) struct Table2Row {
    pub(crate) mode: Mode,
    pub(crate) cpu_ms: f64,
    pub(crate) gpu_ms: f64,
}

const ROWS: [Table2Row; 3] = [
    Table2Row { mode: Mode::And, cpu_ms: 8.71, gpu_ms: 7.66 },
    Table2Row { mode: Mode::Or, cpu_ms: 212.72, gpu_ms: 29.31 },
    Table2Row { mode: Mode::AndOr, cpu_ms: 23.85, gpu_ms: 9.98 },
];

/// Returns the row of a mode, if queries with this number of hits can be compared with it.
pub(crate) fn table_2(mode: Mode, k: usize) -> Option<Table2Row> {
    ROWS.into_iter().find(|row| row.mode == mode && k == K)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mode_has_a_row_for_ten_hits() {
        for mode in [Mode::And, Mode::Or, Mode::AndOr] {
            assert!(table_2(mode, 10).is_some_and(|row| row.gpu_ms < row.cpu_ms), "{mode}");
            assert!(table_2(mode, 11).is_none());
        }
    }
}
