//! Several controllers with one broadcaster; one replica works at a time.
//!
//! Replicas elect a leader by a Lease. The leader runs two controllers, each with its own recorder,
//! and an event says who became the leader. All recorders share one broadcaster: one queue, one
//! budget of writes, one shutdown.
//!
//! ```console
//! cargo run -p tidings --example several_controllers      # with a kubeconfig; ends with Ctrl-C or SIGTERM
//! ```
//!
//! It needs the permission to list and watch config maps and services, to get, create and update
//! leases, and to create and patch events.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::{ConfigMap, Service};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, ObjectMeta, PostParams};
use kube::runtime::controller::{Action, Controller};
use kube::runtime::watcher;
use kube::{Client, Config};
use tidings::{Broadcaster, EventSource, KubeSink, Recorder};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{Instant, sleep, timeout_at};

const LEASE: &str = "several-controllers";
const LEASE_DURATION: Duration = Duration::from_secs(15);
const RENEWED_EVERY: Duration = Duration::from_secs(5);

#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct ReconcileError(&'static str);

/// What every reconciliation uses: the client, and the recorder of its controller.
struct Context {
    recorder: Recorder,
}

async fn count_keys(map: Arc<ConfigMap>, context: Arc<Context>) -> Result<Action, ReconcileError> {
    let keys = map.data.as_ref().map_or(0, BTreeMap::len);
    if keys == 0 {
        return Err(ReconcileError("the config map has no keys"));
    }
    context
        .recorder
        .normal(&map, "Counted", format_args!("{keys} keys"));
    Ok(Action::await_change())
}

async fn check_ports(
    service: Arc<Service>,
    context: Arc<Context>,
) -> Result<Action, ReconcileError> {
    let spec = service.spec.as_ref();
    let ports = spec
        .and_then(|spec| spec.ports.as_ref())
        .map_or(0, Vec::len);
    if ports == 0 {
        return Err(ReconcileError("the service has no ports"));
    }
    context
        .recorder
        .normal(&service, "Checked", format_args!("{ports} ports"));
    Ok(Action::await_change())
}

/// One error policy for both controllers. The generic parameter `Kind` allows any object that has a
/// reference.
#[expect(clippy::needless_pass_by_value, reason = "the form that kube wants")]
fn on_error<Kind, T>(object: Arc<T>, error: &ReconcileError, context: Arc<Context>) -> Action
where
    Arc<T>: tidings::ToReference<Kind>,
{
    context.recorder.warning(&object, "ReconcileFailed", error);
    Action::requeue(Duration::from_secs(60))
}

/// The Lease by which replicas elect their leader.
struct Election {
    leases: Api<Lease>,
    identity: String,
}

impl Election {
    /// Takes the Lease, or renews it, unless another replica holds it. Returns it if this replica
    /// holds it.
    #[expect(
        clippy::disallowed_methods,
        reason = "the time of a Lease is that of the machine"
    )]
    async fn take(&self) -> Result<Option<Lease>, kube::Error> {
        let now = Timestamp::now();
        let Some(mut lease) = self.leases.get_opt(LEASE).await? else {
            let lease = Lease {
                metadata: ObjectMeta {
                    name: Some(LEASE.to_owned()),
                    ..ObjectMeta::default()
                },
                spec: Some(self.held(now)),
            };
            let created = self.leases.create(&PostParams::default(), &lease).await;
            return ours(created);
        };
        let spec = lease.spec.unwrap_or_default();
        let renewed = spec.renew_time.map_or(Timestamp::UNIX_EPOCH, |time| time.0);
        let is_over = now.duration_since(renewed).unsigned_abs() > LEASE_DURATION;
        let is_own = spec.holder_identity.as_ref() == Some(&self.identity);
        if !(is_own || is_over) {
            return Ok(None);
        }
        lease.spec = Some(self.held(now));
        let params = PostParams::default();
        ours(self.leases.replace(LEASE, &params, &lease).await)
    }

    fn held(&self, now: Timestamp) -> LeaseSpec {
        LeaseSpec {
            holder_identity: Some(self.identity.clone()),
            lease_duration_seconds: i32::try_from(LEASE_DURATION.as_secs()).ok(),
            renew_time: Some(MicroTime(now)),
            ..LeaseSpec::default()
        }
    }

    /// Waits until this replica is the leader; returns the Lease and its end.
    async fn win(&self) -> Result<(Lease, Instant), kube::Error> {
        loop {
            let ends = in_a_lease_duration();
            if let Some(lease) = self.take().await? {
                return Ok((lease, ends));
            }
            sleep(RENEWED_EVERY).await;
        }
    }

    /// Renews the Lease until another replica holds it, or until it ends because no request
    /// succeeds.
    async fn keep(&self, mut ends: Instant) {
        loop {
            let renewal = async {
                sleep(RENEWED_EVERY).await;
                (in_a_lease_duration(), self.take().await)
            };
            match timeout_at(ends, renewal).await {
                Ok((renewed, Ok(Some(_)))) => ends = renewed,
                Ok((_, Err(_))) => {}
                Ok((_, Ok(None))) | Err(_) => return,
            }
        }
    }
}

