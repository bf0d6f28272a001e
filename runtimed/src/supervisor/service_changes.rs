//! Changes of the set of services. A service whose spec changed, or that is no longer requested, stops first
//! and is replaced or removed once its job is gone; until then `PendingChange` holds what follows.

use super::command::ServiceVerb;
use super::context::Context;
use super::execs::Refusal;
use super::service::{PendingChange, Service};
use super::services::Services;
use crate::core::manifest::{self, Invalid};
use crate::core::service::Input;
use protocol::{ErrorBody, ErrorCode, Fact, ServiceName, ServiceSource, ServiceSpec};
use std::collections::BTreeSet;

impl Services {
    /// Makes the services of one source match the request. Only changed services are touched.
    pub fn apply(
        &mut self,
        context: &mut Context,
        specs: Vec<ServiceSpec>,
        source: ServiceSource,
    ) -> Result<(), Invalid> {
        let asked = || self.table.values().filter_map(Service::requested);
        let others = asked().filter(|(_, other)| *other != source).map(|(spec, _)| spec);
        let all: Vec<ServiceSpec> = others.chain(&specs).cloned().collect();
        manifest::validate_all(&all)?;
        let wanted: BTreeSet<&ServiceName> = specs.iter().map(|spec| &spec.name).collect();
        let own = asked().filter(|(_, other)| *other == source).map(|(spec, _)| &spec.name);
        let gone: Vec<ServiceName> = own.filter(|name| !wanted.contains(name)).cloned().collect();
        for name in gone {
            self.change(context, &name, PendingChange::Remove);
        }
        for spec in specs {
            self.want(context, spec, source);
        }
        self.settle(context);
        Ok(())
    }

    fn want(&mut self, context: &mut Context, spec: ServiceSpec, source: ServiceSource) {
        let name = spec.name.clone();
        match self.table.get_mut(&name) {
            Some(service) if service.requested() == Some((&spec, source)) => {}
            // Requested again while it was being removed or replaced.
            Some(service) if service.spec == spec && service.source == source => {
                service.pending_change = PendingChange::Keep;
                self.input(context, &name, Input::Start);
            }
            Some(_) => {
                let next = PendingChange::Replace { spec: Box::new(spec), source, start: true };
                self.change(context, &name, next);
            }
            None => {
                let log = self.retired.restore(&name);
                self.table.insert(name.clone(), Service::new(spec, source, log));
                self.settle_dependencies_of(context, &name);
                self.input(context, &name, Input::Start);
            }
        }
    }

    fn change(&mut self, context: &mut Context, name: &ServiceName, next: PendingChange) {
        if let Some(service) = self.table.get_mut(name) {
            service.pending_change = next;
            self.input(context, name, Input::Stop);
        }
    }

    /// Handles a verb for a service with a pending change: its old spec is never started again. Whether the
    /// verb was handled.
    pub(super) fn control_during_change(
        &mut self,
        name: &ServiceName,
        verb: ServiceVerb,
    ) -> Result<bool, Refusal> {
        let Some(service) = self.table.get_mut(name) else { return Ok(true) };
        match (&mut service.pending_change, verb) {
            (PendingChange::Keep, _) => Ok(false),
            (PendingChange::Replace { start, .. }, ServiceVerb::Start | ServiceVerb::Restart) => {
                *start = true;
                Ok(true)
            }
            (PendingChange::Replace { start, .. }, ServiceVerb::Stop) => {
                *start = false;
                Ok(true)
            }
            (PendingChange::Remove, ServiceVerb::Stop) => Ok(true),
            (PendingChange::Remove, ServiceVerb::Start | ServiceVerb::Restart) => {
                let message = format!("service {name} is being removed; ask for it again first");
                Err(Box::new(ErrorBody::new(ErrorCode::Conflict, message)))
            }
        }
    }

    /// Replaces or removes a service that has stopped for it.
    pub(super) fn finish_change(&mut self, context: &mut Context, name: &ServiceName) -> bool {
        let Some(service) = self.table.get_mut(name) else { return false };
        if service.machine.has_process() || service.job.is_some() {
            return false;
        }
        match std::mem::replace(&mut service.pending_change, PendingChange::Keep) {
            PendingChange::Keep => false,
            PendingChange::Replace { spec, source, start } => {
                service.spec = *spec;
                service.source = source;
                self.generation += 1;
                // The new spec may have other dependencies.
                self.settle_dependencies_of(context, name);
                if start {
                    self.input(context, name, Input::Start);
                }
                true
            }
            PendingChange::Remove => {
                if let Some(service) = self.table.remove(name) {
                    self.retired.retire(name.clone(), service.log);
                }
                self.generation += 1;
                context.record(Fact::ServiceRemoved { service: name.clone() });
                true
            }
        }
    }
}
