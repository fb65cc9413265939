//! `tidings rbac`: prints the permissions that each use needs, and no more, as objects for kubectl
//! apply.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::builder::NonEmptyStringValueParser;
use serde_json::{Value, json};

use tidings_server::{PAST_API_SERVICE, PAST_GROUP};

use super::cluster::{CommandError, DONE, finish, service_account};
use super::terminal::output;

/// Print exactly the permissions that a use needs, for kubectl apply.
///
/// Prints a Role if a namespace is given, otherwise a ClusterRole; with --service-account, --user
/// or --group also a binding for each of them. A binding is named by the role and its subject, so
/// that one applied for a colleague leaves those of others as they are.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  tidings rbac record -n shop --service-account shop:web-controller | kubectl apply -f -
  tidings rbac tree --group developers --user ann
  tidings rbac archive serve --account --service-account tidings:tidings-follow | kubectl --context edge apply -f -
  kubectl auth can-i list events --as system:serviceaccount:shop:web-controller

Exit codes:
  0    printed
  1    the output could not be written
  2    a wrong command line")]
pub(crate) struct Args {
    /// Uses that need the permissions
    #[arg(value_enum, required = true)]
    uses: Vec<Use>,
    /// Grant the permissions in this namespace only
    #[arg(long, short, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    namespace: Option<String>,
    /// Name of the role
    #[arg(long, value_name = "NAME", value_parser = role_name)]
    name: Option<String>,
    /// Service account to bind the role to; may be repeated
    #[arg(long, value_name = "NAMESPACE:NAME", value_parser = service_account)]
    service_account: Vec<(String, String)>,
    /// Also print the service accounts, their namespaces, and a token for each that does not
    /// expire: a Secret with the account's name
    #[arg(long, requires = "service_account")]
    account: bool,
    /// User to bind the role to; may be repeated
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    user: Vec<String>,
    /// Group to bind the role to; may be repeated
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    group: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Use {
    /// Record core/v1 events with the library or with tidings record, which looks up an object's
    /// uid if it may get the object
    Record,
    /// Record events.k8s.io/v1 events with the library (`SinkOptions::events_v1`)
    RecordEventsV1,
    /// tidings events, describe, top and coverage, with and without --watch, of a cluster or of
    /// what an archive has of it
    Events,
    /// tidings events, describe, top and coverage, also with --tree
    Tree,
    /// tidings export, also with --versions
    Export,
    /// tidings import
    Import,
    /// tidings archive, for the cluster that is followed; with --cluster-access, also serve
    Archive,
    /// tidings archive --api-service, for the cluster it runs in, in addition to archive and serve
    ApiService,
    /// Read an archive through the cluster's own API server: kubectl get pastevents. Everybody who
    /// may view a namespace gets them (aggregate-to-view)
    PastEvents,
    /// tidings archive --cluster-access, for the cluster that reviews its readers; and
    /// --authentication-kubeconfig and --authorization-kubeconfig of tidings serve and archive
    Serve,
}

/// A rule of a role: API groups, resources, and verbs.
pub(crate) struct Rule {
    pub(crate) group: &'static str,
    pub(crate) resources: &'static [&'static str],
    /// The names of the objects; empty for all.
    names: &'static [&'static str],
    pub(crate) verbs: &'static [&'static str],
}

const fn rule(
    group: &'static str,
    resources: &'static [&'static str],
    verbs: &'static [&'static str],
) -> Rule {
    Rule {
        group,
        resources,
        names: &[],
        verbs,
    }
}

impl Rule {
    fn to_json(&self) -> Value {
        let mut rule = json!({"apiGroups": [self.group], "resources": self.resources});
        if !self.names.is_empty() {
            rule["resourceNames"] = json!(self.names);
        }
        rule["verbs"] = json!(self.verbs);
        rule
    }
}

impl Use {
    pub(crate) fn rules(self) -> &'static [Rule] {
        const EVENTS: &[&str] = &["events"];
        const READ: Rule = rule("", EVENTS, &["list", "watch"]);
        match self {
            Self::Record => const { &[rule("", EVENTS, &["create", "patch"])] },
            Self::RecordEventsV1 => {
                const { &[rule("events.k8s.io", EVENTS, &["create", "patch"])] }
            }
            Self::Events => const { &[READ] },
            Self::Tree => {
                const {
                    &[
                        READ,
                        rule("", &["pods", "persistentvolumeclaims"], &["get", "list"]),
                        rule(
                            "apps",
                            &["daemonsets", "deployments", "replicasets", "statefulsets"],
                            &["get", "list"],
                        ),
                        rule("batch", &["cronjobs", "jobs"], &["get", "list"]),
                    ]
                }
            }
            Self::Export => const { &[rule("", EVENTS, &["list"])] },
            Self::Import => const { &[rule("", EVENTS, &["create", "get", "update"])] },
            Self::Archive => {
                const {
                    &[
                        rule("events.k8s.io", EVENTS, &["list", "watch"]),
                        // The namespace's uid is the cluster's identity.
                        Rule {
                            names: &["kube-system"],
                            ..rule("", &["namespaces"], &["get"])
                        },
                    ]
                }
            }
            Self::ApiService => {
                const {
                    &[Rule {
                        names: &[PAST_API_SERVICE],
                        ..rule(
                            "apiregistration.k8s.io",
                            &["apiservices"],
                            &["get", "patch"],
                        )
                    }]
                }
            }
            Self::PastEvents => {
                const {
                    &[
                        rule(PAST_GROUP, &["pastevents"], &["get", "list", "watch"]),
                        rule(PAST_GROUP, &["pastevents/versions", "timeline"], &["get"]),
                        rule(PAST_GROUP, &["counts", "coverage"], &["list"]),
                    ]
                }
            }
            Self::Serve => {
                const {
                    &[
                        rule("authentication.k8s.io", &["tokenreviews"], &["create"]),
                        rule(
                            "authorization.k8s.io",
                            &["subjectaccessreviews"],
                            &["create"],
                        ),
                    ]
                }
            }
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Record => "record",
            Self::RecordEventsV1 => "record-events-v1",
            Self::Events => "events",
            Self::Tree => "tree",
            Self::Export => "export",
            Self::Import => "import",
            Self::Archive => "archive",
            Self::ApiService => "api-service",
            Self::PastEvents => "past-events",
            Self::Serve => "serve",
        }
    }
}

