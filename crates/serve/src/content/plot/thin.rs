//! A series as strokes of a pen: with no more points than can be told apart, lifted where there is no data.

/// A time in milliseconds, and the value then.
pub(super) type Point = (i64, f64);

/// As many points are drawn at most: the lowest and the highest of each column.
pub(super) const POINTS_MAX: usize = 2 * COLUMNS;
const COLUMNS: usize = 300;

/// What is drawn.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Thinned {
    /// Points to connect, at least one in each.
    pub(super) strokes: Vec<Vec<Point>>,
    /// Between which times there is no value.
    pub(super) gaps: Vec<(i64, i64)>,
}

/// All points of one column.
struct Column {
    first: i64,
    last: i64,
    low: Point,
    high: Point,
}

impl Column {
    fn of(point: Point) -> Self {
        Self {
            first: point.0,
            last: point.0,
            low: point,
            high: point,
        }
    }

    fn add(&mut self, point: Point) {
        self.last = point.0;
        if point.1 < self.low.1 {
            self.low = point;
        }
        if point.1 > self.high.1 {
            self.high = point;
        }
    }

    fn points(&self) -> impl Iterator<Item = Point> {
        let (first, second) = if self.low.0 <= self.high.0 {
            (self.low, self.high)
        } else {
            (self.high, self.low)
        };
        let second = (second != first).then_some(second);
        std::iter::once(first).chain(second)
    }
}

/// The strokes of points in order of time, of which two that are more than `limit` apart are not connected.
pub(super) fn thin(points: &[Point], (from, to): (i64, i64), limit: i64) -> Thinned {
    let mut thinned = Thinned::default();
    let mut before = from;
    for column in columns(points, from, to) {
        let is_gap = column.first - before > limit;
        if is_gap {
            thinned.gaps.push((before, column.first));
        }
        match thinned.strokes.last_mut() {
            Some(stroke) if !is_gap => stroke.extend(column.points()),
            _ => thinned.strokes.push(column.points().collect()),
        }
        before = column.last;
    }
    if to - before > limit {
        thinned.gaps.push((before, to));
    }
    thinned
}

fn columns(points: &[Point], from: i64, to: i64) -> Vec<Column> {
    if points.len() <= POINTS_MAX {
        return points.iter().map(|point| Column::of(*point)).collect();
    }
    let mut columns: Vec<(usize, Column)> = Vec::with_capacity(COLUMNS);
    for point in points {
        let at = column(point.0, (from, to), COLUMNS);
        match columns.last_mut() {
            Some((last, column)) if *last == at => column.add(*point),
            _ => columns.push((at, Column::of(*point))),
        }
    }
    columns.into_iter().map(|(_, column)| column).collect()
}

/// In which of `count` equal columns a time is.
pub(super) fn column(at: i64, (from, to): (i64, i64), count: usize) -> usize {
    let (at, span) = (i128::from(at - from), i128::from((to - from).max(1)));
    let last = count.saturating_sub(1);
    let count = i128::try_from(count).unwrap_or(i128::MAX);
    usize::try_from(at * count / span).unwrap_or(0).min(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_points_are_drawn_as_they_are_and_not_across_gaps() {
        let points = [(10, 1.0), (20, 2.0), (60, 3.0), (70, 4.0)];
        let thinned = thin(&points, (0, 100), 10);
        assert_eq!(
            thinned.strokes,
            [vec![(10, 1.0), (20, 2.0)], vec![(60, 3.0), (70, 4.0)]]
        );
        assert_eq!(thinned.gaps, [(20, 60), (70, 100)]);
        assert_eq!(thin(&[], (0, 100), 10).gaps, [(0, 100)]);
        assert_eq!(thin(&points, (0, 100), 100).gaps, []);
    }

    #[test]
    fn many_points_keep_their_extremes_their_order_and_their_gaps() {
        let mut points: Vec<Point> = (0..100_000).map(|at| (at, 5.0)).collect();
        points[77_777].1 = 99.0;
        points[77_801].1 = -3.0;
        points.retain(|(at, _)| !(20_000..40_000).contains(at));
        let thinned = thin(&points, (0, 100_000), 10);
        assert_eq!(thinned.gaps, [(19_999, 40_000)]);
        assert_eq!(thinned.strokes.len(), 2);
        let drawn: Vec<Point> = thinned.strokes.into_iter().flatten().collect();
        assert!(drawn.len() <= POINTS_MAX, "{}", drawn.len());
        assert!(drawn.contains(&(77_777, 99.0)) && drawn.contains(&(77_801, -3.0)));
        assert!(drawn.is_sorted_by_key(|(at, _)| *at));
    }

    #[test]
    fn every_time_is_in_a_column() {
        let span = (100, 200);
        assert_eq!(
            [100, 149, 150, 199, 200, 99].map(|at| column(at, span, 2)),
            [0, 0, 1, 1, 1, 0]
        );
        assert_eq!(column(5, (5, 5), 10), 0);
        assert_eq!(column(i64::MAX, (0, i64::MAX), 10), 9);
    }
}
