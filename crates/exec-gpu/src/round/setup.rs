//! The state that all rounds of an engine share.

use std::sync::Arc;

use warpseek_cuda::{Device, DeviceError, Kernel};

use super::kernels::Kernels;
use super::shared::fitting;
use crate::image::Masks;
use crate::kernels::{advance_terms, move_items};
use crate::settings::Settings;

/// The device, the kernels and the settings of an engine's rounds.
#[derive(Clone)]
pub struct RoundSetup {
    pub(crate) device: Device,
    pub(crate) settings: Settings,
    pub(crate) kernels: Kernels,
    /// Kernel that advances terms from one slice of documents to the next.
    pub(crate) advance: Kernel,
    /// Kernel that moves items to the windows of a piece.
    pub(crate) move_items: Kernel,
    /// The largest static score of the index.
    pub(crate) max_static: f32,
    /// Masks of queries on the device.
    pub(crate) masks: Arc<Masks>,
}

impl RoundSetup {
    /// Compiles the kernels, and reduces the settings to what they permit.
    pub(crate) fn new(
        device: Device,
        settings: Settings,
        max_static: f32,
    ) -> Result<Self, DeviceError> {
        let kernels = Kernels::new(&device)?;
        let settings = fitting(settings, &kernels)?;
        let advance = device.kernel(&advance_terms::SOURCE, "advance_terms")?;
        let move_items = device.kernel(&move_items::SOURCE, "move_items")?;
        let masks = Arc::default();
        Ok(RoundSetup { device, settings, kernels, advance, move_items, max_static, masks })
    }
}
