//! Dependencies between services. Works on names only: starts nothing, and holds no state.

use super::service::Dependencies;
use protocol::{ServiceName, ServiceSpec};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GraphError {
    #[error("{service} depends on {on}, and there is no such service")]
    Unknown { service: ServiceName, on: ServiceName },
    /// Each service of the path depends on the next, and the last on the first.
    #[error("services wait for each other: {}", cycle_text(path))]
    Cycle { path: Vec<ServiceName> },
    #[error("there are two services with the name {name}")]
    Duplicate { name: ServiceName },
}

/// The state of a service as its dependents see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Readiness {
    Ready,
    /// Not ready yet, but starting or retrying.
    Pending,
    /// Not ready, and stays so until a caller acts.
    Failed,
}

/// Checks that every name is unique, every dependency exists and there is no cycle.
pub fn check(specs: &[ServiceSpec]) -> Result<(), GraphError> {
    let mut names = BTreeSet::new();
    for spec in specs {
        if !names.insert(&spec.name) {
            return Err(GraphError::Duplicate { name: spec.name.clone() });
        }
    }
    for spec in specs {
        if let Some(on) = spec.depends_on.iter().find(|on| !names.contains(on)) {
            return Err(GraphError::Unknown { service: spec.name.clone(), on: on.clone() });
        }
    }
    let stuck = sort(specs).stuck;
    if stuck.is_empty() { Ok(()) } else { Err(GraphError::Cycle { path: cycle_in(&stuck) }) }
}

/// Dependencies before dependents, otherwise in the given order. In a graph that does not pass `check`,
/// services that cannot be ordered come last, as given.
pub fn start_order(specs: &[ServiceSpec]) -> Vec<ServiceName> {
    let TopologicalOrder { ordered, stuck } = sort(specs);
    ordered.into_iter().chain(stuck).map(|spec| spec.name.clone()).collect()
}

/// Dependents before their dependencies.
pub fn stop_order(specs: &[ServiceSpec]) -> Vec<ServiceName> {
    let mut order = start_order(specs);
    order.reverse();
    order
}

/// Levels to stop in: no service depends on one of an earlier level.
pub fn stop_levels(specs: &[ServiceSpec]) -> Vec<Vec<ServiceName>> {
    let mut level: BTreeMap<&ServiceName, usize> = BTreeMap::new();
    for name in stop_order(specs) {
        let Some(spec) = specs.iter().find(|spec| spec.name == name) else { continue };
        let own = *level.entry(&spec.name).or_default();
        for on in &spec.depends_on {
            let below = level.entry(on).or_default();
            *below = (*below).max(own + 1);
        }
    }
    let depth = level.values().max().map_or(0, |deepest| deepest + 1);
    let mut levels = vec![Vec::new(); depth];
    for (name, at) in level {
        levels[at].push(name.clone());
    }
    levels
}

/// The combined readiness of all dependencies of `spec`. An unknown dependency counts as failed: it may have
/// been removed since the graph was checked.
pub fn dependencies(
    spec: &ServiceSpec,
    phase_of: impl Fn(&ServiceName) -> Option<Readiness>,
) -> Dependencies {
    let mut pending: Vec<ServiceName> = Vec::new();
    for on in &spec.depends_on {
        match phase_of(on) {
            Some(Readiness::Ready) => {}
            Some(Readiness::Pending) if pending.contains(on) => {}
            Some(Readiness::Pending) => pending.push(on.clone()),
            Some(Readiness::Failed) | None => return Dependencies::Failed(on.clone()),
        }
    }
    if pending.is_empty() { Dependencies::Ready } else { Dependencies::Waiting(pending) }
}

struct TopologicalOrder<'a> {
    ordered: Vec<&'a ServiceSpec>,
    /// On a cycle, or behind one.
    stuck: Vec<&'a ServiceSpec>,
}

