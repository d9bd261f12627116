//! `aibom-qual controller`.

use std::path::PathBuf;

use clap::Args;
use kube::Config;
use kube::config::{KubeConfigOptions, Kubeconfig};
use tokio_util::sync::CancellationToken;

use super::exit::{Exit, Failure};
use super::signals::Signals;
use crate::controller::log::JsonLines;
use crate::controller::process::{self, Options};
use crate::controller::profile::Profile;
use crate::controller::runtime::health::Bind;
use crate::controller::runtime::store::ObjectKey;
use crate::error_chain::chain;

/// Arguments of `controller`. A flag may be repeated; the last one wins, as with Go's flags, where a
/// pod's arguments follow those of its image.
#[derive(Debug, Args)]
#[command(args_override_self = true)]
pub(crate) struct ControllerArgs {
    /// The release to behave like: 1.2.0, 1.3.0, 1.5.1 or 1.6.0.
    #[arg(long, value_name = "RELEASE", value_parser = profile, env = "AIBOM_QUAL_PROFILE")]
    profile: &'static Profile,
    /// The kubeconfig [default: KUBECONFIG, else the cluster around this pod].
    #[arg(long, value_name = "FILE", env = "AIBOM_QUAL_KUBECONFIG")]
    kubeconfig: Option<PathBuf>,
    /// Where metrics are served: HOST:PORT, :PORT, or 0 for nowhere.
    #[arg(
        long,
        value_name = "ADDRESS",
        default_value = "127.0.0.1:8080",
        env = "AIBOM_QUAL_METRICS_BIND_ADDRESS"
    )]
    metrics_bind_address: Bind,
    /// Where health is served: HOST:PORT, :PORT, or 0 for nowhere.
    #[arg(
        long,
        value_name = "ADDRESS",
        default_value = ":8081",
        env = "AIBOM_QUAL_HEALTH_PROBE_BIND_ADDRESS"
    )]
    health_probe_bind_address: Bind,
    /// Not ready while the configuration is invalid.
    #[arg(long, env = "AIBOM_QUAL_STRICT_CONFIG_READINESS")]
    strict_config_readiness: bool,
}

fn profile(name: &str) -> Result<&'static Profile, String> {
    Profile::named(name).map_err(|error| match error.hint() {
        Some(hint) => format!("{error}; {hint}"),
        None => error.to_string(),
    })
}

/// Runs until a signal. From here on standard error is the controller's log, and the exit code that
/// of the real process: 0 after a signal, 1 when it cannot go on.
pub(crate) async fn run(args: ControllerArgs) -> Result<Exit, Failure> {
    let server = server(args.kubeconfig).await?;
    let mut signals = Signals::install()?;
    let subscriber = JsonLines::new(std::io::stderr());
    // Fails only if there is a log already, which then is the one.
    let _ = tracing::subscriber::set_global_default(subscriber);
    let options = Options {
        profile: args.profile,
        server,
        metrics: args.metrics_bind_address,
        health: args.health_probe_bind_address,
        strict_config_readiness: args.strict_config_readiness,
        pod: pod(),
    };
    let stop = CancellationToken::new();
    let asked = stop.clone();
    tokio::spawn(async move {
        signals.received().await;
        asked.cancel();
        signals.end_on_next();
    });
    match process::run(options, stop).await {
        Ok(()) => Ok(Exit::Pass),
        Err(error) => {
            tracing::error!(
                logger = "setup",
                error = chain(&error),
                "manager exited with error"
            );
            Ok(Exit::Fail)
        }
    }
}

/// The pod around this process, as its environment names it.
fn pod() -> Option<ObjectKey> {
    let read = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
    Some(ObjectKey::new(read("POD_NAMESPACE")?, read("POD_NAME")?))
}

async fn server(kubeconfig: Option<PathBuf>) -> Result<Config, Failure> {
    let path = kubeconfig.or_else(|| {
        let path = std::env::var_os("KUBECONFIG").filter(|path| !path.is_empty());
        path.map(PathBuf::from)
    });
    let Some(path) = path else {
        return Config::incluster().map_err(|error| Failure {
            exit: Exit::Input,
            message: chain(&error),
            hint: Some("name a kubeconfig with --kubeconfig".to_owned()),
        });
    };
    let unusable = |error: kube::config::KubeconfigError| Failure {
        exit: Exit::Input,
        message: format!(
            "cannot use the kubeconfig {}: {}",
            path.display(),
            chain(&error)
        ),
        hint: Some("name another one with --kubeconfig".to_owned()),
    };
    let file = Kubeconfig::read_from(&path).map_err(unusable)?;
    let options = KubeConfigOptions::default();
    let mut config = Config::from_custom_kubeconfig(file, &options)
        .await
        .map_err(unusable)?;
    let host = config.cluster_url.host();
    if host.is_some_and(|host| matches!(host, "127.0.0.1" | "[::1]" | "localhost")) {
        // As in Go, no proxy leads to this machine.
        config.proxy_url = None;
    }
    Ok(config)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        args: ControllerArgs,
    }

    #[test]
    fn the_last_of_a_repeated_flag_wins() {
        let command = Command::try_parse_from([
            "controller",
            "--profile=1.2.0",
            "--metrics-bind-address=127.0.0.1:20001",
            "--strict-config-readiness",
            "--profile=1.6.0",
            "--metrics-bind-address=0",
            "--strict-config-readiness",
        ]);
        let args = command.expect("a command line").args;
        assert_eq!(args.profile.name, "1.6.0");
        assert_eq!(args.metrics_bind_address, "0".parse().expect("nowhere"));
        assert!(args.strict_config_readiness);
    }
}
