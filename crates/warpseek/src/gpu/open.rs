//! Opening the GPUs that the options of a searcher list.

use std::sync::Arc;

use warpseek_cuda::{Device, DeviceError};
use warpseek_exec::Formulas;
use warpseek_exec_gpu::Residence;

use crate::options::{DeviceChoice, SearcherOptions};

/// A GPU, and the part of the index that it holds, which snapshots share.
#[derive(Clone)]
pub(crate) struct OpenGpu {
    pub(crate) device: Device,
    pub(crate) residence: Arc<Residence>,
}

/// Opens the GPUs that the options ask for. If the library may choose and they cannot be opened,
/// returns the reason.
pub(crate) fn open(
    options: &SearcherOptions,
) -> Result<(Vec<OpenGpu>, Option<String>), DeviceError> {
    if options.device == DeviceChoice::Cpu {
        return Ok((Vec::new(), None));
    }
    match open_all(options) {
        Ok(gpus) => Ok((gpus, None)),
        Err(error) if options.device == DeviceChoice::Auto => {
            Ok((Vec::new(), Some(error.to_string())))
        }
        Err(error) => Err(error),
    }
}

/// Returns the reason why no GPU can answer any query over an index, if there is one.
pub(crate) fn unfit(formulas: &Formulas) -> Option<String> {
    let fields = formulas.fields();
    (fields > 1).then(|| {
        format!("the index has {fields} text fields, but a GPU searches only indexes with one")
    })
}

/// Opens all GPUs that the options list.
pub(crate) fn open_all(options: &SearcherOptions) -> Result<Vec<OpenGpu>, DeviceError> {
    let open = |&number: &u32| {
        let device = (options.open)(number, options.gpu_memory)?;
        Ok(OpenGpu { device, residence: Arc::default() })
    };
    options.gpus.iter().map(open).collect()
}
