//! Which chart, in which registry: names are checked before anybody is asked.

use std::net::IpAddr;

use reqwest::Url;

use super::error::{OciError, OciTrouble};

/// A chart in a registry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::helm) struct Wanted {
    /// As people write it.
    reference: String,
    registry: Url,
    path: String,
    /// The version as a tag.
    tag: Option<String>,
    digest: Option<String>,
}

impl Wanted {
    /// From `HOST/PATH`, and a version, a digest or both.
    pub(in crate::helm) fn new(
        repository: &str,
        version: Option<&str>,
        digest: Option<&str>,
    ) -> Result<Self, OciError> {
        let mut reference = format!("oci://{repository}");
        for (mark, part) in [(':', version), ('@', digest)] {
            if let Some(part) = part {
                reference.push(mark);
                reference.push_str(part);
            }
        }
        let failed = |trouble| OciError {
            reference: reference.clone(),
            trouble,
        };
        let name = |text: &str, what| failed(OciTrouble::Name(text.to_owned(), what));
        let (registry, path) = split(repository).ok_or_else(|| name(repository, "repository"))?;
        // A `+` cannot stand in a tag; Helm writes `_` instead.
        let tag = version.map(|version| version.replace('+', "_"));
        if let Some(tag) = tag.as_deref().filter(|tag| !is_tag(tag)) {
            return Err(name(tag, "version"));
        }
        if let Some(digest) = digest.filter(|digest| !is_digest(digest)) {
            return Err(name(digest, "digest"));
        }
        if tag.is_none() && digest.is_none() {
            return Err(failed(OciTrouble::Unpinned));
        }
        Ok(Self {
            registry,
            path,
            tag,
            digest: digest.map(str::to_owned),
            reference,
        })
    }

    /// The digest that the manifest should have.
    pub(super) fn digest(&self) -> Option<&str> {
        self.digest.as_deref()
    }

    /// Whether the registry is on this machine.
    pub(super) fn is_local(&self) -> bool {
        self.registry.scheme() == "http"
    }

    /// The address of the manifest: by tag where there is a version, so that a tag that was moved is
    /// noticed (ART-01).
    pub(super) fn manifest(&self) -> Url {
        let which = self.tag.as_deref().or(self.digest.as_deref());
        self.below("manifests", which.unwrap_or_default())
    }

    /// The address of a blob.
    pub(super) fn blob(&self, digest: &str) -> Url {
        self.below("blobs", digest)
    }

    /// What a token has to be good for.
    pub(super) fn scope(&self) -> String {
        format!("repository:{}:pull", self.path)
    }

    pub(super) fn failed(&self, trouble: OciTrouble) -> OciError {
        OciError {
            reference: self.reference.clone(),
            trouble,
        }
    }

    fn below(&self, kind: &str, which: &str) -> Url {
        let mut address = self.registry.clone();
        address.set_path(&format!("/v2/{}/{kind}/{which}", self.path));
        address
    }
}

/// The registry and the path in it.
fn split(repository: &str) -> Option<(Url, String)> {
    let (host, path) = repository.split_once('/')?;
    let is_part = |part: &str| {
        let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        let bytes = part.as_bytes();
        bytes.first().copied().is_some_and(inner)
            && bytes.last().copied().is_some_and(inner)
            && bytes
                .iter()
                .all(|byte| inner(*byte) || b"._-".contains(byte))
    };
    let valid = !host.contains('@')
        && (host.contains(['.', ':']) || host == "localhost")
        && path.split('/').all(is_part);
    if !valid {
        return None;
    }
    // The name that images and charts are told by is not the one that serves them.
    let host = if host == "docker.io" {
        "registry-1.docker.io"
    } else {
        host
    };
    let registry: Url = format!("https://{host}/").parse().ok()?;
    let name = registry.host_str()?;
    let name = name.trim_start_matches('[').trim_end_matches(']');
    let local = name == "localhost" || name.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback());
    let registry = if local {
        // Parsed again: another scheme has another default port.
        format!("http://{host}/").parse().ok()?
    } else {
        registry
    };
    Some((registry, path.to_owned()))
}

fn is_tag(tag: &str) -> bool {
    let word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    tag.len() <= 128
        && tag.bytes().next().is_some_and(word)
        && tag.bytes().all(|byte| word(byte) || b".-".contains(&byte))
}

fn is_digest(digest: &str) -> bool {
    let hex = digest.strip_prefix("sha256:");
    let digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    hex.is_some_and(|hex| hex.len() == 64 && hex.bytes().all(digit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_those_of_the_distribution_api() {
        let digest = format!("sha256:{}", "0a".repeat(32));
        let wanted =
            |repository, version| Wanted::new(repository, version, Some(&digest)).expect("a chart");
        let chart = wanted(
            "ghcr.io/googlecloudplatform/charts/k8s-aibom",
            Some("1.3.0+b"),
        );
        assert_eq!(
            chart.manifest().as_str(),
            "https://ghcr.io/v2/googlecloudplatform/charts/k8s-aibom/manifests/1.3.0_b"
        );
        assert_eq!(
            chart.scope(),
            "repository:googlecloudplatform/charts/k8s-aibom:pull"
        );
        let by_digest = wanted("docker.io/a/b", None);
        assert_eq!(
            by_digest.manifest().as_str(),
            format!("https://registry-1.docker.io/v2/a/b/manifests/{digest}")
        );
        assert_eq!(
            wanted("localhost:5000/a", None).blob("sha256:1").as_str(),
            "http://localhost:5000/v2/a/blobs/sha256:1"
        );
        assert!(wanted("127.0.0.1:443/a", None).is_local());
        assert!(wanted("[::1]:5000/a", None).is_local());
        assert!(!chart.is_local());
    }

    #[test]
    fn what_is_no_name_is_refused_before_anybody_is_asked() {
        let refused = |repository: &str, version: Option<&str>, digest: Option<&str>| {
            let error = Wanted::new(repository, version, digest).expect_err("refused");
            assert!(error.hint().is_some());
            error.trouble.to_string()
        };
        for repository in [
            "a",
            "ghcr.io",
            "charts/a",
            "ghcr.io/A",
            "ghcr.io/a/../b",
            "u:p@ghcr.io/a",
            "ghcr.io/a?x",
            "oci://ghcr.io/a",
            "ghcr.io/a:1.0",
        ] {
            let words = refused(repository, Some("1.0.0"), None);
            assert_eq!(words, format!("`{repository}` is not a repository"));
        }
        assert_eq!(
            refused("ghcr.io/a", Some("1/2"), None),
            "`1/2` is not a version"
        );
        assert_eq!(
            refused("ghcr.io/a", None, Some("sha256:1")),
            "`sha256:1` is not a digest"
        );
        assert_eq!(
            refused("ghcr.io/a", None, None),
            "neither a version nor a digest is given"
        );
    }
}
