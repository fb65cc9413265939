//! Finds the owners of an object from names and events.
//!
//! Objects that are gone are known only from events. Controllers name their objects after
//! themselves, with a suffix of a known form, and say in their events which objects they created
//! and deleted. An object found by its name may in truth belong to another owner. That is the price
//! of finding objects that are gone.

/// A controller's statement in an event about an object that it owns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Told<'a> {
    /// The owned object's kind.
    pub kind: &'static str,
    /// The owned object's name.
    pub name: &'a str,
    /// True if the object was deleted, false if it was created or changed.
    pub deleted: bool,
}

/// Maximum owners that are tried for the name of a claim, one for each part of the name.
const OWNERS_MAX: usize = 8;

/// Minimum number in a job's name that is the minute of a cron job's run: minutes since 1970, in
/// July 2017. The controller names jobs so since Kubernetes 1.21 of 2021. Eight digits that are a
/// date of the form YYYYMMDD are less than this: 20260115.
const CRON_MINUTE_MIN: u32 = 25_000_000;

/// Maximum bytes of an object's name.
const NAME_LEN_MAX: usize = 253;

/// Kinds and names of the possible owners of an object, direct or indirect, the nearest first.
///
/// ```
/// use tidings_core::possible_owners;
///
/// let owners: Vec<_> = possible_owners("Pod", "web-5d4f8c7b9-x7k2p").collect();
/// assert_eq!(owners[0], ("ReplicaSet", "web-5d4f8c7b9"));
/// assert!(owners.contains(&("Deployment", "web")));
/// ```
pub fn possible_owners<'a>(
    kind: &str,
    name: &'a str,
) -> impl Iterator<Item = (&'static str, &'a str)> {
    let (first, last) = name.rsplit_once('-').unwrap_or_default();
    let (second, middle) = first.rsplit_once('-').unwrap_or_default();
    let (random, hash, ordinal) = (is_random(last), is_hash(middle), is_ordinal(middle));
    let pod = kind == "Pod";
    let found = [
        (pod && random, "ReplicaSet", first),
        (pod && random, "ReplicationController", first),
        (pod && random, "DaemonSet", first),
        (pod && random, "Job", first),
        (pod && is_ordinal(last), "StatefulSet", first),
        // A pod of an indexed job, such as job-0-x7k2p.
        (pod && random && ordinal, "Job", second),
        (pod && random && hash, "Deployment", second),
        (pod && random && ordinal, "CronJob", second),
        (kind == "ReplicaSet" && is_hash(last), "Deployment", first),
        (kind == "Job" && is_ordinal(last), "CronJob", first),
    ];
    // A claim's name begins with its template's: data-web-0.
    let is_claim = kind == "PersistentVolumeClaim" && is_ordinal(last);
    let claim = first.match_indices('-').filter(move |_| is_claim);
    let claim = claim.take(OWNERS_MAX).filter_map(move |(at, _)| {
        let owner = first.get(at + 1..)?;
        Some((true, "StatefulSet", owner))
    });
    found
        .into_iter()
        .chain(claim)
        .filter(|(fits, _, owner)| *fits && !owner.is_empty())
        .map(|(_, kind, owner)| (kind, owner))
}

/// The kind and name of the owner that an object's name alone shows: a deployment by its template's
/// hash, a cron job by the minute of a run.
///
/// ```
/// use tidings_core::owner_by_name;
///
/// let owner = owner_by_name("Pod", "web-5d4f8c7b9-x7k2p");
/// assert_eq!(owner, Some(("Deployment", "web")));
/// assert_eq!(owner_by_name("Pod", "web-tcp-x7k2p"), None);
/// ```
pub fn owner_by_name<'a>(kind: &str, name: &'a str) -> Option<(&'static str, &'a str)> {
    let (first, last) = name.rsplit_once('-')?;
    let (owner, form) = match kind {
        "Pod" if is_random(last) => first.rsplit_once('-')?,
        "ReplicaSet" | "Job" => (first, last),
        _ => return None,
    };
    // The digits of a 32-bit number, as `SafeEncodeString` writes them.
    let is_hash = form.bytes().all(|byte| b"456789bcdf".contains(&byte));
    let owner_kind = match form.len() {
        8 if is_cron_minute(form) && kind != "ReplicaSet" => "CronJob",
        8..=10 if is_hash && kind != "Job" => "Deployment",
        _ => return None,
    };
    (!owner.is_empty()).then_some((owner_kind, owner))
}

/// What the names of the objects begin with that a controller makes like this pod: a daemon set's,
/// a job's, or a stateful set's.
pub fn generated_from<'a>(kind: &str, name: &'a str) -> Option<&'a str> {
    let (first, last) = name.rsplit_once('-')?;
    let is_generated = kind == "Pod" && (is_random(last) || is_ordinal(last));
    (is_generated && !first.is_empty()).then_some(first)
}

