//! What a registry asks for where it wants a token: `Bearer realm="…",service="…",scope="…"`.

use reqwest::Url;

/// A challenge for a bearer token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Challenge {
    realm: String,
    service: Option<String>,
    scope: Option<String>,
}

impl Challenge {
    /// [`None`] when the value asks for something else, such as a password.
    pub(super) fn parse(value: &str) -> Option<Self> {
        let (scheme, mut rest) = value.trim().split_once(' ')?;
        if !scheme.eq_ignore_ascii_case("bearer") {
            return None;
        }
        let (mut realm, mut service, mut scope) = (None, None, None);
        while let Some((name, after)) = rest.split_once('=') {
            let (value, after) = match after.strip_prefix('"') {
                Some(quoted) => quoted.split_once('"')?,
                None => after.split_at(after.find(',').unwrap_or(after.len())),
            };
            match name.trim().to_ascii_lowercase().as_str() {
                "realm" => realm = Some(value.to_owned()),
                "service" => service = Some(value.to_owned()),
                "scope" => scope = Some(value.to_owned()),
                _ => {}
            }
            rest = after.trim_start().strip_prefix(',').unwrap_or_default();
        }
        Some(Self {
            realm: realm?,
            service,
            scope,
        })
    }

    /// Where the token is. `scope` is what it has to be good for, where the registry does not say.
    pub(super) fn address(&self, scope: &str) -> Option<Url> {
        let mut address: Url = self.realm.parse().ok()?;
        let mut query = address.query_pairs_mut();
        if let Some(service) = &self.service {
            query.append_pair("service", service);
        }
        query.append_pair("scope", self.scope.as_deref().unwrap_or(scope));
        drop(query);
        Some(address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_for_tokens_is_found() {
        let challenge = Challenge::parse(
            r#"Bearer realm="https://ghcr.io/token",service="ghcr.io",scope="repository:a/b:pull,push""#,
        );
        let address = challenge.expect("a challenge").address("unused");
        assert_eq!(
            address.expect("an address").as_str(),
            "https://ghcr.io/token?service=ghcr.io&scope=repository%3Aa%2Fb%3Apull%2Cpush"
        );
        let bare = Challenge::parse(r"bearer realm=https://a.example/t, error=none");
        let address = bare.expect("a challenge").address("repository:a:pull");
        assert_eq!(
            address.expect("an address").as_str(),
            "https://a.example/t?scope=repository%3Aa%3Apull"
        );
    }

    #[test]
    fn other_challenges_are_none() {
        for value in [
            "Basic realm=\"x\"",
            "Bearer",
            "Bearer service=\"x\"",
            "Bearer realm=\"x",
            "",
        ] {
            assert_eq!(Challenge::parse(value), None, "{value}");
        }
    }
}
