//! Tests with both Helm majors.

/// Makes of each function a test that runs it with both majors.
macro_rules! with_both_majors {
    ($($case:ident),* $(,)?) => {
        mod with_both_majors {
            $(
                #[tokio::test]
                async fn $case() {
                    let world = crate::support::World::new();
                    for helm in &crate::helm::both(&world).await {
                        super::$case(helm);
                    }
                }
            )*
        }
    };
}
