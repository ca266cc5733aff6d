//! Arithmetic of a figure's data: `100 * (1 - 1 / ratio)`, `backward > forward and forward > 0.5`.
//!
//! Names are numbers of a row or of a claim. What holds is 1, what does not is 0. It is no language: no conditions, no functions but
//! `abs`, no text.

/// The operators that bind least first; a shorter one stands after the longer ones that begin with it.
const LEVELS: [&[&str]; 4] = [&["and "], &["<=", ">=", "<", ">"], &["+", "-"], &["*", "/"]];

/// The value of an expression; none where a name has none, the value is not finite, or the text is no expression.
pub(super) fn value(text: &str, names: &dyn Fn(&str) -> Option<f64>) -> Option<f64> {
    let mut reader = Reader { rest: text, names };
    let value = reader.level(0)?;
    (reader.rest.trim().is_empty() && value.is_finite()).then_some(value)
}

struct Reader<'a> {
    rest: &'a str,
    names: &'a dyn Fn(&str) -> Option<f64>,
}

impl Reader<'_> {
    /// Whether this comes next, which is then read.
    fn take(&mut self, token: &str) -> bool {
        self.rest = self.rest.trim_start();
        let rest = self.rest.strip_prefix(token);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn level(&mut self, level: usize) -> Option<f64> {
        let Some(operators) = LEVELS.get(level) else {
            return self.operand();
        };
        let mut left = self.level(level + 1)?;
        while let Some(&operator) = operators.iter().find(|operator| self.take(operator)) {
            let right = self.level(level + 1)?;
            left = match operator {
                "+" => left + right,
                "-" => left - right,
                "*" => left * right,
                "/" => left / right,
                "<" => f64::from(left < right),
                ">" => f64::from(left > right),
                "<=" => f64::from(left <= right),
                ">=" => f64::from(left >= right),
                _ => f64::from(left != 0.0 && right != 0.0),
            };
        }
        Some(left)
    }

    fn operand(&mut self) -> Option<f64> {
        if self.take("(") {
            let value = self.level(0)?;
            return self.take(")").then_some(value);
        }
        if self.take("-") {
            return Some(-self.operand()?);
        }
        let is_word = |character: char| character.is_ascii_alphanumeric() || "._".contains(character);
        let end = self.rest.find(|character| !is_word(character));
        let (word, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
        self.rest = rest;
        match word {
            "abs" => self.operand().map(f64::abs),
            word if word.starts_with(|first: char| first.is_ascii_digit()) => word.parse().ok(),
            name => (self.names)(name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Option<f64> {
        value(text, &|name| match name {
            "two" => Some(2.0),
            "zero" => Some(0.0),
            _ => None,
        })
    }

    #[test]
    fn operators_bind_as_in_arithmetic() {
        assert_eq!(of("1 + two * 3 - 4 / two"), Some(5.0));
        assert_eq!(of("100 * (1 - 1 / two)"), Some(50.0));
        assert_eq!(of("-two + abs(1 - 3) - 1 - 1"), Some(-2.0));
        assert_eq!(of("1 < two and two <= 2.0"), Some(1.0));
        assert_eq!(of("two > two + 0.1 and 1 < 2"), Some(0.0));
    }

    #[test]
    fn what_has_no_value_gives_none() {
        for text in [
            "",
            "other",
            "1 / zero",
            "two two",
            "(two",
            "two +",
            "1 + other * 0",
        ] {
            assert_eq!(of(text), None, "{text}");
        }
    }
}
