//! `aibom-qual controller`.

use std::path::PathBuf;

use clap::{ArgAction, Args};
use kube::Config;
use kube::config::{KubeConfigOptions, Kubeconfig};
use tokio_util::sync::CancellationToken;

use super::exit::{Exit, Failure};
use super::signals::Signals;
use crate::controller::log::Lines;
use crate::controller::log::style::{Encoder, Flags, Severity, TimeEncoding};
use crate::controller::process::{self, Options};
use crate::controller::profile::Profile;
use crate::controller::runtime::health::Bind;
use crate::controller::runtime::store::ObjectKey;
use crate::controller::sink::guard::Guard;
use crate::controller::sink::secret::DEFAULT_NAMESPACE;
use crate::error_chain::chain;

/// What the controller reads from its environment, as the real one does.
const ENVIRONMENT: &str = "\
Environment:
  POD_NAMESPACE, POD_NAME    The pod that events are about; Secrets are read in that namespace
                             [default: k8s-aibom-system]
  AIBOM_DISABLE_SSRF_CHECKS  With `true`, sinks may lead to loopback and private addresses";

/// Arguments of `controller`. A flag may be repeated; the last one wins, as with Go's flags, where a
/// pod's arguments follow those of its image.
#[derive(Debug, Args)]
#[command(args_override_self = true, after_help = ENVIRONMENT)]
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
    #[command(flatten)]
    switches: Switches,
    #[command(flatten)]
    log: LogArgs,
}

/// Defines flags that are on or off, as Go takes them: `--flag`, `--flag=true` or `--flag=false`.
macro_rules! switches {
    ($(#[$about:meta])* struct $name:ident {
        $($(#[doc = $help:literal])* $flag:ident = $variable:literal,)*
    }) => {
        $(#[$about])*
        #[derive(Debug, Args)]
        struct $name {
            $(
                $(#[doc = $help])*
                #[arg(
                    long,
                    value_name = "BOOL",
                    num_args = 0..=1,
                    require_equals = true,
                    default_missing_value = "true",
                    default_value = "false",
                    hide_default_value = true,
                    action = ArgAction::Set,
                    value_parser = boolean,
                    env = $variable
                )]
                $flag: bool,
            )*
        }
    };
}

switches! {
    /// Switches of the process.
    struct Switches {
        /// Not ready while the configuration is invalid.
        strict_config_readiness = "AIBOM_QUAL_STRICT_CONFIG_READINESS",
        /// Control only while holding a lease in the namespace that `POD_NAMESPACE` names.
        leader_elect = "AIBOM_QUAL_LEADER_ELECT",
    }
}

switches! {
    /// Switches of the log.
    struct LogSwitches {
        /// Log for people: console lines, from debug on.
        zap_devel = "AIBOM_QUAL_ZAP_DEVEL",
    }
}

/// A truth value as Go's `strconv.ParseBool` reads it.
fn boolean(text: &str) -> Result<bool, String> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err("it is neither true nor false".to_owned()),
    }
}

/// Flags of the log, with the values that zap takes.
#[derive(Debug, Args)]
#[command(next_help_heading = "Log options")]
struct LogArgs {
    #[command(flatten)]
    switches: LogSwitches,
    /// What is logged: debug, info, error, panic, or a number above 0 [default: info].
    #[arg(long, value_name = "LEVEL", env = "AIBOM_QUAL_ZAP_LOG_LEVEL")]
    zap_log_level: Option<Severity>,
    /// The form of a line: json or console [default: json].
    #[arg(long, value_name = "ENCODER", env = "AIBOM_QUAL_ZAP_ENCODER")]
    zap_encoder: Option<Encoder>,
    /// The form of its time: epoch, millis, nano, iso8601, rfc3339 or rfc3339nano [default: rfc3339].
    #[arg(long, value_name = "ENCODING", env = "AIBOM_QUAL_ZAP_TIME_ENCODING")]
    zap_time_encoding: Option<TimeEncoding>,
    /// What gets a stack trace of this program: info, error or panic [default: nothing].
    #[arg(long, value_name = "LEVEL", env = "AIBOM_QUAL_ZAP_STACKTRACE_LEVEL")]
    zap_stacktrace_level: Option<Severity>,
}

impl From<LogArgs> for Flags {
    fn from(args: LogArgs) -> Self {
        Self {
            devel: args.switches.zap_devel,
            level: args.zap_log_level,
            encoder: args.zap_encoder,
            time: args.zap_time_encoding,
            stack_traces: args.zap_stacktrace_level,
        }
    }
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
    let subscriber = Lines::new(std::io::stderr(), Flags::from(args.log).into());
    // Fails only if there is a log already, which then is the one.
    let _ = tracing::subscriber::set_global_default(subscriber);
    let options = Options {
        profile: args.profile,
        server,
        metrics: args.metrics_bind_address,
        health: args.health_probe_bind_address,
        strict_config_readiness: args.switches.strict_config_readiness,
        namespace: variable("POD_NAMESPACE"),
        leader_elect: args.switches.leader_elect,
        pod: pod(),
        secrets_namespace: variable("POD_NAMESPACE")
            .unwrap_or_else(|| DEFAULT_NAMESPACE.to_owned()),
        guard: guard(),
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
    Some(ObjectKey::new(
        variable("POD_NAMESPACE")?,
        variable("POD_NAME")?,
    ))
}

/// Whether sinks may lead inside the network; only the one word allows it.
fn guard() -> Guard {
    match variable("AIBOM_DISABLE_SSRF_CHECKS").as_deref() {
        Some("true") => Guard::Disabled,
        _ => Guard::Enforced,
    }
}

/// What the pod's environment says, unless that is nothing.
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
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
        assert!(args.switches.strict_config_readiness);
    }

    #[test]
    fn a_switch_takes_a_value_as_in_go() {
        let switched = |value: &str| {
            let flags = ["strict-config-readiness", "leader-elect", "zap-devel"];
            let flags = flags.map(|flag| format!("--{flag}{value}"));
            let line = ["controller", "--profile=1.3.0"].map(str::to_owned);
            let command = Command::try_parse_from(line.into_iter().chain(flags)).ok()?;
            let (switches, log) = (command.args.switches, command.args.log.switches);
            Some([
                switches.strict_config_readiness,
                switches.leader_elect,
                log.zap_devel,
            ])
        };
        for on in ["", "=true", "=1", "=T"] {
            assert_eq!(switched(on), Some([true; 3]), "{on}");
        }
        for off in ["=false", "=0", "=False"] {
            assert_eq!(switched(off), Some([false; 3]), "{off}");
        }
        for neither in ["=yes", "="] {
            assert_eq!(switched(neither), None, "{neither}");
        }
    }
}
