//! Credentials: read from Secrets of the controller's own namespace, and never shown.

use std::fmt;

use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client};

use crate::controller::api::meta::SecretKeyReference;

/// The namespace of the controller when its environment does not name it.
pub const DEFAULT_NAMESPACE: &str = "k8s-aibom-system";

/// What stands in a Secret. It has no text: neither for people nor for logs.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretValue(Vec<u8>);

impl SecretValue {
    /// Hides these bytes.
    #[must_use]
    pub const fn new(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }

    /// The bytes, for those who send or compare them.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for SecretValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretValue(hidden)")
    }
}

/// A value cannot be had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SecretError {
    /// There is no such Secret.
    Missing {
        /// Where there is none.
        namespace: String,
    },
    /// The Secret lacks the key.
    NoKey {
        /// The keys that it has, in byte order.
        available: Vec<String>,
    },
    /// The value is empty.
    Empty,
    /// The Secret could not be read.
    Unreadable {
        /// Where it was looked for.
        namespace: String,
        /// Why not.
        cause: String,
    },
}

impl SecretError {
    /// What is wrong and what to do, in the real words. `path` is the reference's place in the sink.
    #[must_use]
    pub fn describe(&self, reference: &SecretKeyReference, path: &str) -> String {
        let SecretKeyReference { name, key } = reference;
        match self {
            Self::Missing { namespace } => format!(
                "Secret {name:?} not found in namespace {namespace:?}. Create the Secret or update \
                 {path}.name."
            ),
            Self::NoKey { available } => format!(
                "Secret {name:?} has no key {key:?}. Available keys: [{}]. Update {path}.key to one \
                 of these, or add the missing key to the Secret.",
                available.join(" ")
            ),
            Self::Empty => format!(
                "Secret {name:?} key {key:?} has empty value. Populate the Secret data or update \
                 {path}.key."
            ),
            Self::Unreadable { namespace, cause } => format!(
                "Secret {name:?} in namespace {namespace:?} could not be read: {cause}. Check that \
                 the controller may get Secrets there."
            ),
        }
    }

    /// Whether the fault lies with the key and not with the Secret as a whole.
    #[must_use]
    pub const fn is_about_the_key(&self) -> bool {
        matches!(self, Self::NoKey { .. } | Self::Empty)
    }
}

/// Reads Secrets of one namespace, from the server and never from a cache.
#[derive(Clone)]
pub struct Secrets {
    client: Client,
    namespace: String,
}

impl Secrets {
    /// Those of this namespace.
    #[must_use]
    pub const fn new(client: Client, namespace: String) -> Self {
        Self { client, namespace }
    }

    /// The value that is referred to.
    ///
    /// # Errors
    ///
    /// [`SecretError`] when there is none, or when the server does not hand it out.
    pub async fn value(&self, reference: &SecretKeyReference) -> Result<SecretValue, SecretError> {
        let namespace = self.namespace.clone();
        let api = Api::<Secret>::namespaced(self.client.clone(), &namespace);
        let found = match api.get_opt(&reference.name).await {
            Ok(found) => found.ok_or(SecretError::Missing { namespace })?,
            Err(error) => {
                let cause = cause(&error);
                return Err(SecretError::Unreadable { namespace, cause });
            }
        };
        let mut data = found.data.unwrap_or_default();
        match data.remove(&reference.key) {
            Some(value) if value.0.is_empty() => Err(SecretError::Empty),
            Some(value) => Ok(SecretValue(value.0)),
            None => Err(SecretError::NoKey {
                available: data.into_keys().collect(),
            }),
        }
    }
}

/// Why the server did not answer with a Secret. An answer that does not parse is not told: the
/// parser's complaint quotes it.
fn cause(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        kube::Error::HyperError(error) => crate::error_chain::innermost(error),
        kube::Error::Service(error) => crate::error_chain::innermost(&**error),
        _ => "the answer is not a Secret".to_owned(),
    }
}
