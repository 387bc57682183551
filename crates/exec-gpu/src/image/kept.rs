use std::sync::{Arc, Mutex, PoisonError};

use warpseek_exec::{ExecError, Formula};

use super::segment::ImageError;

/// The segments of an index as an engine holds them on the device, for the formula requested last.
pub struct Kept<T>(Mutex<Option<(Formula, Arc<[T]>)>>);

impl<T> Default for Kept<T> {
    fn default() -> Self {
        Kept(Mutex::default())
    }
}

impl<T> Kept<T> {
    /// The segments for a formula, built again if the formula differs from the last one.
    pub fn get(
        &self,
        formula: Formula,
        make: impl FnOnce() -> Result<Vec<T>, ImageError>,
    ) -> Result<Arc<[T]>, ExecError> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((of, image)) = &*kept
            && *of == formula
        {
            return Ok(image.clone());
        }
        // The old ones are dropped first, because there may not be room for both.
        *kept = None;
        let made: Arc<[T]> = make()?.into();
        *kept = Some((formula, made.clone()));
        Ok(made)
    }
}