/// Repeatedly takes the first service, in the given order, whose dependencies are all taken. Unknown names
/// are ignored. Quadratic, but the number of services is limited.
fn sort(specs: &[ServiceSpec]) -> TopologicalOrder<'_> {
    let known: BTreeSet<_> = specs.iter().map(|spec| &spec.name).collect();
    let mut stuck: Vec<_> = specs.iter().collect();
    let mut ordered = Vec::with_capacity(specs.len());
    let mut taken = BTreeSet::new();
    let free = |spec: &ServiceSpec, taken: &BTreeSet<&ServiceName>| {
        spec.depends_on.iter().all(|on| taken.contains(on) || !known.contains(on))
    };
    while let Some(first) = stuck.iter().position(|spec| free(spec, &taken)) {
        let spec = stuck.remove(first);
        taken.insert(&spec.name);
        ordered.push(spec);
    }
    TopologicalOrder { ordered, stuck }
}

/// Walks from the first stuck service along stuck dependencies until a service repeats: every stuck service
/// has such a dependency, so the walk ends on a cycle.
fn cycle_in(stuck: &[&ServiceSpec]) -> Vec<ServiceName> {
    let by_name: BTreeMap<_, _> = stuck.iter().map(|spec| (&spec.name, *spec)).collect();
    let mut walk: Vec<&ServiceName> = Vec::new();
    let mut next = stuck.first().map(|spec| &spec.name);
    while let Some(name) = next {
        if let Some(first) = walk.iter().position(|seen| *seen == name) {
            return walk[first..].iter().map(|name| (*name).clone()).collect();
        }
        walk.push(name);
        next = by_name[name].depends_on.iter().find(|on| by_name.contains_key(on));
    }
    Vec::new()
}

