//! Before the group is joined: which topics, are they there, do they fit?

use super::check::{Remedy, Severity, TopicProblem, check};
use super::command::Commands;
use super::need::{LetterNeeds, TopicNeed, TopicUse, needs};
use super::own::OwnTopics;
use super::subscription::{Resolved, Subscription};
use crate::error::{Error, Result};
use crate::pipeline::observer::{PipelineEvent, PipelineObserver};
use crate::pipeline::topic_keys::{TopicCheck, TopicCreate};
use crate::transport::Settings;
use crate::transport::kafka::{NewTopic, TopicAdmin, TopicCreation, TopicFound};
use std::collections::BTreeSet;
use std::time::Duration;

/// How long the brokers may take to answer.
const ANSWER: Duration = Duration::from_secs(10);

/// How often, and how long apart, a new topic is looked for: brokers learn of it one by one.
const APPEARS: (u32, Duration) = (25, Duration::from_millis(200));

/// What a pipeline's settings say of its topics.
#[derive(Debug)]
pub(in crate::pipeline) struct TopicPlan {
    pub(super) subscription: Subscription,
    pub(super) own: OwnTopics,
    pub(super) check: TopicCheck,
    pub(super) create: TopicCreate,
    pub(super) template: String,
    pub(super) group: String,
    pub(super) dialects: usize,
    pub(super) routed: bool,
    pub(super) source_timestamps: bool,
    pub(super) retries: Option<Vec<(String, Duration)>>,
}

/// The topics as they were found.
pub(in crate::pipeline) struct Prepared {
    /// To be subscribed to.
    pub(in crate::pipeline) topics: BTreeSet<String>,
    /// Whether that is so, or what was known while the brokers did not answer.
    pub(super) found: bool,
    /// Those of them that were looked at.
    pub(super) examined: BTreeSet<String>,
    /// What was told to be left out.
    pub(super) left_out: BTreeSet<String>,
    pub(super) admin: Option<TopicAdmin>,
}

impl TopicPlan {
    /// Refuses what is wrong whatever the cluster says.
    pub(in crate::pipeline) fn new(
        topics: &[String],
        check: (TopicCheck, TopicCreate),
        letters: &LetterNeeds<'_>,
    ) -> Result<Self> {
        let own = OwnTopics::new(letters.template, letters.group)?;
        let mut subscription = Subscription::new(topics)?;
        if let Some(delays) = letters.delays() {
            subscription = subscription.with_retries(letters.group, delays)?;
        }
        subscription.check_dead_letters(letters.template, &own, letters.group)?;
        Ok(TopicPlan {
            subscription,
            own,
            check: check.0,
            create: check.1,
            template: letters.template.to_owned(),
            group: letters.group.to_owned(),
            dialects: letters.dialects,
            routed: letters.routed,
            source_timestamps: letters.source_timestamps,
            retries: letters.retries.clone(),
        })
    }

    /// Finds the topics and looks at them. Brokers that do not answer are no reason not to start: then
    /// those are subscribed to that are given by name, and it is tried [again](Self::watch).
    ///
    /// # Errors
    /// Kind Config with all problems and the commands that mend them, where there is an error among
    /// them.
    pub(in crate::pipeline) async fn prepare(
        &self,
        client: &Settings,
        observer: &dyn PipelineObserver,
    ) -> Result<Prepared> {
        let mut prepared = Prepared {
            topics: self.subscription.resolve([], &self.own).topics,
            found: false,
            examined: BTreeSet::new(),
            left_out: BTreeSet::new(),
            admin: None,
        };
        if !self.looks() && !self.subscription.has_patterns() {
            return Ok(prepared);
        }
        let admin = &*prepared
            .admin
            .insert(TopicAdmin::start(client, ANSWER).await?);
        match self.find(admin).await {
            Ok(resolved) => {
                tell_left_out(&resolved, &mut prepared.left_out, observer);
                prepared.topics = resolved.topics;
                prepared.found = true;
            }
            Err(error) => {
                observer.event(&PipelineEvent::Warning(&error));
                return Ok(prepared);
            }
        }
        let commands = Commands::of(client);
        match self
            .examine(admin, &prepared.topics, &commands, observer)
            .await
        {
            Ok(problems) => {
                self.refuse(&problems, &commands)?;
                prepared.examined.clone_from(&prepared.topics);
            }
            Err(error) => observer.event(&PipelineEvent::Warning(&error)),
        }
        Ok(prepared)
    }

    /// Whether topics are looked at, or created.
    pub(super) fn looks(&self) -> bool {
        self.check != TopicCheck::Off || self.create != TopicCreate::Never
    }

