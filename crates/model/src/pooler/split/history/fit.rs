//! The model's two numbers from what was measured: weighted least squares of `time = work / parts + overhead * parts`.

/// Work and overhead from points `(parts, time, runs)`, in the unit of the times. Errors count as parts of the time, as times vary
/// by percents. With one number of parts only, the overhead is `guess`, or what is less than half the time. Both are never negative.
pub(super) fn fit(points: impl Iterator<Item = (f64, f64, f64)>, guess: f64) -> (f64, f64) {
    // Sums of the normal equations, for the basis functions 1 / n and n.
    let (mut inverse, mut mixed, mut linear) = (0.0, 0.0, 0.0);
    let (mut time_inverse, mut time_linear) = (0.0, 0.0);
    let mut last = None;
    let mut numbers = 0;
    for (parts, time, runs) in points {
        let weight = runs / (time * time).max(1.0);
        inverse += weight / (parts * parts);
        mixed += weight;
        linear += weight * parts * parts;
        time_inverse += weight * time / parts;
        time_linear += weight * time * parts;
        last = Some((parts, time));
        numbers += 1;
    }
    let Some((parts, time)) = last else {
        return (0.0, guess);
    };
    let determinant = inverse * linear - mixed * mixed;
    if numbers < 2 || determinant <= 1e-9 * inverse * linear {
        let overhead = guess.min(time / parts / 2.0);
        return ((time - overhead * parts) * parts, overhead);
    }
    let work = (time_inverse * linear - time_linear * mixed) / determinant;
    let overhead = (time_linear * inverse - time_inverse * mixed) / determinant;
    if overhead < 0.0 {
        (time_inverse / inverse, 0.0)
    } else if work < 0.0 {
        (0.0, time_linear / linear)
    } else {
        (work, overhead)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn finds_what_made_the_points(work in 1e3..1e7_f64, overhead in 1.0..1e4_f64, more in 2_usize..20) {
            let points = [1, 2, more + 1].map(|n| {
                let n = n as f64;
                (n, work / n + overhead * n, 1.0 + n)
            });
            let (fitted_work, fitted_overhead) = fit(points.into_iter(), 0.0);
            prop_assert!((fitted_work / work - 1.0).abs() < 1e-3);
            prop_assert!((fitted_overhead - overhead).abs() < 1e-3 * (work + overhead));
        }

        #[test]
        fn is_never_negative(points in prop::collection::vec((1_u32..100, 1.0..1e6_f64, 0.5..16.0_f64), 0..8)) {
            let points = points.into_iter().map(|(parts, time, runs)| (f64::from(parts), time, runs));
            let (work, overhead) = fit(points, 300.0);
            prop_assert!(work >= 0.0 && overhead >= 0.0 && work.is_finite() && overhead.is_finite());
        }
    }
}
