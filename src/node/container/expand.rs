//! `$(NAME)` in values and arguments, as Kubernetes expands it.

/// Replaces each `$(NAME)` by what `lookup` knows of it and leaves the others as they are; `$$` is a
/// dollar sign. Any other dollar sign is itself.
pub(super) fn expand<'a>(text: &str, lookup: impl Fn(&str) -> Option<&'a str>) -> String {
    let mut expanded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        expanded.push_str(before);
        if let Some(after) = after.strip_prefix('$') {
            expanded.push('$');
            rest = after;
        } else if let Some((name, after)) = after
            .strip_prefix('(')
            .and_then(|name| name.split_once(')'))
        {
            match lookup(name) {
                Some(value) => expanded.push_str(value),
                None => expanded.extend(["$(", name, ")"]),
            }
            rest = after;
        } else {
            expanded.push('$');
            rest = after;
        }
    }
    expanded.push_str(rest);
    expanded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_replaced_once_and_escapes_are_kept() {
        let lookup = |name: &str| match name {
            "A" => Some("a"),
            "REF" => Some("$(A)"),
            "" => Some("empty"),
            _ => None,
        };
        for (text, expected) in [
            ("$(A)-$(A)", "a-a"),
            ("$(REF)", "$(A)"),
            ("$(NO)/$(A)", "$(NO)/a"),
            ("$$(A)", "$(A)"),
            ("$$$(A)", "$a"),
            ("$$$$", "$$"),
            ("$A ${A} $", "$A ${A} $"),
            ("$(A", "$(A"),
            ("$($(A))", "$($(A))"),
            ("$()", "empty"),
            ("é$(A)é", "éaé"),
        ] {
            assert_eq!(expand(text, lookup), expected, "{text}");
        }
    }
}
