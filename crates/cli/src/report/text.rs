//! Text of documents on a terminal: control characters, highlights and line breaks.

use warpseek::text::Snippet;
use warpseek_console::terminal::Theme;

/// Replaces control characters, so that text of documents cannot control the terminal.
pub(crate) fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

/// Returns a snippet with marked highlights and without control characters.
pub(crate) fn painted(snippet: &Snippet, theme: &Theme) -> String {
    let (mut out, mut at) = (String::new(), 0);
    for range in &snippet.highlights {
        out += &printable(&snippet.text[at..range.start]);
        out += &theme.paint(theme.mark, printable(&snippet.text[range.clone()]));
        at = range.end;
    }
    out + &printable(&snippet.text[at..])
}

/// Breaks a text at blanks, and inside words longer than a line, so that no line takes more than
/// `width` columns. Escape sequences take none.
pub(crate) fn wrap(text: &str, width: usize) -> Vec<String> {
    let (mut lines, mut line, mut shown) = (Vec::new(), String::new(), 0);
    for word in text.split(' ').filter(|w| !w.is_empty()) {
        let len: usize = columns(word).map(|(_, columns)| columns).sum();
        if shown > 0 && shown + 1 + len > width {
            lines.push(std::mem::take(&mut line));
            shown = 0;
        }
        if shown > 0 {
            line.push(' ');
            shown += 1;
        }
        for (c, columns) in columns(word) {
            if shown > 0 && shown + columns > width {
                lines.push(std::mem::take(&mut line));
                shown = 0;
            }
            line.push(c);
            shown += columns;
        }
    }
    lines.extend((!line.is_empty()).then_some(line));
    lines
}

/// Returns each character with the columns it takes on a terminal: none in an escape sequence, two
/// for East Asian characters and pictographs, judged by the large Unicode blocks that are wide
/// throughout.
fn columns(text: &str) -> impl Iterator<Item = (char, usize)> + '_ {
    let mut escape = false;
    text.chars().map(move |c| {
        let columns = match c {
            '\u{1b}' => {
                escape = true;
                0
            }
            _ if escape => {
                escape = c != 'm';
                0
            }
            '\u{1100}'..='\u{115f}'
            | '\u{2e80}'..='\u{a4cf}'
            | '\u{ac00}'..='\u{d7a3}'
            | '\u{f900}'..='\u{faff}'
            | '\u{fe30}'..='\u{fe6f}'
            | '\u{ff00}'..='\u{ff60}'
            | '\u{1f300}'..='\u{1faff}'
            | '\u{20000}'..='\u{3fffd}' => 2,
            _ => 1,
        };
        (c, columns)
    })
}

#[cfg(test)]
mod tests {
    use super::wrap;

    #[test]
    fn wrapped_lines_never_exceed_the_width() {
        assert_eq!(wrap("ab cd  ef", 5), ["ab cd", "ef"]);
        assert_eq!(wrap("\u{1b}[1mab\u{1b}[0m cd ef", 5), ["\u{1b}[1mab\u{1b}[0m cd", "ef"]);
        assert_eq!(wrap("abcdefgh ij", 5), ["abcde", "fgh", "ij"]);
        assert_eq!(wrap("a \u{1b}[1mbcdefgh\u{1b}[0m", 5), ["a", "\u{1b}[1mbcdef", "gh\u{1b}[0m"]);
        assert_eq!(wrap("漢字漢字", 5), ["漢字", "漢字"]);
        assert!(wrap("", 5).is_empty());
    }
}
