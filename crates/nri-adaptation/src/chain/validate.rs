//! Validation: all validators at once, on the container as it was and what is to change. They
//! fail closed.

use std::sync::Arc;

use longshore_nri_api::{
    Event, PodSandbox, ValidateContainerAdjustmentRequest, ValidateContainerAdjustmentResponse,
    event_name,
};

use super::create::{Evidence, instance};
use super::{Passage, join_all};
use crate::error::RequestError;
use crate::merge::{Compat, Creation};
use crate::plugin::{Asked, Payload, Plugin};
use crate::runtime::BoxFuture;

/// The request without a reason that a validator has to give.
const NO_REASON: &str = "unknown rejection reason";

impl Passage<'_> {
    /// Has every validator judge the creation. The first refusal in their order counts; all are
    /// waited for.
    pub(super) async fn validate(
        &self,
        pod: Option<PodSandbox>,
        created: Creation,
        evidence: Evidence,
    ) -> Result<Creation, RequestError> {
        let plugins = self
            .consulted(&evidence)
            .iter()
            .map(|plugin| instance(plugin))
            .collect();
        let request = ValidateContainerAdjustmentRequest {
            pod,
            container: evidence.pristine,
            adjust: Some(created.adjustment.clone()),
            update: created.updates.clone(),
            owners: Some(created.owners.clone()),
            plugins,
        };
        let body = Payload::of(&request).0;
        let judging = evidence.validators.iter().map(|validator| {
            let (request, body) = (&request, body.clone());
            let judged: BoxFuture<'_, _> = Box::pin(async move {
                let event = Event::ValidateContainerAdjustment;
                let call =
                    validator.call(|| body, || request.clone(), self.terms(validator, event));
                let (operation, deadline) = (event_name(event), self.options.deadline);
                let ticket = self.ticket.clone();
                let asked = validator
                    .ask(self.core, operation, call, deadline, ticket)
                    .await;
                self.verdict(validator, asked)
            });
            judged
        });
        let verdicts = join_all(judging.collect()).await;
        verdicts.into_iter().collect::<Result<(), _>>()?;
        Ok(created)
    }

    /// Those that answered CreateContainer, and those that judge now, in their order. Go counts
    /// all that are active, also those that just failed.
    fn consulted(&self, evidence: &Evidence) -> Vec<Arc<Plugin>> {
        if self.core.settings.compat == Compat::GoAdaptation {
            return self.core.registry.roster().active.clone();
        }
        let mut plugins = evidence.answered.clone();
        for validator in &evidence.validators {
            if !plugins.iter().any(|plugin| Arc::ptr_eq(plugin, validator)) {
                plugins.push(Arc::clone(validator));
            }
        }
        plugins.sort_by(|one, other| one.order().cmp(&other.order()));
        plugins
    }

    fn verdict(
        &self,
        validator: &Plugin,
        asked: Asked<ValidateContainerAdjustmentResponse>,
    ) -> Result<(), RequestError> {
        let name = || validator.name.to_string();
        match asked {
            Asked::Answer(answer) if !answer.reject => Ok(()),
            Asked::Answer(answer) => Err(RequestError::Rejected {
                validator: name(),
                reason: match answer.reason {
                    reason if reason.is_empty() => NO_REASON.to_owned(),
                    reason => reason,
                },
            }),
            Asked::Failed(_) if self.core.registry.is_shut() => Err(RequestError::Shutdown),
            Asked::Failed(failure) => Err(RequestError::Validator {
                validator: name(),
                failure,
            }),
            Asked::GivenUp => Err(RequestError::Deadline {
                operation: event_name(Event::ValidateContainerAdjustment),
                waiting: format!("validator {:?} was asked", &*validator.name),
            }),
        }
    }
}
