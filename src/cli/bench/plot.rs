//! The picture of a run: throughput over time, and latency by percentile.

use std::path::Path;

use hdrhistogram::Histogram;
use plotters::coord::Shift;
use plotters::prelude::*;

use super::super::failure::Failure;
use super::figures::Series;
use super::report::Report;

const SIZE: (u32, u32) = (900, 760);
const FONT: &str = "sans-serif";
const CONFIRMED: RGBColor = RGBColor(31, 119, 180);
const DELIVERED: RGBColor = RGBColor(214, 95, 14);
const ACKED: RGBColor = RGBColor(44, 140, 60);
/// How many points a line of percentiles has between two nines.
const POINTS_PER_NINE: i32 = 16;

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawn = Result<(), Box<dyn std::error::Error>>;

/// Draws it into a file.
pub(super) fn draw(report: &Report, file: &Path) -> Result<(), Failure> {
    let mut picture = String::new();
    draw_into(report, &mut picture)
        .map_err(|error| error.to_string())
        .and_then(|()| std::fs::write(file, picture).map_err(|error| error.to_string()))
        .map_err(|error| Failure::Failed(format!("{} cannot be drawn: {error}", file.display())))
}

fn draw_into(report: &Report, picture: &mut String) -> Drawn {
    let root = SVGBackend::with_string(picture, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let rest = root.titled(&report.title(), (FONT, 17))?;
    let (upper, lower) = rest.split_vertically(SIZE.1 / 2 - 15);
    throughput(report, &upper)?;
    latency(report, &lower)?;
    root.present()?;
    Ok(())
}

fn throughput(report: &Report, area: &Area<'_>) -> Drawn {
    let figures = report.run().figures.borrow();
    // They mostly lie upon each other: the later ones are thinner.
    let mut lines = vec![("confirmed", &figures.confirmed, CONFIRMED.stroke_width(7))];
    if !report.run().groups.is_empty() {
        lines.push(("delivered", &figures.delivered, DELIVERED.stroke_width(4)));
        lines.push(("acked", &figures.acked, ACKED.stroke_width(1)));
    }
    let all = || lines.iter().flat_map(|(_, series, _)| series.per_second());
    let end = all().map(|(at, _)| at).fold(0.1, f64::max);
    let top = all().map(|(_, rate)| rate).fold(1.0, f64::max);
    let mut chart = ChartBuilder::on(area)
        .margin(12)
        .x_label_area_size(38)
        .y_label_area_size(78)
        .caption("Throughput", (FONT, 16))
        .build_cartesian_2d(0.0..end, 0.0..top * 1.1)?;
    chart
        .configure_mesh()
        .x_desc("seconds of the run, warm-up included")
        .y_desc("events a second")
        .y_label_formatter(&|rate| indicatif::HumanCount(*rate as u64).to_string())
        .x_label_formatter(&|at| format!("{at:.0}"))
        .light_line_style(WHITE)
        .draw()?;
    for (name, series, style) in lines {
        let points: Vec<_> = Series::per_second(series).collect();
        chart
            .draw_series(LineSeries::new(points, style))?
            .label(name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], style));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::LowerRight)
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK.mix(0.3))
        .draw()?;
    Ok(())
}

/// Percentiles at even distances between the nines: 0%, 90%, 99%, 99.9%, as far as there are events to tell them apart.
fn percentiles(latency: &Histogram<u64>) -> Vec<(f64, f64)> {
    let nines = (latency.len().max(10) as f64).log10();
    let last = (nines * f64::from(POINTS_PER_NINE)) as i32;
    let point = |at: i32| {
        let nines = f64::from(at) / f64::from(POINTS_PER_NINE);
        let quantile = 1.0 - 10_f64.powf(-nines);
        (nines, latency.value_at_quantile(quantile) as f64 / 1e6)
    };
    (0..=last).map(point).collect()
}

fn latency(report: &Report, area: &Area<'_>) -> Drawn {
    let figures = report.run().figures.borrow();
    let mut lines = Vec::new();
    for (name, histogram, colour) in [
        ("until confirmed", &figures.confirm, CONFIRMED),
        ("until delivered", &figures.deliver, DELIVERED),
    ] {
        if !histogram.is_empty() {
            lines.push((name, percentiles(histogram), colour));
        }
    }
    let all = || lines.iter().flat_map(|(_, points, _)| points.iter().copied());
    let nines = all().map(|(nines, _)| nines).fold(1.0, f64::max);
    let least = all().map(|(_, ms)| ms).fold(f64::MAX, f64::min).clamp(0.001, 1e5);
    let most = all().map(|(_, ms)| ms).fold(least * 10.0, f64::max);
    let mut chart = ChartBuilder::on(area)
        .margin(12)
        .x_label_area_size(38)
        .y_label_area_size(78)
        .caption("Latency", (FONT, 16))
        .build_cartesian_2d(0.0..nines, (least * 0.8..most * 1.3).log_scale())?;
    chart
        .configure_mesh()
        .x_desc("percentile")
        .x_labels(nines as usize + 1)
        .y_desc("milliseconds")
        .x_label_formatter(&|nines| percentile_name(*nines))
        .y_label_formatter(&|ms| format!("{ms}"))
        .light_line_style(WHITE)
        .draw()?;
    for (name, points, colour) in lines {
        chart
            .draw_series(LineSeries::new(points, colour.stroke_width(2)))?
            .label(name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(2)));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK.mix(0.3))
        .draw()?;
    Ok(())
}

/// What stands at a place of the axis: whole nines only.
fn percentile_name(nines: f64) -> String {
    if (nines - nines.round()).abs() > 1e-6 {
        return String::new();
    }
    let percent = 100.0 - 100.0 * 10_f64.powf(-nines);
    let digits = (nines.round() as usize).saturating_sub(2);
    format!("{percent:.digits$}%")
}