/// Whether an object's name has the form that `owner_kind/owner` gives to objects it owns, directly
/// or indirectly.
pub fn is_named_after(owner_kind: &str, owner: &str, kind: &str, name: &str) -> bool {
    possible_owners(kind, name).any(|found| found == (owner_kind, owner))
}

/// Reads a controller's event about an object that it owns. The messages are those of the
/// controllers in `k8s.io/kubernetes/pkg/controller`.
pub fn told_of<'a>(kind: &str, reason: &str, message: &'a str) -> Option<Told<'a>> {
    let word_after = |text: &str| {
        let rest = message.get(message.find(text)? + text.len()..)?;
        let end = rest.find(|character: char| character.is_whitespace() || character == ',');
        let word = rest.get(..end.unwrap_or(rest.len()))?;
        is_name(word).then_some(word)
    };
    let deleted = reason == "SuccessfulDelete";
    let (kind, name) = match (kind, reason) {
        ("Deployment", "ScalingReplicaSet") => ("ReplicaSet", word_after("replica set ")?),
        (
            "ReplicaSet" | "ReplicationController" | "DaemonSet" | "Job",
            "SuccessfulCreate" | "SuccessfulDelete",
        ) => ("Pod", word_after(" pod: ")?),
        ("StatefulSet", "SuccessfulCreate" | "SuccessfulDelete") => match word_after(" Claim ") {
            Some(claim) => ("PersistentVolumeClaim", claim),
            None => ("Pod", word_after(" Pod ")?),
        },
        ("CronJob", "SuccessfulCreate" | "SuccessfulDelete") => ("Job", word_after(" job ")?),
        _ => return None,
    };
    Some(Told {
        kind,
        name,
        deleted,
    })
}

/// Whether the text can be an object's name. Anyone may write a message like a controller's.
fn is_name(text: &str) -> bool {
    let is_of_name = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    (1..=NAME_LEN_MAX).contains(&text.len())
        && text
            .bytes()
            .all(|byte| is_of_name(byte) || matches!(byte, b'-' | b'.'))
}

/// Whether the text has only letters and digits of `k8s.io/apimachinery/pkg/util/rand`. These have
/// no vowels, and no two look alike.
fn is_safe(text: &str) -> bool {
    text.bytes()
        .all(|byte| b"bcdfghjklmnpqrstvwxz2456789".contains(&byte))
}

/// Whether the text is like the five characters at the end of a generated name.
fn is_random(text: &str) -> bool {
    text.len() == 5 && is_safe(text)
}

/// Whether the text is like a pod template's hash, a 32-bit number in safe characters.
fn is_hash(text: &str) -> bool {
    (1..=10).contains(&text.len()) && is_safe(text)
}

