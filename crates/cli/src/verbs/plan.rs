//! `warpseek plan`: plans a cluster by the model of Agrawal, Dee and Lebeck (PPoPP 2016), or by
//! simulation.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use warpseek_console::Failure;
use warpseek_console::terminal::{count, table};
use warpseek_plan::{
    Calibration, Capacity, ClusterMeasurement, Config, DEFAULTS, Measurements, Report, Seed, Share,
    capacity, page, simulate,
};

use crate::outputs;

/// Plan a cluster: machines, power, cost of ownership
///
/// Without options, the command derives table 2 of Agrawal, Dee and Lebeck (PPoPP 2016) from the
/// paper's inputs and adds current hardware, whose prices and watts are assumptions. Your prices,
/// watts, rates, deadlines and collections go into a TOML file; --print-config prints a template
/// with the source of each value.
///
/// With --measurements, a simulation finds, for each workload, the number of documents per node
/// with which 95% of queries meet the deadline, and the machines that this requires. If the
/// measurements have the power of the hardware, it also shows the work per joule and the power of
/// all machines.
#[derive(Args)]
#[command(after_help = "\
Examples:
  warpseek plan
  warpseek plan --print-config > plan.toml
  warpseek plan --config plan.toml --html plan.html
  warpseek plan --utilisation 0.5 --json
  warpseek bench load --index idx --queries log.txt --json > load.json
  warpseek plan --measurements load.json
  warpseek plan --simulate
  warpseek bench cluster --nodes n.txt --shards 4 --queries q.tsv --rates 20 --json > cluster.json
  warpseek plan --simulate --calibrate cluster.json")]