fn cycle_text(path: &[ServiceName]) -> String {
    let names: Vec<_> = path.iter().chain(path.first()).map(ServiceName::as_str).collect();
    names.join(" -> ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use protocol::{EnvMap, RestartPolicy};

    fn name(text: &str) -> ServiceName {
        ServiceName::parse(text).expect("a good name")
    }

    /// Parses `web: db cache` into a service `web` that depends on `db` and `cache`.
    fn spec(line: &str) -> ServiceSpec {
        let (own, on) = line.split_once(':').expect("a colon");
        ServiceSpec {
            name: name(own),
            command: "true".into(),
            port: None,
            env: EnvMap::new(),
            cwd: None,
            depends_on: on.split_whitespace().map(name).collect(),
            health: None,
            restart: RestartPolicy::Always,
            restart_after_task: false,
            watch: vec![],
        }
    }

    fn specs(lines: &str) -> Vec<ServiceSpec> {
        lines.split(',').map(str::trim).filter(|line| !line.is_empty()).map(spec).collect()
    }

    #[test]
    fn dependencies_start_first_and_the_given_order_is_kept() {
        let table = [
            ("", ""),
            ("a:, b:, c:", "a b c"),
            ("web: db, db:, cache:", "db web cache"),
            ("c: b, b: a, a:", "a b c"),
            ("web: api db, api: db, db:", "db api web"),
            ("a: b, b: a, c:", "c a b"),
            ("a: ghost, b:", "a b"),
        ];
        for (given, expected) in table {
            let order = start_order(&specs(given));
            let text = order.iter().map(ServiceName::as_str).collect::<Vec<_>>().join(" ");
            assert_eq!(text, expected, "{given}");
            let mut back = stop_order(&specs(given));
            back.reverse();
            assert_eq!(back, order, "{given}");
        }
    }

    #[test]
    fn errors_of_a_graph_name_the_services() {
        let table = [
            ("a:, b: a", "ok"),
            ("web: dbb, db:", "web depends on dbb, and there is no such service"),
            ("a:, b:, a:", "there are two services with the name a"),
            ("a: a", "services wait for each other: a -> a"),
            ("x: a, a: b, b: c, c: a", "services wait for each other: a -> b -> c -> a"),
        ];
        for (given, expected) in table {
            let found = check(&specs(given)).map_or_else(|error| error.to_string(), |()| "ok".into());
            assert_eq!(found, expected, "{given}");
        }
    }

    #[test]
    fn one_failed_dependency_outweighs_pending_ones() {
        let standing = |on: &ServiceName| match on.as_str() {
            "up" => Some(Readiness::Ready),
            "soon" | "later" => Some(Readiness::Pending),
            "down" => Some(Readiness::Failed),
            _ => None,
        };
        let table = [
            ("s:", Dependencies::Ready),
            ("s: up up", Dependencies::Ready),
            ("s: up soon later soon", Dependencies::Waiting(vec![name("soon"), name("later")])),
            ("s: soon down ghost", Dependencies::Failed(name("down"))),
            ("s: ghost down", Dependencies::Failed(name("ghost"))),
        ];
        for (line, expected) in table {
            assert_eq!(dependencies(&spec(line), standing), expected, "{line}");
        }
    }

    /// Services `n0`, `n1`, …, each with the dependencies that `edges` gives by number.
    fn numbered(edges: &[Vec<usize>]) -> Vec<ServiceSpec> {
        let line = |(own, on): (usize, &Vec<usize>)| {
            let on: Vec<_> = on.iter().map(|number| format!("n{number}")).collect();
            spec(&format!("n{own}: {}", on.join(" ")))
        };
        edges.iter().enumerate().map(line).collect()
    }

    fn any_graph() -> impl Strategy<Value = Vec<ServiceSpec>> {
        (1_usize..12)
            .prop_flat_map(|count| {
                prop::collection::vec(prop::collection::vec(0..count, 0..3), count..=count)
            })
            .prop_map(|edges| numbered(&edges))
    }

    fn acyclic_graph() -> impl Strategy<Value = Vec<ServiceSpec>> {
        let edges = prop::collection::vec(prop::collection::vec(any::<prop::sample::Index>(), 0..4), 1..20);
        let graph = edges.prop_map(|edges| {
            let earlier = |(own, on): (usize, Vec<prop::sample::Index>)| match own {
                0 => vec![],
                _ => on.into_iter().map(|index| index.index(own)).collect(),
            };
            numbered(&edges.into_iter().enumerate().map(earlier).collect::<Vec<_>>())
        });
        graph.prop_shuffle()
    }

    proptest! {
        #[test]
        fn every_service_of_a_good_graph_starts_after_what_it_needs(specs in acyclic_graph()) {
            prop_assert_eq!(check(&specs), Ok(()));
            let order = start_order(&specs);
            prop_assert_eq!(order.len(), specs.len());
            let place = |name: &ServiceName| order.iter().position(|other| other == name);
            for spec in &specs {
                for on in &spec.depends_on {
                    prop_assert!(place(on) < place(&spec.name), "{} before {on}", spec.name);
                }
            }
        }

        #[test]
        fn a_graph_is_refused_exactly_when_it_has_a_cycle_and_the_path_is_one(specs in any_graph()) {
            let depends = |from: &ServiceName, on: &ServiceName| {
                specs.iter().any(|spec| spec.name == *from && spec.depends_on.contains(on))
            };
            match check(&specs) {
                Err(GraphError::Cycle { path }) => {
                    prop_assert!(!path.is_empty());
                    for (from, on) in path.iter().zip(path.iter().cycle().skip(1)) {
                        prop_assert!(depends(from, on), "{from} does not depend on {on}");
                    }
                }
                Err(other) => prop_assert!(false, "{other}"),
                Ok(()) => {
                    let reach = reachable(&specs);
                    prop_assert!(specs.iter().enumerate().all(|(own, _)| !reach[own][own]));
                }
            }
        }
    }

    /// Transitive closure by Floyd and Warshall, to compare with.
    fn reachable(specs: &[ServiceSpec]) -> Vec<Vec<bool>> {
        let count = specs.len();
        let direct = |from: usize, to: usize| specs[from].depends_on.contains(&specs[to].name);
        let mut reach: Vec<Vec<bool>> =
            (0..count).map(|from| (0..count).map(|to| direct(from, to)).collect()).collect();
        for middle in 0..count {
            for from in 0..count {
                for to in 0..count {
                    reach[from][to] |= reach[from][middle] && reach[middle][to];
                }
            }
        }
        reach
    }
}