/// Parses a role's name by Kubernetes' rule: it must be a path segment.
fn role_name(text: &str) -> Result<String, &'static str> {
    if text.is_empty() || text == "." || text == ".." || text.contains(['/', '%']) {
        return Err("expected the name of a role: not empty, not . or .., and without / and %");
    }
    Ok(text.to_owned())
}

/// Prints the roles.
pub(crate) fn run(args: &Args) -> ExitCode {
    finish(print(args))
}

fn print(args: &Args) -> Result<u8, CommandError> {
    if args.name.is_some() && args.uses.len() > 1 {
        let why = "give several roles one name: leave --name out, or name one use";
        return Err(CommandError::Usage(why.to_owned()));
    }
    for uses in args.uses.iter().filter(|_| args.namespace.is_some()) {
        let why = match uses {
            Use::Serve => "print a Role for serve: reviews belong to no namespace",
            Use::ApiService => {
                "print a Role for api-service: an APIService belongs to no namespace"
            }
            _ => "",
        };
        if !why.is_empty() {
            return Err(CommandError::Usage(format!("{why}, so leave -n out")));
        }
    }
    let mut text = String::new();
    let accounts = args.service_account.iter().filter(|_| args.account);
    let accounts = accounts.flat_map(|(namespace, name)| account(namespace, name));
    let roles = args.uses.iter().flat_map(|uses| objects(args, *uses));
    for object in accounts.chain(roles) {
        text.push_str("---\n");
        let yaml = serde_saphyr::to_string(&object).map_err(io::Error::other)?;
        text.push_str(&yaml);
    }
    output().write_all(text.as_bytes())?;
    Ok(DONE)
}

/// A service account with its namespace and a token that does not expire.
fn account(namespace: &str, name: &str) -> [Value; 3] {
    let metadata = json!({"name": name, "namespace": namespace});
    let mut of_token = metadata.clone();
    of_token["annotations"] = json!({"kubernetes.io/service-account.name": name});
    [
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}),
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}),
        json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": of_token,
            "type": "kubernetes.io/service-account-token",
        }),
    ]
}

fn objects(args: &Args, uses: Use) -> Vec<Value> {
    let name = args.name.clone().unwrap_or_else(|| match uses {
        // The chart of an archive has a role tidings-archive.
        Use::Archive => "tidings-follow".to_owned(),
        uses => format!("tidings-{}", uses.word()),
    });
    let mut metadata = json!({"name": name});
    let kind = match &args.namespace {
        Some(namespace) => {
            metadata["namespace"] = json!(namespace);
            "Role"
        }
        None => "ClusterRole",
    };
    let rules: Vec<Value> = uses.rules().iter().map(Rule::to_json).collect();
    let mut objects = vec![json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": metadata, "rules": rules,
    })];
    let subjects = subjects(args);
    // Bound by name, the role is for these subjects; otherwise it is part of the role view.
    if uses == Use::PastEvents && args.namespace.is_none() && subjects.is_empty() {
        let label = "rbac.authorization.k8s.io/aggregate-to-view";
        objects[0]["metadata"]["labels"] = json!({label: "true"});
    }
    for (subject, object) in subjects {
        let bound = json!(format!("{name}-{subject}"));
        if uses == Use::ApiService {
            // By this role of its own, the cluster says how its API server is recognized.
            objects.push(json!({
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
                "metadata": {"name": bound, "namespace": "kube-system"},
                "roleRef": {
                    "apiGroup": "rbac.authorization.k8s.io", "kind": "Role",
                    "name": "extension-apiserver-authentication-reader",
                },
                "subjects": [object],
            }));
        }
        let mut metadata = metadata.clone();
        metadata["name"] = bound;
        objects.push(json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": format!("{kind}Binding"), "metadata": metadata,
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name},
            "subjects": [object],
        }));
    }
    objects
}

/// The subjects, each with the part of its binding's name that no other subject has.
fn subjects(args: &Args) -> Vec<(String, Value)> {
    let accounts = args.service_account.iter().map(|(namespace, name)| {
        // After a namespace with a hyphen, another one could not be told from the name's.
        let between = if namespace.contains('-') { ':' } else { '-' };
        (
            format!("{namespace}{between}{name}"),
            json!({"kind": "ServiceAccount", "namespace": namespace, "name": name}),
        )
    });
    let users = args.user.iter().map(|name| ("User", "user", name));
    let groups = args.group.iter().map(|name| ("Group", "group", name));
    let others = users.chain(groups).map(|(kind, word, name)| {
        (
            format!("{word}:{}", path_segment(name)),
            json!({"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name}),
        )
    });
    accounts.chain(others).collect()
}

/// The name of a user or group, with the characters escaped that Kubernetes refuses in the name of
/// a binding.
fn path_segment(name: &str) -> String {
    name.replace('~', "~7e")
        .replace('/', "~2f")
        .replace('%', "~25")
}
