//! The variables of a container.
//!
//! The container's own ones are worked out as a kubelet does: `envFrom` first, then `env` in its order,
//! each of which may refer to those before it. Below them lie the variables that a cluster gives to
//! every container, and below those what this machine has to give: `PATH`, since the programs are
//! this machine's, and nothing else of ours. `HOME` above all is not ours, where clients look for a
//! kubeconfig when they are told of none.

use std::collections::{BTreeMap, HashMap};

use k8s_openapi::api::core::v1::{
    ConfigMap, ConfigMapKeySelector, Container, EnvFromSource, EnvVarSource, Pod,
    ResourceFieldSelector, Secret, SecretKeySelector,
};

use super::expand::expand;
use super::field::{self, Resource};
use super::objects::{ObjectError, Objects};

/// Variables by name.
pub(super) type Variables = BTreeMap<String, String>;

/// The variables by which programs in a cluster find its API server, at this URL.
pub(super) fn cluster_variables(server: &str) -> Variables {
    let uri: Option<http::Uri> = server.parse().ok();
    let host = uri.as_ref().and_then(http::Uri::host).unwrap_or_default();
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let port = uri.as_ref().and_then(http::Uri::port_u16).unwrap_or(443);
    let variables = [
        ("KUBERNETES_SERVICE_HOST", host.to_owned()),
        ("KUBERNETES_SERVICE_PORT", port.to_string()),
        ("KUBERNETES_SERVICE_PORT_HTTPS", port.to_string()),
    ];
    let owned = variables.map(|(name, value)| (name.to_owned(), value));
    owned.into()
}

/// Works out the variables that the container declares; `cluster` can be referred to and is not part
/// of the answer.
///
/// # Errors
///
/// The kubelet's words.
pub(super) async fn declared(
    pod: &Pod,
    container: &Container,
    cluster: &Variables,
    objects: &Objects,
) -> Result<Variables, String> {
    let mut sources = Sources::new(objects);
    let mut variables = Variables::new();
    for source in container.env_from.iter().flatten() {
        sources.all(source, &mut variables).await?;
    }
    for variable in container.env.iter().flatten() {
        let literal = variable.value.as_deref().filter(|value| !value.is_empty());
        let value = match (literal, &variable.value_from) {
            (Some(value), _) => Some(expand(value, |name| lookup(name, &variables, cluster))),
            (None, Some(source)) => sources.one(&variable.name, source, pod, container).await?,
            (None, None) => Some(String::new()),
        };
        if let Some(value) = value {
            variables.insert(variable.name.clone(), value);
        }
    }
    Ok(variables)
}

/// The value that a reference in the container's variables and arguments stands for.
pub(super) fn lookup<'a>(
    name: &str,
    variables: &'a Variables,
    cluster: &'a Variables,
) -> Option<&'a str> {
    let value = variables.get(name).or_else(|| cluster.get(name));
    value.map(String::as_str)
}

/// A request or limit of a container, in whole divisors, with the node's own resources where no
/// limit is set.
///
/// # Errors
///
/// In words.
pub(super) async fn resource(
    selector: &ResourceFieldSelector,
    container: &Container,
    objects: &Objects,
) -> Result<String, String> {
    match field::of_resources(selector, container)? {
        Resource::Known(number) => Ok(number),
        Resource::NodeHas(name) => match objects.allocatable(&name).await {
            Ok(Some(quantity)) => field::divided(selector, &quantity),
            Ok(None) => Ok("0".to_owned()),
            Err(error) => Err(error.to_string()),
        },
    }
}

/// The objects that variables come from, each read once per start of the container.
struct Sources<'a> {
    objects: &'a Objects,
    config_maps: HashMap<String, ConfigMap>,
    secrets: HashMap<String, Secret>,
}

impl<'a> Sources<'a> {
    fn new(objects: &'a Objects) -> Self {
        Self {
            objects,
            config_maps: HashMap::new(),
            secrets: HashMap::new(),
        }
    }

    /// [`None`] when there is none and that is allowed.
    async fn config_map(
        &mut self,
        name: &str,
        optional: Option<bool>,
    ) -> Result<Option<&ConfigMap>, String> {
        if !self.config_maps.contains_key(name) {
            let read = self.objects.config_map(name).await;
            let Some(object) = allow_missing(read, optional)? else {
                return Ok(None);
            };
            self.config_maps.insert(name.to_owned(), object);
        }
        Ok(self.config_maps.get(name))
    }

    /// [`None`] when there is none and that is allowed.
    async fn secret(
        &mut self,
        name: &str,
        optional: Option<bool>,
    ) -> Result<Option<&Secret>, String> {
        if !self.secrets.contains_key(name) {
            let read = self.objects.secret(name).await;
            let Some(object) = allow_missing(read, optional)? else {
                return Ok(None);
            };
            self.secrets.insert(name.to_owned(), object);
        }
        Ok(self.secrets.get(name))
    }

