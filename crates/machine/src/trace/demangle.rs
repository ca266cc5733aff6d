//! Names of functions as their authors wrote them.

/// A Rust or C++ name demangled; any other as it is.
pub(super) fn demangled(name: &str) -> String {
    if let Ok(rust) = rustc_demangle::try_demangle(name) {
        // Without the hash at its end.
        return format!("{rust:#}");
    }
    if name.starts_with("_Z")
        && let Ok(symbol) = cpp_demangle::Symbol::new(name)
        && let Ok(text) = symbol.demangle()
    {
        return text;
    }
    name.to_owned()
}

/// A demangled C++ name without its parameters.
pub(super) fn without_parameters(name: &str) -> &str {
    match name.find('(') {
        // `(anonymous namespace)::f` and `operator()` open with one.
        Some(at) if at > 0 && !name[..at].ends_with("operator") && !name[..at].ends_with("::") => &name[..at],
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_three_languages() {
        assert_eq!(demangled("main"), "main");
        assert_eq!(
            demangled("_ZN4core3fmt5Write9write_fmt17h0123456789abcdefE"),
            "core::fmt::Write::write_fmt"
        );
        assert_eq!(
            demangled("_RNvCskwGfYPst2Cb_3foo16example_function"),
            "foo::example_function"
        );
        let cpp = demangled("_ZN5store4Tree5fetchEi");
        assert_eq!(cpp, "store::Tree::fetch(int)");
        assert_eq!(without_parameters(&cpp), "store::Tree::fetch");
        assert_eq!(
            without_parameters("(anonymous namespace)::f"),
            "(anonymous namespace)::f"
        );
        assert_eq!(demangled("_Znonsense"), "_Znonsense");
    }
}
