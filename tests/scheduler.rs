//! The scheduler on the embedded broker.
#![cfg(all(feature = "kafka", feature = "embedded"))]

#[path = "support/folder.rs"]
mod folder;
#[path = "support/scheduler.rs"]
mod scheduler;
#[path = "support/schedules.rs"]
mod schedules;

use folder::Folder;
use scheduler::Rig;
use std::time::Duration;

#[tokio::test]
async fn records_come_at_their_times() {
    let (rig, folder) = (Rig::embedded("times", 3).await, Folder::new("times"));
    schedules::delivers(&rig, &folder).await;
}

#[tokio::test]
async fn what_cannot_be_delivered_is_a_dead_letter() {
    let (rig, folder) = (Rig::embedded("dead", 1).await, Folder::new("dead"));
    schedules::refuses(&rig, &folder).await;
}

#[tokio::test]
async fn a_run_is_one_entry() {
    let (rig, folder) = (Rig::embedded("runs", 1).await, Folder::new("runs"));
    schedules::batches_are_entries(&rig, &folder).await;
}

#[tokio::test]
async fn a_restart_loses_nothing() {
    let folder = Folder::new("again");
    let rig = Rig::embedded("again", 2).await;
    schedules::restarts(&rig, [&folder, &folder], 0).await;
}

#[tokio::test]
async fn a_restart_without_the_folder_loses_nothing() {
    let folders = [Folder::new("with"), Folder::new("without")];
    let rig = Rig::embedded("without", 2).await;
    schedules::restarts(&rig, [&folders[0], &folders[1]], 2).await;
}

#[tokio::test]
async fn what_another_owner_has_delivered_is_not_delivered_again() {
    let folders = [Folder::new("mine"), Folder::new("theirs")];
    let folders = [&folders[0], &folders[1]];
    let hours = Duration::from_secs(43_200);
    let rig = Rig::embedded("back", 2).await;
    schedules::comes_back(&rig, folders, hours, 0).await;
}

#[tokio::test]
async fn an_old_index_is_not_gone_on_with() {
    let folders = [Folder::new("old"), Folder::new("new")];
    let folders = [&folders[0], &folders[1]];
    let rig = Rig::embedded("old", 2).await;
    schedules::comes_back(&rig, folders, Duration::ZERO, 2).await;
}