    async fn all(
        &mut self,
        source: &EnvFromSource,
        variables: &mut Variables,
    ) -> Result<(), String> {
        let prefix = source.prefix.as_deref().unwrap_or_default();
        if let Some(reference) = &source.config_map_ref {
            let object = self.config_map(&reference.name, reference.optional).await?;
            let data = object.and_then(|object| object.data.as_ref());
            for (key, value) in data.into_iter().flatten() {
                variables.insert(format!("{prefix}{key}"), value.clone());
            }
        } else if let Some(reference) = &source.secret_ref {
            let object = self.secret(&reference.name, reference.optional).await?;
            let data = object.and_then(|object| object.data.as_ref());
            for (key, value) in data.into_iter().flatten() {
                let value = String::from_utf8_lossy(&value.0).into_owned();
                variables.insert(format!("{prefix}{key}"), value);
            }
        }
        Ok(())
    }

    /// The value from a source; [`None`] when it is missing and that is allowed.
    async fn one(
        &mut self,
        name: &str,
        source: &EnvVarSource,
        pod: &Pod,
        container: &Container,
    ) -> Result<Option<String>, String> {
        if let Some(reference) = &source.field_ref {
            field::of_pod(pod, &reference.field_path).map(Some)
        } else if let Some(selector) = &source.resource_field_ref {
            let container = named_container(pod, selector, container)?;
            resource(selector, container, self.objects).await.map(Some)
        } else if let Some(reference) = &source.config_map_key_ref {
            self.config_map_key(reference).await
        } else if let Some(reference) = &source.secret_key_ref {
            self.secret_key(reference).await
        } else {
            Err(format!(
                "the variable {name} has a source that this node does not know"
            ))
        }
    }

    async fn config_map_key(
        &mut self,
        reference: &ConfigMapKeySelector,
    ) -> Result<Option<String>, String> {
        let (key, namespace) = (&reference.key, self.objects.namespace());
        let missing = format!(
            "couldn't find key {key} in ConfigMap {namespace}/{}",
            reference.name
        );
        let object = self.config_map(&reference.name, reference.optional).await?;
        let Some(object) = object else {
            return Ok(None);
        };
        let value = object.data.as_ref().and_then(|data| data.get(key));
        present(value.cloned(), reference.optional, missing)
    }

    async fn secret_key(
        &mut self,
        reference: &SecretKeySelector,
    ) -> Result<Option<String>, String> {
        let (key, namespace) = (&reference.key, self.objects.namespace());
        let missing = format!(
            "couldn't find key {key} in Secret {namespace}/{}",
            reference.name
        );
        let object = self.secret(&reference.name, reference.optional).await?;
        let Some(object) = object else {
            return Ok(None);
        };
        let value = object.data.as_ref().and_then(|data| data.get(key));
        let value = value.map(|value| String::from_utf8_lossy(&value.0).into_owned());
        present(value, reference.optional, missing)
    }
}

/// The container that a reference names; this one if it names none.
fn named_container<'a>(
    pod: &'a Pod,
    selector: &ResourceFieldSelector,
    container: &'a Container,
) -> Result<&'a Container, String> {
    match selector.container_name.as_deref() {
        None | Some("") => Ok(container),
        Some(name) => find_container(pod, name),
    }
}

/// A container of the pod, init containers included.
///
/// # Errors
///
/// The kubelet's words when there is none of this name.
pub(super) fn find_container<'a>(pod: &'a Pod, name: &str) -> Result<&'a Container, String> {
    let spec = pod.spec.as_ref();
    let containers = spec.map(|spec| {
        spec.init_containers
            .iter()
            .flatten()
            .chain(&spec.containers)
    });
    let mut containers = containers.into_iter().flatten();
    let found = containers.find(|container| container.name == name);
    found.ok_or_else(|| format!("container {name} not found"))
}

fn allow_missing<T>(
    read: Result<T, ObjectError>,
    optional: Option<bool>,
) -> Result<Option<T>, String> {
    match read {
        Ok(object) => Ok(Some(object)),
        Err(error) if error.is_not_found() && optional == Some(true) => Ok(None),
        Err(error) => Err(error.to_string()),
    }
}

fn present(
    value: Option<String>,
    optional: Option<bool>,
    missing: String,
) -> Result<Option<String>, String> {
    match value {
        None if optional != Some(true) => Err(missing),
        value => Ok(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_api_server_is_found_by_the_variables_of_every_cluster() {
        let host_and_port = |server| {
            let variables = cluster_variables(server);
            let get = |name: &str| variables[name].clone();
            (
                get("KUBERNETES_SERVICE_HOST"),
                get("KUBERNETES_SERVICE_PORT"),
            )
        };
        let pair = |host: &str, port: &str| (host.to_owned(), port.to_owned());
        assert_eq!(
            host_and_port("https://127.0.0.1:6443"),
            pair("127.0.0.1", "6443")
        );
        assert_eq!(host_and_port("https://[::1]:6443/"), pair("::1", "6443"));
        assert_eq!(
            host_and_port("https://example.com"),
            pair("example.com", "443")
        );
    }
}
