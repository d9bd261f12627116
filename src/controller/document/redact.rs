//! Credentials in extracted text, which must not be published.
//!
//! The classes and what replaces them are documented; the expressions that find them are inferred
//! (see `docs/fidelity.md`).

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;

use regex::Regex;

use crate::controller::go_regexp::{self, PatternError};
use crate::controller::profile::Redaction;

/// `user:password@` of a URI. The scheme is kept.
const USERINFO: &str = r"([A-Za-z][A-Za-z0-9+.\-]*://)[^/?#\s@]+@";

/// The value of a query parameter that is a credential by its name. The name is kept.
const QUERY: &str = r"(?i)([?&](?:access_token|api[_\-]?key|auth|auth_token|client_secret|credential|key|password|passwd|pwd|secret|sig|signature|token|x-amz-credential|x-amz-security-token|x-amz-signature|x-goog-credential|x-goog-signature)=)[^&#\s]+";

/// Tokens that issuers gave a shape of their own.
const TOKEN: &str = r"\b(?:hf_[A-Za-z0-9]{20,}|nvapi-[A-Za-z0-9_\-]{20,}|sk-[A-Za-z0-9_\-]{20,}|gh[opsur]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{22,}|glpat-[A-Za-z0-9_\-]{20,}|xox[abprs]-[A-Za-z0-9\-]{10,}|AKIA[0-9A-Z]{16}|ASIA[0-9A-Z]{16}|AIza[0-9A-Za-z_\-]{35}|eyJ[A-Za-z0-9_\-]{8,}\.[A-Za-z0-9_\-]{8,}\.[A-Za-z0-9_\-]+)";

/// A class of credentials. Ordered as their names are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Class {
    QueryCredential,
    Token,
    UriUserinfo,
}

impl Class {
    const fn name(self) -> &'static str {
        match self {
            Self::QueryCredential => "query-credential",
            Self::Token => "token",
            Self::UriUserinfo => "uri-userinfo",
        }
    }

    const fn replacement(self) -> &'static str {
        match self {
            Self::QueryCredential => "${1}[REDACTED:query-credential]",
            Self::Token => "[REDACTED:token]",
            Self::UriUserinfo => "${1}[REDACTED:uri-userinfo]@",
        }
    }
}

/// The classes of credentials that were found in one component.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Classes(BTreeSet<Class>);

impl Classes {
    /// Whether none was found.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Display for Classes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, class) in self.0.iter().enumerate() {
            let comma = if i == 0 { "" } else { "," };
            write!(f, "{comma}{}", class.name())?;
        }
        Ok(())
    }
}

/// Replaces credentials, if the release does.
#[derive(Clone, Debug)]
pub struct Redactor(Vec<(Class, Regex)>);

impl Redactor {
    /// A redactor by the release's rule.
    ///
    /// # Errors
    ///
    /// When an expression does not compile.
    pub fn new(redaction: Redaction) -> Result<Self, PatternError> {
        let rules = match redaction {
            Redaction::Off => Vec::new(),
            // Tokens last: they may well be the value of a parameter, and are one class then.
            Redaction::Credentials => vec![
                (Class::UriUserinfo, go_regexp::compile(USERINFO)?),
                (Class::QueryCredential, go_regexp::compile(QUERY)?),
                (Class::Token, go_regexp::compile(TOKEN)?),
            ],
        };
        Ok(Self(rules))
    }

    /// `text` without credentials; adds the classes found to `classes`.
    #[must_use]
    pub fn redact<'t>(&self, text: Cow<'t, str>, classes: &mut Classes) -> Cow<'t, str> {
        self.0.iter().fold(text, |text, (class, regex)| {
            match regex.replace_all(&text, class.replacement()) {
                Cow::Borrowed(_) => text,
                Cow::Owned(redacted) => {
                    classes.0.insert(*class);
                    Cow::Owned(redacted)
                }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_go_and_everything_else_stays() {
        let redactor = Redactor::new(Redaction::Credentials).expect("compiles");
        for (text, expected, classes) in [
            (
                "meta-llama/Llama-3.1-8B-Instruct",
                "meta-llama/Llama-3.1-8B-Instruct",
                "",
            ),
            (
                "vllm/vllm-openai@sha256:00",
                "vllm/vllm-openai@sha256:00",
                "",
            ),
            ("s3://models/a?version=2", "s3://models/a?version=2", ""),
            (
                "https://me:secret@host/m",
                "https://[REDACTED:uri-userinfo]@host/m",
                "uri-userinfo",
            ),
            (
                "https://u@h/m?a=1&X-Amz-Signature=abc&b=2",
                "https://[REDACTED:uri-userinfo]@h/m?a=1&X-Amz-Signature=[REDACTED:query-credential]&b=2",
                "query-credential,uri-userinfo",
            ),
            ("hf_abcdefghijklmnopqrstuvwxyz", "[REDACTED:token]", "token"),
        ] {
            let mut found = Classes::default();
            assert_eq!(redactor.redact(text.into(), &mut found), expected);
            assert_eq!(found.to_string(), classes, "{text}");
        }
    }

    #[test]
    fn a_release_that_does_not_redact_publishes_the_text() {
        let redactor = Redactor::new(Redaction::Off).expect("compiles");
        let mut found = Classes::default();
        let text = "https://me:secret@host/m";
        assert_eq!(redactor.redact(text.into(), &mut found), text);
        assert!(found.is_empty());
    }
}
