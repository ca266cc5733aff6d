//! [`Spec`]: one way to ask the server, and the sides of each comparison.
//!
//! | side | what dispatches statements | what splits queries |
//! | --- | --- | --- |
//! | `direct` | the operating system | nothing |
//! | `direct_parallel` | the operating system | PostgreSQL's own parallel query, which the others do without, as the paper's did |
//! | `direct_constant` | the operating system | nothing, but the sub-select is asked first and its answer sent as a value |
//! | `os`, `whole` | the operating system, behind the proxy's pool | nothing |
//! | `random`, `range` | the proxy, to any core or to that of the key | nothing |
//! | `caric_da_1`, `caric_da_2` | by range | two parts a core, or one (the paper's section 3.2) |
//! | `split_N` | the operating system | `N` parts |
//! | `auto` | as the proxy sees fit | as the proxy sees fit |

use lab_core::metric::parameters;
use lab_core::row::Value;

/// What a query of `[splits]` becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Split {
    /// It runs whole.
    Off,
    /// In parts where that pays.
    Auto,
    /// In so many parts.
    Parts {
        /// How many.
        parts: usize,
        /// Where they go on cores with two hardware threads: `spread` or `siblings`.
        placement: &'static str,
    },
}

/// What the proxy is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ways {
    /// `off`, `random`, `range` or `auto`.
    pub dispatch: &'static str,
    /// What happens to queries that may be split.
    pub split: Split,
    /// `least`, `range` or `round-robin` where reads go to copies.
    pub copies: Option<&'static str>,
}

/// How the server itself is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plain {
    /// As everybody else.
    Usual,
    /// With PostgreSQL's own parallel query.
    Parallel,
    /// With a constant in place of the sub-select: what a split gains by evaluating it once is no gain of splitting.
    Constant,
}

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The server itself.
    Direct(Plain),
    /// The proxy.
    Corun(Ways),
}

/// One side of a comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spec {
    /// What rows call it.
    pub name: String,
    /// What it is.
    pub kind: Kind,
}

/// A pair of sides: subject and other by their places, and the stable word for the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    /// The side above the line.
    pub subject: usize,
    /// The side below it.
    pub other: usize,
    /// `whole`, `random`, `round_robin`, `direct`, `os`, `least`, `constant` or `parallel`.
    pub versus: &'static str,
}

/// All sides of a comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineUp {
    /// The sides.
    pub sides: Vec<Spec>,
    /// What is compared with what.
    pub pairs: Vec<Pair>,
    /// The side that runs twice a round.
    pub control: usize,
}

const OFF: Ways = Ways {
    dispatch: "off",
    split: Split::Off,
    copies: None,
};

/// The server itself.
const DIRECT: Kind = Kind::Direct(Plain::Usual);
/// The proxy's pool alone.
const OS: Kind = Kind::Corun(OFF);
const RANDOM: Kind = dispatch("random", Split::Off);
const RANGE: Kind = dispatch("range", Split::Off);

const fn dispatch(dispatch: &'static str, split: Split) -> Kind {
    Kind::Corun(Ways {
        dispatch,
        split,
        copies: None,
    })
}

const fn parts(parts: usize, placement: &'static str) -> Split {
    Split::Parts { parts, placement }
}

const fn copies(copies: &'static str) -> Kind {
    Kind::Corun(Ways {
        copies: Some(copies),
        ..OFF
    })
}

