//! The macro that defines functions of CUDA's libraries.

/// Defines functions of CUDA's libraries: each is exported under its name, `find` can look it up,
/// and injected faults can make it fail.
macro_rules! exported {
    ($($(#[$doc:meta])* fn $name:ident($($arg:ident: $kind:ty),* $(,)?) $body:block)*) => {
        $(
            $(#[$doc])*
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $name($($arg: $kind),*) -> $crate::driver::Status {
                if let Err(error) = $crate::driver::faults(stringify!($name)).strike(stringify!($name)) {
                    return $crate::driver::status(Err(error));
                }
                $body
            }
        )*

        /// Returns the function with this name.
        pub(crate) fn find(name: &str) -> Option<*const std::ffi::c_void> {
            match name {
                $(stringify!($name) => Some($name as *const std::ffi::c_void),)*
                _ => None,
            }
        }
    };
}

pub(crate) use exported;
