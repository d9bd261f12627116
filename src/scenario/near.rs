//! "Did you mean": the known word that is nearest to an unknown one.

/// The nearest of the known words, unless even that one is too far away to be meant.
pub(super) fn nearest<'w>(word: &str, known: impl IntoIterator<Item = &'w str>) -> Option<&'w str> {
    let word = word.to_lowercase();
    let length = word.chars().count();
    // A third of the letters may be wrong, and one in the shortest words.
    let allowed = (length / 3).max(1);
    known
        .into_iter()
        .map(|candidate| {
            let distance = strsim::damerau_levenshtein(&word, &candidate.to_lowercase());
            (distance, candidate)
        })
        .filter(|(distance, candidate)| {
            *distance <= allowed && *distance < candidate.chars().count()
        })
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// `did you mean …?`, or what there is.
pub(super) fn suggest(word: &str, known: &[&str], what: &str) -> String {
    match nearest(word, known.iter().copied()) {
        Some(candidate) => format!("did you mean `{candidate}`?"),
        None if known.is_empty() => format!("there are no {what}"),
        None => format!("{what}: {}", known.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_may_be_meant_is_suggested() {
        let kinds = ["install", "uninstall", "upgrade", "rollback", "load"];
        assert_eq!(nearest("instal", kinds), Some("install"));
        assert_eq!(nearest("upgarde", kinds), Some("upgrade"));
        assert_eq!(nearest("Load", kinds), Some("load"));
        assert_eq!(nearest("wait", kinds), None);
        assert_eq!(nearest("", kinds), None);
        assert_eq!(nearest("x", ["y"]), None);
    }
}
