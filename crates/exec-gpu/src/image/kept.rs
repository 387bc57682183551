use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use warpseek_exec::{ExecError, Formula};

use super::error::ImageError;

/// The segments of an index as an engine holds them on the device, for the formulas requested last.
pub struct Kept<T> {
    /// The formula requested last comes last.
    images: Mutex<Vec<(Formula, Arc<[T]>)>>,
    /// Held while an image is made, so that nothing is made twice; images that exist are used meanwhile.
    making: Mutex<()>,
    /// The most formulas that it keeps.
    most: usize,
}

impl<T> Default for Kept<T> {
    /// For one formula: the old image is dropped before another is made, because there may not be room for both.
    fn default() -> Self {
        Self::up_to(1)
    }
}

impl<T> Kept<T> {
    /// For up to this many formulas, as far as there is room.
    pub fn up_to(most: usize) -> Self {
        Kept { images: Mutex::default(), making: Mutex::default(), most: most.max(1) }
    }

    fn images(&self) -> MutexGuard<'_, Vec<(Formula, Arc<[T]>)>> {
        self.images.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn find(&self, formula: Formula) -> Option<Arc<[T]>> {
        let mut images = self.images();
        let at = images.iter().position(|(of, _)| *of == formula)?;
        let found = images.remove(at);
        images.push(found.clone());
        Some(found.1)
    }

    /// The segments for a formula, made if they are not there. Where there is no room, images for other formulas are dropped first; `make` is
    /// told if there are none.
    pub fn get(
        &self,
        formula: Formula,
        make: impl Fn(bool) -> Result<Vec<T>, ImageError>,
    ) -> Result<Arc<[T]>, ExecError> {
        if let Some(image) = self.find(formula) {
            return Ok(image);
        }
        let _making = self.making.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(image) = self.find(formula) {
            return Ok(image);
        }
        let surplus = self.images().len().saturating_sub(self.most - 1);
        drop(self.images().drain(..surplus).collect::<Vec<_>>());
        let made: Arc<[T]> = loop {
            let alone = self.images().is_empty();
            match make(alone) {
                Ok(made) => break made.into(),
                Err(error) if is_short(&error) && !alone => {
                    // Outside of the lock: freeing waits for the device.
                    let oldest = self.images().remove(0);
                    drop(oldest);
                }
                Err(error) => return Err(error.into()),
            }
        };
        self.images().push((formula, made.clone()));
        Ok(made)
    }

    /// Every image that is there, the one requested last at the end.
    pub fn all(&self) -> Vec<(Formula, Arc<[T]>)> {
        self.images().clone()
    }
}

/// Whether there was too little memory.
pub(crate) fn is_short(error: &ImageError) -> bool {
    matches!(error, ImageError::Device(error) if error.is_short())
}
