//! The state that all rounds of an engine share.

use std::sync::Arc;

use warpseek_cuda::{Device, DeviceError, Kernel};

use super::kernels::Kernels;
use super::shared::fitting;
use crate::image::Masks;
use crate::kernels::advance_terms;
use crate::settings::Settings;

/// The device, the kernels and the settings of an engine's rounds.
#[derive(Clone)]
pub struct RoundSetup {
    pub(crate) device: Device,
    pub(crate) settings: Settings,
    pub(crate) kernels: Kernels,
    /// Kernel that advances terms from one slice of documents to the next.
    pub(crate) advance: Kernel,
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
        Ok(RoundSetup { device, settings, kernels, advance, max_static, masks: Arc::default() })
    }
}