    /// What there is to read.
    pub(super) async fn find(&self, admin: &TopicAdmin) -> Result<Resolved> {
        let existing = match self.subscription.has_patterns() {
            true => admin.list().await?,
            false => Vec::new(),
        };
        let existing = existing.iter().map(String::as_str);
        Ok(self.subscription.resolve(existing, &self.own))
    }

    /// Looks at these topics and at those that they need, creates what may be created, and tells.
    pub(super) async fn examine(
        &self,
        admin: &TopicAdmin,
        topics: &BTreeSet<String>,
        commands: &Commands,
        observer: &dyn PipelineObserver,
    ) -> Result<Vec<TopicProblem>> {
        if !self.looks() || topics.is_empty() {
            return Ok(Vec::new());
        }
        let letters = LetterNeeds {
            template: &self.template,
            group: &self.group,
            dialects: self.dialects,
            routed: self.routed,
            source_timestamps: self.source_timestamps,
            retries: self.retries.clone(),
        };
        let sources = topics.iter().filter(|name| !letters.is_retries(name));
        let sources: Vec<String> = sources.cloned().collect();
        let sources = admin.describe(&sources).await?;
        let needs = needs(&sources, &letters);
        let names: Vec<String> = needs.iter().map(|need| need.name.clone()).collect();
        let mut found = admin.describe(&names).await?;
        let mut problems = Vec::new();
        if self.create == TopicCreate::Missing {
            let missing =
                check(&needs, &found)
                    .into_iter()
                    .filter_map(|problem| match problem.remedy {
                        Some(Remedy::Create(topic)) => Some(topic),
                        _ => None,
                    });
            let missing: Vec<NewTopic> = missing.collect();
            if !missing.is_empty() {
                problems.extend(create(admin, &missing, observer).await?);
                found = appeared(admin, &names).await?;
            }
        }
        let source = |name: &String| TopicNeed::new(name, TopicUse::Source, Severity::Warning);
        let read: Vec<TopicNeed> = sources.iter().map(|found| source(&found.name)).collect();
        problems.extend(check(&read, &sources));
        problems.extend(check(&needs, &found));
        if self.check == TopicCheck::Off {
            problems.clear();
        }
        for problem in &problems {
            let command = commands.command(problem);
            observer.event(&PipelineEvent::TopicProblem {
                problem,
                command: command.as_deref(),
            });
        }
        Ok(problems)
    }

    fn refuse(&self, problems: &[TopicProblem], commands: &Commands) -> Result<()> {
        let is_error = |problem: &TopicProblem| problem.severity == Severity::Error;
        if self.check != TopicCheck::Refuse || !problems.iter().any(is_error) {
            return Ok(());
        }
        let told: Vec<String> = problems
            .iter()
            .map(|problem| commands.tell(problem))
            .collect();
        Err(Error::config(format!(
            "topics do not fit (topics.check=warn starts all the same, topics.create=missing creates \
             those that do not exist):\n{}",
            told.join("\n")
        )))
    }
}

/// Tells of each topic once, as long as it is left out.
pub(super) fn tell_left_out(
    resolved: &Resolved,
    told: &mut BTreeSet<String>,
    observer: &dyn PipelineObserver,
) {
    for (topic, kind) in &resolved.left_out {
        if told.insert(topic.clone()) {
            observer.event(&PipelineEvent::TopicLeftOut { topic, kind: *kind });
        }
    }
    told.retain(|topic| resolved.left_out.iter().any(|(left, _)| left == topic));
}

async fn create(
    admin: &TopicAdmin,
    topics: &[NewTopic],
    observer: &dyn PipelineObserver,
) -> Result<Vec<TopicProblem>> {
    let results = admin.create(topics).await?;
    let mut problems = Vec::new();
    for (topic, result) in topics.iter().zip(results) {
        match result {
            TopicCreation::Created => observer.event(&PipelineEvent::TopicCreated(topic)),
            // Another member was quicker.
            TopicCreation::Existed => {}
            TopicCreation::Denied => {
                let why = "it could not be created";
                problems.push(TopicProblem::right(&topic.name, "Create", why));
            }
            TopicCreation::Failed(error) => {
                let message = error.message().to_owned();
                problems.push(TopicProblem::new(&topic.name, Severity::Warning, message));
            }
        }
    }
    Ok(problems)
}

/// Looks until none is missing, or for long enough.
async fn appeared(admin: &TopicAdmin, names: &[String]) -> Result<Vec<TopicFound>> {
    let (times, apart) = APPEARS;
    let mut found = admin.describe(names).await?;
    for _ in 0..times {
        if found.iter().all(|topic| topic.details().is_some()) {
            break;
        }
        tokio::time::sleep(apart).await;
        found = admin.describe(names).await?;
    }
    Ok(found)
}
