use std::sync::{Arc, Mutex, PoisonError};

use warpseek_exec::{ExecError, Formula};

use super::segment::ImageError;

/// The segments of an index as an engine has them on the device, for the formula that was last asked for.
pub struct Kept<T>(Mutex<Option<(Formula, Arc<[T]>)>>);

impl<T> Default for Kept<T> {
    fn default() -> Self {
        Kept(Mutex::default())
    }
}

impl<T> Kept<T> {
    /// Those for a formula, made anew if it is another one.
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
        // The old one goes first: there may be no room for two.
        *kept = None;
        let made: Arc<[T]> = make()?.into();
        *kept = Some((formula, made.clone()));
        Ok(made)
    }
}
