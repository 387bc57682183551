//! A cache of images by formula. It keeps the formulas requested last, as far as memory allows.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use warpseek_exec::{ExecError, Formula};

use super::error::ImageError;

/// The segments of an index as an engine holds them on the device, for the formulas requested last.
pub struct ImageCache<T> {
    /// Images of each formula, in the order of their last requests.
    images: Mutex<Vec<(Formula, Arc<[T]>)>>,
    /// Lock that is held while an image is created, so that none is created twice. Existing
    /// images can be used at the same time.
    making: Mutex<()>,
    /// Maximum number of formulas.
    most: usize,
}

impl<T> Default for ImageCache<T> {
    /// Creates a cache for one formula: the old image is dropped before another is created,
    /// because both might not fit.
    fn default() -> Self {
        Self::up_to(1)
    }
}

impl<T> ImageCache<T> {
    /// Creates a cache for up to this many formulas, as far as memory allows.
    pub fn up_to(most: usize) -> Self {
        ImageCache { images: Mutex::default(), making: Mutex::default(), most: most.max(1) }
    }

    fn images(&self) -> MutexGuard<'_, Vec<(Formula, Arc<[T]>)>> {
        self.images.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn find(&self, formula: Formula) -> Option<Arc<[T]>> {
        let mut images = self.images();
        let at = images.iter().position(|(known, _)| *known == formula)?;
        let found = images.remove(at);
        images.push(found.clone());
        Some(found.1)
    }

    /// Returns the segments for a formula, and calls `make` if the cache does not have them. If
    /// memory is short, images for other formulas are dropped one after another, and `make` is
    /// called again. Its argument is true if no other image is left.
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
                    // Drop the image outside of the lock: freeing waits for the device.
                    let oldest = self.images().remove(0);
                    drop(oldest);
                }
                Err(error) => return Err(error.into()),
            }
        };
        self.images().push((formula, made.clone()));
        Ok(made)
    }

    /// Returns every image, the one requested last at the end.
    pub fn all(&self) -> Vec<(Formula, Arc<[T]>)> {
        self.images().clone()
    }
}

/// Returns true if there was too little memory.
pub(crate) fn is_short(error: &ImageError) -> bool {
    matches!(error, ImageError::Device(error) if error.is_short())
}
