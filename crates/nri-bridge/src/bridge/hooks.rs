//! Each moment of a container, as its runner tells it.

use longshore_engine::Resources;
use longshore_nri_adaptation::{Adaptation, RequestOptions};
use longshore_nri_api::{CreateContainerRequest, UpdateContainerRequest};
use longshore_task_spec::hooks::{
    ContainerHooks, Draft, FoundContainer, HookContainer, HookError, HookFuture,
};

use super::{Bridge, Entry, now, state_of};
use crate::resources::{self, When};
use crate::{Judge, Life, Moment, Refusal, Told, adjust};

impl Bridge {
    async fn create(&self, who: &HookContainer, draft: Draft) -> Result<Draft, HookError> {
        let nri = self.there().await?;
        // What is left of an earlier one of this id ends first.
        let before = self.step(&who.id, Moment::Removed, |_| {});
        if let Some((entry, told)) = before {
            self.tell(&nri, &entry, &told).await;
        }
        let mut entry = self.new_entry(who, &draft);
        let told = entry.life.step(Moment::Create);
        self.entries().insert(who.id.clone(), entry.clone());
        match self.ask(&nri, who, &entry, &told, draft).await {
            Ok(draft) => Ok(draft),
            Err(error) => {
                // Where plugins took it and it cannot be had, they learn that it is no more.
                if let Some((entry, told)) = self.step(&who.id, Moment::Removed, |_| {}) {
                    self.tell(&nri, &entry, &told).await;
                }
                Err(error)
            }
        }
    }

    async fn ask(
        &self,
        nri: &Adaptation,
        who: &HookContainer,
        entry: &Entry,
        told: &[Told],
        draft: Draft,
    ) -> Result<Draft, HookError> {
        debug_assert_eq!(told, [Told::RunPodSandbox, Told::CreateContainer]);
        let options = RequestOptions::default();
        let pod = nri.run_pod_sandbox(&entry.pod, &options).await;
        pod.map_err(|error| refused(&error))?;
        let request = CreateContainerRequest {
            pod: Some(entry.pod.clone()),
            container: Some(entry.container.clone()),
        };
        let created = nri.create_container(request, &options).await;
        let created = created.map_err(|error| refused(&error))?;
        // Its removal is told from here on.
        let _accepted = self.step(&who.id, Moment::Accepted, |_| {});
        let judge = Judge::of_chain(&created.owners, &who.id);
        let host = self.shared.options.devices.as_ref();
        let draft = match draft {
            Draft::Engine(spec) => adjust::engine(*spec, &created.adjustment, &judge, host)
                .map(|spec| Draft::Engine(Box::new(spec))),
            Draft::Process(draft) => adjust::process(*draft, &created.adjustment, &judge, host)
                .map(|draft| Draft::Process(Box::new(draft))),
            other => Ok(other),
        };
        let draft = draft.map_err(|refusal: Refusal| refused(&refusal))?;
        let adjusted = self.new_entry(who, &draft);
        if let Some(entry) = self.entries().get_mut(&who.id) {
            entry.container = adjusted.container;
            entry.resources = adjusted.resources;
        }
        self.carry_out(created.updates, created.evictions).await;
        Ok(draft)
    }

    async fn there(&self) -> Result<Adaptation, HookError> {
        let gone = || HookError::Unavailable {
            reason: "NRI plugins are not served any more".to_owned(),
        };
        self.nri().await.ok_or_else(gone)
    }

    /// A moment that is only told.
    async fn moment(
        &self,
        who: &HookContainer,
        moment: Moment,
        change: impl FnOnce(&mut Entry) + Send,
    ) -> Result<(), HookError> {
        let nri = self.there().await?;
        let stepped = self.step(&who.id, moment, |entry| {
            entry.container.state = state_of(entry.life).into();
            change(entry);
        });
        if let Some((entry, told)) = stepped {
            self.tell(&nri, &entry, &told).await;
        }
        Ok(())
    }

    async fn update(&self, who: &HookContainer, wanted: Resources) -> Result<Resources, HookError> {
        let nri = self.there().await?;
        let Some((entry, told)) = self.step(&who.id, Moment::Updating, |_| {}) else {
            return Ok(wanted);
        };
        if told.is_empty() {
            return Ok(wanted);
        }
        let request = UpdateContainerRequest {
            pod: Some(entry.pod),
            container: Some(entry.container),
            linux_resources: Some(resources::to_nri(&wanted)),
        };
        let options = RequestOptions::default();
        let change = nri.update_container(request, &options).await;
        let change = change.map_err(|error| refused(&error))?;
        let mut changed = wanted;
        let judge = Judge::of_nobody();
        resources::apply(&mut changed, &change.requested, &judge, When::Update)
            .map_err(|refusal| refused(&refusal))?;
        self.carry_out(change.updates, change.evictions).await;
        Ok(changed)
    }
}

fn refused(error: &dyn std::error::Error) -> HookError {
    HookError::Refused {
        reason: error.to_string(),
    }
}

impl ContainerHooks for Bridge {
    fn found(&self, container: &HookContainer, found: FoundContainer) {
        let mut entry = self.new_entry(container, &found.draft);
        entry.life = if found.ended {
            Life::Stopped
        } else if found.running {
            Life::Running
        } else {
            Life::Created
        };
        entry.container.state = state_of(entry.life).into();
        entry.container.pid = found.pid.unwrap_or_default();
        entry.container.created_at = 0;
        self.entries().insert(container.id.clone(), entry);
    }

    fn create<'a>(&'a self, container: &'a HookContainer, draft: Draft) -> HookFuture<'a, Draft> {
        Box::pin(self.create(container, draft))
    }

    fn created<'a>(&'a self, container: &'a HookContainer) -> HookFuture<'a, ()> {
        Box::pin(self.moment(container, Moment::Created, |_| {}))
    }

    fn starting<'a>(&'a self, container: &'a HookContainer) -> HookFuture<'a, ()> {
        Box::pin(self.moment(container, Moment::Starting, |_| {}))
    }

    fn started<'a>(&'a self, container: &'a HookContainer, pid: u32) -> HookFuture<'a, ()> {
        Box::pin(self.moment(container, Moment::Started, move |entry| {
            entry.container.pid = pid;
            if entry.container.started_at == 0 {
                entry.container.started_at = now();
            }
        }))
    }

    fn updating<'a>(
        &'a self,
        container: &'a HookContainer,
        resources: Resources,
    ) -> HookFuture<'a, Resources> {
        Box::pin(self.update(container, resources))
    }

    fn updated<'a>(
        &'a self,
        container: &'a HookContainer,
        resources: &'a Resources,
    ) -> HookFuture<'a, ()> {
        Box::pin(self.moment(container, Moment::Updated, |entry| entry.has_now(resources)))
    }

    fn stopped<'a>(&'a self, container: &'a HookContainer) -> HookFuture<'a, ()> {
        Box::pin(self.moment(container, Moment::Stopped, |entry| {
            if entry.container.finished_at == 0 {
                entry.container.finished_at = now();
            }
        }))
    }

    fn removed<'a>(&'a self, container: &'a HookContainer) -> HookFuture<'a, ()> {
        Box::pin(self.moment(container, Moment::Removed, |_| {}))
    }
}