fn is_ordinal(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Whether the text is like the minute at the end of the name of a cron job's job.
fn is_cron_minute(text: &str) -> bool {
    is_ordinal(text)
        && text
            .parse()
            .is_ok_and(|minute: u32| minute >= CRON_MINUTE_MIN && !is_day_month_year(minute))
}

/// Whether eight digits are a date of this century, of the form DDMMYYYY: 31122025. Few minutes
/// look so.
fn is_day_month_year(digits: u32) -> bool {
    let (day, month, year) = (digits / 1_000_000, digits / 10_000 % 100, digits % 10_000);
    (1..=31).contains(&day) && (1..=12).contains(&month) && (2000..2100).contains(&year)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_alone_shows_some_owners() {
        for (kind, name, expected) in [
            ("Pod", "web-5d4f8c7b9-x7k2p", Some(("Deployment", "web"))),
            ("ReplicaSet", "web-5d4f8c7b9", Some(("Deployment", "web"))),
            (
                "Pod",
                "nightly-29388960-x7k2p",
                Some(("CronJob", "nightly")),
            ),
            ("Job", "nightly-29388960", Some(("CronJob", "nightly"))),
            ("Job", "nightly-25000000", Some(("CronJob", "nightly"))),
            // A date is no minute.
            ("Job", "import-24999999", None),
            ("Job", "import-20260115", None),
            ("Job", "import-31122025", None),
            ("Pod", "import-20260115-x7k2p", None),
            // Digits alone are a minute, as far as a pod's name says.
            ("Pod", "web-45678945-x7k2p", Some(("CronJob", "web"))),
            ("ReplicaSet", "web-45678945", Some(("Deployment", "web"))),
            ("Pod", "web-controller-x7k2p", None),
            ("Pod", "web-x7k2p", None),
            ("Pod", "-5d4f8c7b9-x7k2p", None),
            ("Job", "import-5d4f8c7b9", None),
            ("Service", "web-5d4f8c7b9", None),
        ] {
            assert_eq!(owner_by_name(kind, name), expected, "{kind}/{name}");
        }
        for (name, expected) in [
            ("cilium-sqmvj", Some("cilium")),
            ("db-12", Some("db")),
            ("web-main", None),
            ("-12", None),
        ] {
            assert_eq!(generated_from("Pod", name), expected, "{name}");
        }
    }

    #[test]
    fn those_that_are_gone_are_known_by_their_names() {
        for (owner, member, expected) in [
            ("Deployment/web", "ReplicaSet/web-5d4f8c7b9", true),
            ("Deployment/web", "Pod/web-5d4f8c7b9-x7k2p", true),
            ("Deployment/web", "Pod/web-api-5d4f8c7b9-x7k2p", false),
            ("Deployment/web", "ReplicaSet/web-api", false),
            ("Deployment/web", "Pod/web-0", false),
            ("Deployment/web", "Pod/website-5d4f8c7b9-x7k2p", false),
            ("ReplicaSet/web-5d4f8c7b9", "Pod/web-5d4f8c7b9-x7k2p", true),
            ("StatefulSet/db", "Pod/db-12", true),
            ("StatefulSet/db", "Pod/db-x7k2p", false),
            ("StatefulSet/db", "PersistentVolumeClaim/data-db-0", true),
            (
                "StatefulSet/my-db",
                "PersistentVolumeClaim/data-my-db-0",
                true,
            ),
            ("StatefulSet/db", "PersistentVolumeClaim/data-mydb-0", false),
            ("StatefulSet/db", "PersistentVolumeClaim/db-0", false),
            ("DaemonSet/agent", "Pod/agent-x7k2p", true),
            ("Job/once", "Pod/once-x7k2p", true),
            ("Job/once", "Pod/once-3-x7k2p", true),
            ("CronJob/nightly", "Job/nightly-29388960", true),
            ("CronJob/nightly", "Pod/nightly-29388960-x7k2p", true),
            ("Service/web", "Pod/web-0", false),
            ("Deployment/", "ReplicaSet/-5d4f8c7b9", false),
        ] {
            let parts = |text: &'static str| text.split_once('/').unwrap();
            let ((owner_kind, owner_name), (kind, name)) = (parts(owner), parts(member));
            assert_eq!(
                is_named_after(owner_kind, owner_name, kind, name),
                expected,
                "{owner} {member}"
            );
        }
    }

    #[test]
    fn controllers_say_what_they_made_and_deleted() {
        let told = |kind, name, deleted| {
            Some(Told {
                kind,
                name,
                deleted,
            })
        };
        let long = format!("Created pod: {}", "a".repeat(254));
        for (kind, reason, message, expected) in [
            ("Job", "SuccessfulCreate", &*long, None),
            ("Job", "SuccessfulCreate", "Created pod: a/b", None),
            ("Job", "SuccessfulCreate", "Created pod: A\u{202e}", None),
            (
                "Deployment",
                "ScalingReplicaSet",
                "Scaled up replica set px-5d567cc74c to 1",
                told("ReplicaSet", "px-5d567cc74c", false),
            ),
            (
                "Deployment",
                "ScalingReplicaSet",
                "Scaled down replica set px-5d567cc74c from 1 to 0",
                told("ReplicaSet", "px-5d567cc74c", false),
            ),
            (
                "ReplicaSet",
                "SuccessfulCreate",
                "Created pod: px-5d567cc74c-s4ckh",
                told("Pod", "px-5d567cc74c-s4ckh", false),
            ),
            (
                "ReplicaSet",
                "SuccessfulDelete",
                "Deleted pod: px-5d567cc74c-s4ckh",
                told("Pod", "px-5d567cc74c-s4ckh", true),
            ),
            (
                "StatefulSet",
                "SuccessfulCreate",
                "create Pod db-0 in StatefulSet db successful",
                told("Pod", "db-0", false),
            ),
            (
                "StatefulSet",
                "SuccessfulCreate",
                "create Claim data-db-0 Pod db-0 in StatefulSet db success",
                told("PersistentVolumeClaim", "data-db-0", false),
            ),
            (
                "CronJob",
                "SuccessfulCreate",
                "Created job nightly-29388960",
                told("Job", "nightly-29388960", false),
            ),
            ("Pod", "SuccessfulCreate", "Created pod: a", None),
            ("ReplicaSet", "FailedCreate", "Error creating: a", None),
            ("Job", "SuccessfulCreate", "Created pod: ", None),
            ("Job", "SuccessfulCreate", "", None),
        ] {
            assert_eq!(told_of(kind, reason, message), expected, "{message}");
        }
    }
}