impl LineUp {
    fn new<N: Into<String>>(
        sides: Vec<(N, Kind)>,
        pairs: &[(&str, &str, &'static str)],
        control: &str,
    ) -> LineUp {
        let spec = |(name, kind): (N, Kind)| Spec {
            name: name.into(),
            kind,
        };
        let sides: Vec<Spec> = sides.into_iter().map(spec).collect();
        let place = |name: &str| sides.iter().position(|side| side.name == name);
        let pairs = pairs.iter().filter_map(|&(subject, other, versus)| {
            Some(Pair {
                subject: place(subject)?,
                other: place(other)?,
                versus,
            })
        });
        LineUp {
            pairs: pairs.collect(),
            control: place(control).unwrap_or_default(),
            sides,
        }
    }

    /// The sides of TPC-W's mix on so many cores. CARIC-DA-1 has twice the parts of CARIC-DA-2, which has one a core.
    pub fn mix(cores: usize) -> LineUp {
        let sides = vec![
            ("direct", DIRECT),
            ("os", OS),
            ("random", RANDOM),
            ("range", RANGE),
            ("caric_da_1", dispatch("range", parts(2 * cores.max(1), "spread"))),
            ("caric_da_2", dispatch("range", parts(cores.max(2), "siblings"))),
            ("auto", dispatch("auto", Split::Auto)),
        ];
        let pairs = [
            ("os", "direct", "direct"),
            ("range", "direct", "direct"),
            ("caric_da_1", "direct", "direct"),
            ("caric_da_2", "direct", "direct"),
            ("auto", "direct", "direct"),
            ("range", "random", "random"),
            ("range", "os", "os"),
            ("caric_da_1", "range", "whole"),
            ("caric_da_2", "range", "whole"),
            ("auto", "os", "whole"),
        ];
        LineUp::new(sides, &pairs, "os")
    }

    /// The sides where nothing is split: TPC-C and point reads.
    pub fn dispatched() -> LineUp {
        let sides = vec![
            ("direct", DIRECT),
            ("os", OS),
            ("random", RANDOM),
            ("range", RANGE),
            ("auto", dispatch("auto", Split::Off)),
        ];
        let pairs = [
            ("range", "direct", "direct"),
            ("range", "random", "random"),
            ("range", "os", "os"),
            ("auto", "os", "os"),
        ];
        LineUp::new(sides, &pairs, "os")
    }

    /// Best Seller alone: whole, and in these numbers of parts.
    pub fn best_seller(counts: &[usize]) -> LineUp {
        let plain = [
            ("direct", DIRECT),
            ("direct_parallel", Kind::Direct(Plain::Parallel)),
            ("direct_constant", Kind::Direct(Plain::Constant)),
            ("whole", OS),
        ];
        let mut sides: Vec<(String, Kind)> = plain.map(|(name, kind)| (name.to_owned(), kind)).to_vec();
        let split = |&count: &usize| (format!("split_{count}"), dispatch("off", parts(count, "spread")));
        sides.extend(counts.iter().map(split));
        sides.push(("auto".to_owned(), dispatch("off", Split::Auto)));
        let names: Vec<String> = sides[plain.len()..]
            .iter()
            .map(|(name, _)| name.clone())
            .collect();
        let mut pairs: Vec<(&str, &str, &'static str)> = Vec::new();
        for name in &names {
            pairs.push((name, "whole", "whole"));
            pairs.push((name, "direct_constant", "constant"));
            pairs.push((name, "direct_parallel", "parallel"));
        }
        pairs.push(("whole", "direct", "direct"));
        LineUp::new(sides, &pairs, "whole")
    }

    /// Reads that go to copies.
    pub fn copies() -> LineUp {
        let sides = vec![
            ("round_robin", copies("round-robin")),
            ("least", copies("least")),
            ("range_replica", copies("range")),
        ];
        let pairs = [
            ("range_replica", "round_robin", "round_robin"),
            ("range_replica", "least", "least"),
        ];
        LineUp::new(sides, &pairs, "round_robin")
    }
}

impl Spec {
    /// The stable name in rows: `direct` or `corun`.
    fn target(&self) -> &'static str {
        match self.kind {
            Kind::Direct(_) => "direct",
            Kind::Corun(_) => "corun",
        }
    }

    /// The stable word for what dispatches: `os`, `random`, `range`, `auto`, `round_robin`, `least` or `range_replica`.
    fn dispatch(&self) -> &'static str {
        match self.kind {
            Kind::Direct(_) => "os",
            Kind::Corun(ways) => match (ways.copies, ways.dispatch) {
                (Some("range"), _) => "range_replica",
                (Some("round-robin"), _) => "round_robin",
                (Some(other), _) => other,
                (None, "off") => "os",
                (None, other) => other,
            },
        }
    }

    /// What tells it from others in rows.
    pub fn parameters(&self) -> Vec<(String, Value)> {
        let split = match self.kind {
            Kind::Direct(_) => Split::Off,
            Kind::Corun(ways) => ways.split,
        };
        let (split, placement) = match split {
            Split::Off => ("off".to_owned(), "none"),
            Split::Auto => ("auto".to_owned(), "auto"),
            Split::Parts { parts, placement } => (parts.to_string(), placement),
        };
        parameters([
            ("target", Value::from(self.target())),
            ("side", Value::from(self.name.as_str())),
            ("dispatch", Value::from(self.dispatch())),
            ("split", Value::from(split)),
            ("split_placement", Value::from(placement)),
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(line_up: &LineUp) -> Vec<(&str, &str, &str)> {
        let name = |place: usize| line_up.sides[place].name.as_str();
        let pairs = line_up.pairs.iter();
        pairs
            .map(|pair| (name(pair.subject), name(pair.other), pair.versus))
            .collect()
    }

    #[test]
    fn every_comparison_is_there() {
        assert_eq!(pairs(&LineUp::mix(2)).len(), 10);
        assert_eq!(pairs(&LineUp::dispatched()).len(), 4);
        let best = LineUp::best_seller(&[2, 3]);
        let found = pairs(&best);
        assert_eq!(found.len(), 10);
        for wanted in [
            ("split_2", "whole", "whole"),
            ("split_3", "direct_constant", "constant"),
            ("auto", "direct_parallel", "parallel"),
            ("whole", "direct", "direct"),
        ] {
            assert!(found.contains(&wanted), "{wanted:?}");
        }
        assert_eq!(best.sides[best.control].name, "whole");
        assert_eq!(pairs(&LineUp::copies()).len(), 2);
    }

    #[test]
    fn rows_have_the_stable_words() {
        let word = |spec: &Spec, key: &str| {
            let found = spec.parameters().into_iter().find(|(name, _)| name == key);
            found.map(|(_, value)| value.to_string()).unwrap_or_default()
        };
        let mix = LineUp::mix(2);
        let of = |place: usize, key: &str| word(&mix.sides[place], key);
        assert_eq!(
            (of(0, "target"), of(0, "dispatch")),
            ("direct".into(), "os".into())
        );
        assert_eq!(
            (of(1, "dispatch"), of(3, "dispatch")),
            ("os".into(), "range".into())
        );
        assert_eq!((of(4, "split"), of(5, "split")), ("4".into(), "2".into()));
        assert_eq!((of(3, "split"), of(6, "split")), ("off".into(), "auto".into()));
        let copies = LineUp::copies();
        let words: Vec<String> = copies.sides.iter().map(|side| word(side, "dispatch")).collect();
        assert_eq!(words, ["round_robin", "least", "range_replica"]);
    }
}
