//! Image references as Docker and the registries read them.
//!
//! `busybox` is `docker.io/library/busybox:latest`, `example.com:5000/team/app@sha256:…` is itself.
//! The grammar is that of the distribution project, which every container runtime follows.

use std::fmt;
use std::str::FromStr;

/// The registry of a name that names none.
const DEFAULT_REGISTRY: &str = "docker.io";
/// An older name of it.
const LEGACY_DEFAULT_REGISTRY: &str = "index.docker.io";
/// The folder of a name without one, in the default registry only.
const OFFICIAL_FOLDER: &str = "library/";
/// The tag of a reference with neither tag nor digest.
pub(super) const DEFAULT_TAG: &str = "latest";

/// The longest name, registry included.
const LONGEST_NAME: usize = 255;
/// The longest tag.
const LONGEST_TAG: usize = 128;

/// Names an image: a repository, and a tag or a digest of it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Reference {
    repository: String,
    tag: Option<String>,
    digest: Option<String>,
}

/// Text that is not an image reference.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReferenceError {
    /// Nothing at all, or nothing before the tag.
    #[error("the image reference {0:?} has no name")]
    Empty(String),
    /// The registry is not a host with an optional port.
    #[error("{registry:?} in the image reference {text:?} is not a registry host")]
    Registry {
        /// The whole text.
        text: String,
        /// The part at fault.
        registry: String,
    },
    /// The name has other characters than a registry accepts.
    #[error("{path:?} in the image reference {text:?} is not a repository name")]
    Path {
        /// The whole text.
        text: String,
        /// The part at fault.
        path: String,
    },
    /// The name is too long.
    #[error(
        "the repository name in the image reference {0:?} is longer than {LONGEST_NAME} characters"
    )]
    TooLong(String),
    /// What follows the colon is not a tag.
    #[error("{tag:?} in the image reference {text:?} is not a tag")]
    Tag {
        /// The whole text.
        text: String,
        /// The part at fault.
        tag: String,
    },
    /// What follows the `@` is not a digest.
    #[error("{digest:?} in the image reference {text:?} is not a digest")]
    Digest {
        /// The whole text.
        text: String,
        /// The part at fault.
        digest: String,
    },
}

impl ReferenceError {
    /// The one thing to do about it.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::Empty(_) => "write REPOSITORY, REPOSITORY:TAG or REPOSITORY@DIGEST",
            Self::Registry { .. } => "write the registry as HOST or HOST:PORT",
            Self::Path { .. } => {
                "a repository name has lower-case letters and digits, separated by one of `.`, `_`, \
                 `__`, `-` and `/`"
            }
            Self::TooLong(_) => "choose a shorter repository name",
            Self::Tag { .. } => "a tag has up to 128 letters, digits, `_`, `.` and `-`",
            Self::Digest { .. } => "a digest is `sha256:` and 64 lower-case hexadecimal digits",
        };
        Some(hint.to_owned())
    }
}

impl Reference {
    /// Registry and path, for example `docker.io/library/busybox`.
    #[must_use]
    pub fn repository(&self) -> &str {
        &self.repository
    }

    /// The tag, if one is written.
    #[must_use]
    pub fn tag(&self) -> Option<&str> {
        self.tag.as_deref()
    }

    /// The digest, if one is written, for example `sha256:…`.
    #[must_use]
    pub fn digest(&self) -> Option<&str> {
        self.digest.as_deref()
    }
}

impl FromStr for Reference {
    type Err = ReferenceError;

    fn from_str(text: &str) -> Result<Self, ReferenceError> {
        let (rest, digest) = match text.split_once('@') {
            Some((rest, digest)) => (rest, Some(digest)),
            None => (text, None),
        };
        // A colon before the last slash belongs to the registry's port.
        let (name, tag) = match rest.rsplit_once(':') {
            Some((name, tag)) if !tag.contains('/') => (name, Some(tag)),
            _ => (rest, None),
        };
        if name.is_empty() {
            return Err(ReferenceError::Empty(text.to_owned()));
        }
        if let Some(tag) = tag
            && !is_tag(tag)
        {
            return Err(ReferenceError::Tag {
                text: text.to_owned(),
                tag: tag.to_owned(),
            });
        }
        if let Some(digest) = digest
            && !is_digest(digest)
        {
            return Err(ReferenceError::Digest {
                text: text.to_owned(),
                digest: digest.to_owned(),
            });
        }
        Ok(Self {
            repository: repository(text, name)?,
            tag: tag.map(str::to_owned),
            digest: digest.map(str::to_owned),
        })
    }
}

impl fmt::Display for Reference {
    /// The normalised form; what has neither tag nor digest is shown without one.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.repository)?;
        if let Some(tag) = &self.tag {
            write!(f, ":{tag}")?;
        }
        if let Some(digest) = &self.digest {
            write!(f, "@{digest}")?;
        }
        Ok(())
    }
}