pub(crate) struct Options {
    /// TOML file with the inputs [default: those of the paper, and current hardware]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print the default inputs as TOML and exit
    #[arg(long, exclusive = true)]
    print_config: bool,
    /// Output of `bench load`, `bench cohorts` or `bench gpu --cohorts` with --json, to compute
    /// documents per node
    #[arg(long, value_name = "FILE", help_heading = "Simulation")]
    measurements: Option<PathBuf>,
    /// Documents of the measured index, if the file of --measurements does not have them
    #[arg(long, value_name = "N", requires = "measurements", help_heading = "Simulation")]
    documents: Option<u64>,
    /// Simulate a cluster with failures, stragglers, replicas and hedged requests ([simulation] of
    /// the inputs), and show latency, coverage and cost
    #[arg(long, conflicts_with_all = ["measurements", "html", "utilisation"], help_heading = "Simulation")]
    simulate: bool,
    /// Output of `bench cluster --json`: simulate that cluster from the times of its single shards,
    /// and compare the result with the measurements
    #[arg(
        long,
        value_name = "FILE",
        requires = "simulate",
        conflicts_with = "config",
        help_heading = "Simulation"
    )]
    calibrate: Option<PathBuf>,
    /// Seed of the simulation [default: that of the inputs]
    #[arg(long, value_name = "N", help_heading = "Simulation")]
    seed: Option<u64>,
    /// Share of the time in which all machines work, 0 to 1 [default: that of the inputs]
    #[arg(long, value_name = "SHARE", allow_negative_numbers = true)]
    utilisation: Option<f64>,
    /// Write a page with the tables, and with the cost by the price of a server, to this file
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Print JSON instead of tables
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let mut out = std::io::stdout().lock();
    if options.print_config {
        write!(out, "{DEFAULTS}")?;
        return Ok(ExitCode::SUCCESS);
    }
    let inputs: Vec<PathBuf> =
        [&options.config, &options.measurements].into_iter().flatten().cloned().collect();
    if let Some(html) = &options.html {
        outputs::check(html, &inputs, true)?;
    }
    if options.simulate {
        return simulated(options, &mut out);
    }
    if options.seed.is_some() && options.measurements.is_none() {
        let problem = "--seed has no effect without --measurements or --simulate; add one of them";
        return Err(Failure::user(problem));
    }
    let report = derive(options)?;
    if let Some(html) = &options.html {
        save(html, &page(&report))?;
    }
    if options.json {
        writeln!(out, "{:#}", serde_json::to_value(&report)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    for (i, workload) in report.workloads.iter().enumerate() {
        if i > 0 {
            writeln!(out)?;
        }
        writeln!(
            out,
            "{}: {} documents, deadline {} ms",
            workload.name,
            count(workload.documents),
            workload.deadline_ms
        )?;
        table(&workload.cells(), &mut out)?;
        if !workload.capacity.is_empty() {
            writeln!(out, "\nDocuments per node, from measurements:")?;
            table(&Capacity::cells(&workload.capacity), &mut out)?;
        }
    }
    if let Some(first) = report.workloads.first() {
        let baseline = &first.baseline;
        writeln!(out, "\nM$: million dollars over the lifetime; ratio: over that of {baseline}.")?;
    }
    if options.config.is_none() {
        writeln!(out, "Prices and watts of today's hardware are assumptions; see --print-config.")?;
    }
    Ok(ExitCode::SUCCESS)
}

fn simulated(options: &Options, out: &mut impl Write) -> Result<ExitCode, Failure> {
    let config = config(options)?;
    if let Some(path) = &options.calibrate {
        return calibrated(options, path, config.capacity.seed, out);
    }
    let found = simulate(&config).map_err(Failure::user)?;
    if options.json {
        writeln!(out, "{:#}", serde_json::to_value(&found)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let inputs = &found.inputs;
    writeln!(
        out,
        "{} documents in {} shards, {} queries/s, deadline {} ms; {} queries were simulated",
        count(inputs.documents.get()),
        count(inputs.shards.get()),
        count(inputs.queries_per_s.get()),
        inputs.deadline_ms.get(),
        count(inputs.queries.get())
    )?;
    table(&found.cells(), out)?;
    writeln!(
        out,
        "\nhedged: requests that were sent twice; complete: answers that cover all documents."
    )?;
    Ok(ExitCode::SUCCESS)
}

/// Simulates a measured cluster and prints both results.
fn calibrated(
    options: &Options,
    path: &Path,
    seed: Seed,
    out: &mut impl Write,
) -> Result<ExitCode, Failure> {
    let measured = ClusterMeasurement::parse(&read(path)?).map_err(|error| about(path, &error))?;
    let found = measured.calibrate(seed);
    if options.json {
        writeln!(out, "{:#}", serde_json::to_value(&found)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    table(&found.cells(), out)?;
    let Calibration { service_ms, variation_of_service, network_ms, effective_cores, .. } = found;
    if let Some(cores) = effective_cores {
        writeln!(out, "\nAll nodes are on one machine and used {cores:.2} of its cores.")?;
    }
    writeln!(
        out,
        "\nerror: by how much simulated times exceed measured ones.\n\nFor [simulation] of other clusters of such nodes:\nservice_ms = {service_ms:.3}\nvariation_of_service = {variation_of_service:.2}\nnetwork_ms = {network_ms:.3}"
    )?;
    Ok(ExitCode::SUCCESS)
}

fn about(path: &Path, error: &dyn std::fmt::Display) -> Failure {
    Failure::user(format!("{}: {error}", path.display()))
}

fn read(path: &Path) -> Result<String, Failure> {
    std::fs::read_to_string(path).map_err(|error| about(path, &error))
}

/// Returns the inputs, with the seed of the user if there is one.
fn config(options: &Options) -> Result<Config, Failure> {
    let mut config = match &options.config {
        Some(path) => Config::parse(&read(path)?).map_err(|error| {
            about(path, &format!("{error}\n`warpseek plan --print-config` prints a complete file"))
        })?,
        None => Config::default(),
    };
    if config.simulation.is_none() {
        config.simulation = Config::default().simulation;
    }
    if let Some(seed) = options.seed {
        let seed = Seed::new(seed).map_err(|error| Failure::user(format!("--seed: {error}")))?;
        config.capacity.seed = seed;
        if let Some(simulation) = &mut config.simulation {
            simulation.seed = seed;
        }
    }
    Ok(config)
}

fn derive(options: &Options) -> Result<Report, Failure> {
    let config = config(options)?;
    let share = options.utilisation.map(Share::new).transpose();
    let share = share.map_err(|error| Failure::user(format!("--utilisation: {error}")))?;
    let mut report = Report::new(&config, share).map_err(Failure::user)?;
    if let Some(path) = &options.measurements {
        let measured = Measurements::parse(&read(path)?, options.documents)
            .map_err(|error| about(path, &error))?;
        for (workload, planned) in config.workload.iter().zip(&mut report.workloads) {
            planned.capacity = capacity(workload, &measured, &config.capacity);
        }
    }
    Ok(report)
}

/// Writes the page atomically: a failure leaves an existing file unchanged.
fn save(path: &Path, page: &str) -> Result<(), Failure> {
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let write = || -> std::io::Result<()> {
        // Temporary files are private by default; this one gets the permissions of other files.
        let mut new = tempfile::Builder::new();
        #[cfg(unix)]
        new.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
        let mut file = new.tempfile_in(folder)?;
        file.write_all(page.as_bytes())?;
        file.as_file().sync_all()?;
        file.persist(path)?;
        Ok(())
    };
    write().map_err(|error| Failure::broken(format!("{}: {error}", path.display())))
}
