//! Arguments that several commands share. They do not depend on any command.

mod build_device;
mod deadline;
mod device;
mod document_ids;
mod inputs;
mod log;
mod on_error;
mod protection;
mod query;
mod reading;
mod research;
mod searching;
mod share;
mod store;
mod terms;
mod topics;

pub(crate) use build_device::BuildDeviceOptions;
pub(crate) use deadline::Deadline;
pub(crate) use device::{DeviceName, DeviceOptions};
pub(crate) use document_ids::DocumentIds;
pub(crate) use inputs::Inputs;
pub(crate) use log::LogChoice;
pub(crate) use on_error::{BadQuery, BadRecord};
pub(crate) use protection::Protection;
pub(crate) use query::QueryChoice;
pub(crate) use reading::Reading;
pub(crate) use research::RESEARCH;
pub(crate) use searching::Searching;
pub(crate) use share::parse_share;
pub(crate) use store::StoreChoice;
pub(crate) use terms::Terms;
pub(crate) use topics::Topics;
