//! How the set of services changes. A service whose spec changed, or that is not asked for any more, stops
//! first and is replaced or removed once its job is gone; until then `Next` says what becomes of it.

use super::command::ServiceVerb;
use super::context::Context;
use super::execs::Refusal;
use super::service::{Next, Service};
use super::services::Services;
use crate::core::manifest::{self, Invalid};
use crate::core::service::Input;
use protocol::{ErrorBody, ErrorCode, Fact, ServiceName, ServiceSource, ServiceSpec};
use std::collections::BTreeSet;

impl Services {
    /// Makes the services of one source what is asked for. Only what changed is touched.
    pub fn apply(
        &mut self,
        context: &mut Context,
        specs: Vec<ServiceSpec>,
        source: ServiceSource,
    ) -> Result<(), Invalid> {
        let asked = || self.table.values().filter_map(Service::asked_for);
        let others = asked().filter(|(_, other)| *other != source).map(|(spec, _)| spec);
        let all: Vec<ServiceSpec> = others.chain(&specs).cloned().collect();
        manifest::validate_all(&all)?;
        let wanted: BTreeSet<&ServiceName> = specs.iter().map(|spec| &spec.name).collect();
        let own = asked().filter(|(_, other)| *other == source).map(|(spec, _)| &spec.name);
        let gone: Vec<ServiceName> = own.filter(|name| !wanted.contains(name)).cloned().collect();
        for name in gone {
            self.change(context, &name, Next::Remove);
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
            Some(service) if service.asked_for() == Some((&spec, source)) => {}
            // Asked for again while it was on its way out.
            Some(service) if service.spec == spec && service.source == source => {
                service.next = Next::Keep;
                self.input(context, &name, Input::Start);
            }
            Some(_) => {
                let next = Next::Replace { spec: Box::new(spec), source, start: true };
                self.change(context, &name, next);
            }
            None => {
                let log = self.retired.take(&name);
                self.table.insert(name.clone(), Service::new(spec, source, log));
                self.settle_dependencies_of(context, &name);
                self.input(context, &name, Input::Start);
            }
        }
    }

    fn change(&mut self, context: &mut Context, name: &ServiceName, next: Next) {
        if let Some(service) = self.table.get_mut(name) {
            service.next = next;
            self.input(context, name, Input::Stop);
        }
    }

    /// What a verb means to a service that is on its way out: its old self is never started again. Whether
    /// that was all.
    pub(super) fn verb_during_change(
        &mut self,
        name: &ServiceName,
        verb: ServiceVerb,
    ) -> Result<bool, Refusal> {
        let Some(service) = self.table.get_mut(name) else { return Ok(true) };
        match (&mut service.next, verb) {
            (Next::Keep, _) => Ok(false),
            (Next::Replace { start, .. }, ServiceVerb::Start | ServiceVerb::Restart) => {
                *start = true;
                Ok(true)
            }
            (Next::Replace { start, .. }, ServiceVerb::Stop) => {
                *start = false;
                Ok(true)
            }
            (Next::Remove, ServiceVerb::Stop) => Ok(true),
            (Next::Remove, ServiceVerb::Start | ServiceVerb::Restart) => {
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
        match std::mem::replace(&mut service.next, Next::Keep) {
            Next::Keep => false,
            Next::Replace { spec, source, start } => {
                service.spec = *spec;
                service.source = source;
                self.generation += 1;
                // It may depend on others than before.
                self.settle_dependencies_of(context, name);
                if start {
                    self.input(context, name, Input::Start);
                }
                true
            }
            Next::Remove => {
                if let Some(service) = self.table.remove(name) {
                    self.retired.keep(name.clone(), service.log);
                }
                self.generation += 1;
                context.tell(Fact::ServiceRemoved { service: name.clone() });
                true
            }
        }
    }
}