/// The end of a Lease that is renewed now.
#[expect(
    clippy::disallowed_methods,
    reason = "the time of a Lease is that of the machine"
)]
fn in_a_lease_duration() -> Instant {
    Instant::now() + LEASE_DURATION
}

/// Waits for Ctrl-C, or for the SIGTERM with which Kubernetes ends a pod.
async fn ended() -> std::io::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        ended = tokio::signal::ctrl_c() => ended,
        _ = terminate.recv() => Ok(()),
    }
}

/// Treats a conflict as no Lease: another replica was faster.
fn ours(written: Result<Lease, kube::Error>) -> Result<Option<Lease>, kube::Error> {
    match written {
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(None),
        written => written.map(Some),
    }
}

#[tokio::main]
#[expect(clippy::print_stdout, reason = "an example shows what it does")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    tracing_subscriber::fmt().init();
    let config = Config::infer().await?;
    let host = hostname::get()?.to_string_lossy().into_owned();
    // Replicas may share the name of their host, so the identity also has a random part.
    let identity = format!("{host}_{:016x}", RandomState::new().hash_one(()));

    let broadcaster = Broadcaster::new();
    broadcaster.start_structured_logging();
    broadcaster.start_recording_to_sink(KubeSink::from_config(config.clone())?);
    // Each component has its own name; the host distinguishes replicas.
    let recorder =
        |component: &str| broadcaster.recorder(EventSource::component(component).host(&host));

    let client = Client::try_from(config)?;
    let election = Election {
        leases: Api::default_namespaced(client.clone()),
        identity: identity.clone(),
    };
    let work = async {
        let (lease, ends) = election.win().await?;
        let elected = format_args!("{identity} became leader");
        recorder("leader-elector").normal(&lease, "LeaderElection", elected);

        let context = |component: &str| {
            let recorder = recorder(component);
            Arc::new(Context { recorder })
        };
        let maps = Api::<ConfigMap>::all(client.clone());
        let maps = Controller::new(maps, watcher::Config::default())
            .run(count_keys, on_error, context("config-map-counter"))
            .for_each(|_| std::future::ready(()));
        let services = Api::<Service>::all(client.clone());
        let services = Controller::new(services, watcher::Config::default())
            .run(check_ports, on_error, context("port-checker"))
            .for_each(|_| std::future::ready(()));
        tokio::select! {
            () = maps => {}
            () = services => {}
            () = election.keep(ends) => {
                recorder("leader-elector").warning(&lease, "LeaderElection", "lost the lease");
            }
        }
        Ok::<(), kube::Error>(())
    };
    let worked = tokio::select! {
        worked = work => worked,
        _ = ended() => Ok(()),
    };

    // The one shutdown, also after an error: events of all recorders still arrive.
    println!("{}", broadcaster.shutdown(Duration::from_secs(5)).await);
    Ok(worked?)
}
