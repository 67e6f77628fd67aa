//! Enums whose values are written by name.

/// Declares such an enum: `names! { pub enum Order { First => "first", Last => "last" } }`.
#[macro_export]
macro_rules! names {
    ($(#[$of_type:meta])* pub enum $type:ident {
        $($(#[$of_variant:meta])* $variant:ident => $name:literal),+ $(,)?
    }) => {
        $(#[$of_type])*
        pub enum $type { $($(#[$of_variant])* $variant),+ }

        impl $type {
            /// All values, in the order of the manual.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// Its name in configuration, on the command line, in metrics and logs.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name),+ }
            }

            /// The value with this name.
            pub fn from_name(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|value| value.name() == name)
            }
        }
    };
}
