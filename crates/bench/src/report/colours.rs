//! The colours of series.

/// Number of colours. Further series reuse them.
pub(super) const COLOURS: usize = 10;

/// Colours of the series on a light background.
pub(super) const LIGHT: [&str; COLOURS] = [
    "#2f6db5", "#d9700f", "#2c8f3c", "#c5303a", "#7d56b3", "#8a5a44", "#cf5fae", "#6b6f76",
    "#98981a", "#0f97a8",
];
/// Colours of the series on a dark background.
pub(super) const DARK: [&str; COLOURS] = [
    "#6ea8ea", "#f59a45", "#62c46f", "#f0757b", "#b392e3", "#c29782", "#ec93d0", "#a9aeb6",
    "#cfcf55", "#4fcbdb",
];
