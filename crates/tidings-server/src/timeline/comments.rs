//! Removes comments from the page's scripts before they are sent: much of their text is types and
//! explanations, which no browser needs. Lines keep their numbers.
//!
//! A comment begins a line. Comments behind code stay, and so do casts (`/** @type {T} */
//! (value)`). No line of a template literal may begin like a comment; the tests of the page would
//! fail.

/// The script without the comments that begin a line.
pub(super) fn without_comments(script: &str) -> String {
    let mut text = String::with_capacity(script.len());
    let mut is_inside = false;
    for line in script.lines() {
        let code = line.trim_start();
        let opens = !is_inside && code.starts_with("/*");
        if is_inside || opens {
            // What is behind the end of a comment is code; in one line, it is a cast's.
            is_inside = !code.contains("*/");
            match code.split_once("*/").map(|(_, rest)| rest) {
                Some(rest) if opens && !rest.trim().is_empty() => text.push_str(line),
                Some(rest) => text.push_str(rest),
                None => {}
            }
        } else if !code.starts_with("//") {
            text.push_str(line);
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_are_removed_and_code_and_lines_stay() {
        let script = "// Purpose.\n\
                      const a = 1; // one\n\
                      /** @type {number} */\n\
                      const b = /** @type {number} */ (a);\n\
                      \x20 /** @param {string} c\n\
                      \x20  * @param {string} d */ f(c, d);\n\
                      \x20 /** @type {A} */ (x).y();\n\
                      const url = \"https://a\";\n";
        let expected = "\n\
                        const a = 1; // one\n\
                        \n\
                        const b = /** @type {number} */ (a);\n\
                        \n\
                        \x20f(c, d);\n\
                        \x20 /** @type {A} */ (x).y();\n\
                        const url = \"https://a\";\n";
        assert_eq!(without_comments(script), expected);
    }
}