/// The name with its registry.
fn repository(text: &str, name: &str) -> Result<String, ReferenceError> {
    let (registry, path) = match name.split_once('/') {
        Some((first, rest)) if is_registry(first) => (Some(first), rest),
        _ => (None, name),
    };
    if let Some(registry) = registry
        && !is_host(registry)
    {
        return Err(ReferenceError::Registry {
            text: text.to_owned(),
            registry: registry.to_owned(),
        });
    }
    // Sixty-four digits alone are an image's id, which no registry can be asked for.
    if !path.split('/').all(is_path_component) || (registry.is_none() && is_hex(path, 64)) {
        return Err(ReferenceError::Path {
            text: text.to_owned(),
            path: path.to_owned(),
        });
    }
    let registry = match registry {
        None | Some(LEGACY_DEFAULT_REGISTRY) => DEFAULT_REGISTRY,
        Some(registry) => registry,
    };
    let folder = match path.contains('/') || registry != DEFAULT_REGISTRY {
        true => "",
        false => OFFICIAL_FOLDER,
    };
    let repository = format!("{registry}/{folder}{path}");
    if repository.len() > LONGEST_NAME {
        return Err(ReferenceError::TooLong(text.to_owned()));
    }
    Ok(repository)
}

/// Whether the first part of a name is a registry rather than a folder of the default one.
fn is_registry(first: &str) -> bool {
    first == "localhost"
        || first.contains(['.', ':'])
        || first.contains(|c: char| c.is_ascii_uppercase())
}

fn is_host(text: &str) -> bool {
    let (host, port) = match text.rsplit_once(':') {
        // The colons of an IPv6 address stand in brackets.
        Some((host, port)) if !port.contains(']') => (host, Some(port)),
        _ => (text, None),
    };
    let port = port.is_none_or(|port| !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit()));
    let host = match host.strip_prefix('[').and_then(|h| h.strip_suffix(']')) {
        Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok(),
        None => host.split('.').all(is_host_label),
    };
    host && port
}

fn is_host_label(label: &str) -> bool {
    !label.is_empty()
        && !label.starts_with('-')
        && !label.ends_with('-')
        && label
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b == b'-')
}

/// Letters and digits, joined by `.`, `_`, `__` or any number of `-`.
fn is_path_component(text: &str) -> bool {
    let is_word = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let bytes = text.as_bytes();
    let ends_in_words = matches!((bytes.first(), bytes.last()), (Some(first), Some(last)) if is_word(*first) && is_word(*last));
    ends_in_words
        && bytes.split(|b| is_word(*b)).all(|separator| {
            matches!(separator, b"" | b"." | b"_" | b"__") || separator.iter().all(|b| *b == b'-')
        })
}

fn is_tag(tag: &str) -> bool {
    let is_word = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    tag.len() <= LONGEST_TAG
        && tag.bytes().next().is_some_and(is_word)
        && tag.bytes().all(|b| is_word(b) || b == b'.' || b == b'-')
}

/// The algorithms that are registered for digests. Others cannot be told from typing errors.
fn is_digest(digest: &str) -> bool {
    match digest.split_once(':') {
        Some(("sha256", digits)) => is_hex(digits, 64),
        Some(("sha384", digits)) => is_hex(digits, 96),
        Some(("sha512", digits)) => is_hex(digits, 128),
        _ => false,
    }
}

fn is_hex(text: &str, length: usize) -> bool {
    text.len() == length && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIGEST: &str = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    fn shown(text: &str) -> String {
        let reference: Reference = text.parse().expect(text);
        reference.to_string()
    }

    #[test]
    fn names_are_completed_as_container_runtimes_do() {
        for (text, normal) in [
            ("busybox", "docker.io/library/busybox"),
            ("busybox:1.36", "docker.io/library/busybox:1.36"),
            ("team/app", "docker.io/team/app"),
            ("index.docker.io/busybox", "docker.io/library/busybox"),
            (
                "docker.io/busybox:A_b.c-1",
                "docker.io/library/busybox:A_b.c-1",
            ),
            ("localhost/app", "localhost/app"),
            ("localhost:5000/app", "localhost:5000/app"),
            ("example.com:5000/a/b/c:v1", "example.com:5000/a/b/c:v1"),
            ("[::1]:5000/app", "[::1]:5000/app"),
            ("Registry/app", "Registry/app"),
            ("a__b/c---d/e.f_g", "docker.io/a__b/c---d/e.f_g"),
            ("app:5000", "docker.io/library/app:5000"),
        ] {
            assert_eq!(shown(text), normal);
        }
        assert_eq!(
            shown(&format!("example.com/app:v1@{DIGEST}")),
            format!("example.com/app:v1@{DIGEST}")
        );
    }

    #[test]
    fn what_no_registry_accepts_is_refused() {
        let long = "a".repeat(LONGEST_NAME);
        let id = "a".repeat(64);
        for text in [
            "",
            ":v1",
            "App",
            "-app",
            "app-",
            "a..b",
            "a___b",
            "a//b",
            "/app",
            "app/",
            "app:",
            "app:-v1",
            "app: v1",
            "app:v1:v2",
            "app@",
            "app@sha256:0123",
            "app@md5:0123",
            "exa_mple.com/app",
            "example.com:port/app",
            "-example.com/app",
            "[::1/app",
            "https://example.com/app",
            &format!("app@{}", DIGEST.to_uppercase()),
            &format!("app:{}", "t".repeat(129)),
            &long,
            &id,
        ] {
            let error = text.parse::<Reference>().expect_err(text);
            assert!(error.to_string().contains(&format!("{text:?}")), "{error}");
            assert!(error.hint().is_some());
        }
    }
}
