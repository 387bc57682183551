//! Reproduces the tables and figures of (Agrawal 2016) from its inputs.
#![allow(clippy::unwrap_used)]

use warpseek_plan::{Config, Planned, PlannedWorkload, Report, Share, utilisation_for};

/// Platforms of the paper; in the default file, current platforms follow them.
const PLATFORMS: usize = 6;

fn halves() -> [PlannedWorkload; 2] {
    let report = Report::new(&Config::default(), None).unwrap();
    report.workloads.try_into().unwrap()
}

fn of<'a>(workload: &'a PlannedWorkload, name: &str) -> &'a Planned {
    workload.platforms.iter().find(|platform| platform.name == name).unwrap()
}

/// Returns the ratio of a platform's cost to the Xeon's where a Xeon server has this price.
fn ratio(workload: &PlannedWorkload, name: &str, price: f64) -> f64 {
    let at = workload.prices.iter().position(|&other| (other - price).abs() < 1e-6).unwrap();
    of(workload, name).ratios[at]
}

/// Tests each count, which is alpha N T / (C n), rounded up, from the printed values: C, n_cpu
/// and n_acc of its row, alpha of its half, N = 10^9, T = 50 ms.
#[test]
fn the_twelve_counts_of_table_2_follow_from_its_inputs() {
    let counts = halves().map(|half| {
        let own = half.platforms[..PLATFORMS].iter();
        own.map(|platform| platform.shape.machines).collect::<Vec<_>>()
    });
    assert_eq!(counts[0], [893, 7813, 285, 285, 391, 391]);
    assert_eq!(counts[1], [3757, 97657, 1776, 1149, 3256, 1628]);
    for half in halves() {
        for platform in &half.platforms[..PLATFORMS] {
            assert_eq!(Some(platform.shape.machines), platform.published.machines);
        }
    }
}

/// Tests the last column, in whole kilowatts, which follows from the utilisations of the default
/// file. The table does not print utilisations.
#[test]
fn the_power_of_table_2_follows_from_the_inferred_utilisations() {
    for half in halves() {
        for platform in &half.platforms[..PLATFORMS] {
            let published = platform.published.kilowatts.unwrap();
            assert_eq!(platform.power.kilowatts.round(), published, "{}", platform.name);
            // The printed values are possible without any inference, because no part works while
            // its cohort forms.
            let most = 1.0 - 1.0 / platform.shape.cohorts;
            for share in [platform.utilisation_cpu, platform.utilisation_accelerator] {
                assert!((0.0..=most).contains(&share), "{}: {share} of {most}", platform.name);
            }
            assert!(platform.power.idle_kilowatts < published + 0.5);
            assert!(platform.power.full_kilowatts > published - 0.5);
        }
    }
}

/// Tests that one U_cpu explains two printed figures. A SoC only drives its accelerator, so its
/// row gives U_acc alone. A Xeon with the same accelerator, cohort and documents has the same
/// U_acc, and both Xeons have the same cohort and documents on the CPU.
#[test]
fn one_utilisation_of_the_cpu_explains_both_augmented_xeons() {
    for half in halves() {
        let found = ["Maxwell", "Titan"].map(|accelerator| {
            let alone = of(&half, &format!("SoC + {accelerator}"));
            let both = of(&half, &format!("Xeon + {accelerator}"));
            assert_eq!(alone.utilisation_accelerator, both.utilisation_accelerator);
            let busy = alone.power.machine_watts
                - alone.power.idle_kilowatts * 1e3 / alone.shape.machines as f64;
            let machines = both.shape.machines;
            let idle = both.power.idle_kilowatts * 1e3 / machines as f64;
            let watts_cpu = both.power.full_kilowatts * 1e3 / machines as f64
                - idle
                - busy / alone.utilisation_accelerator;
            // The printed power is rounded to a kilowatt.
            [-0.5, 0.5].map(|off| {
                let kilowatts = both.published.kilowatts.unwrap() + off;
                utilisation_for(machines, kilowatts, idle + busy, watts_cpu).unwrap()
            })
        });
        let [maxwell, titan] = found;
        let (low, high) = (maxwell[0].max(titan[0]), maxwell[1].min(titan[1]));
        assert!(low <= high, "{found:?}");
        let own = of(&half, "Xeon + Titan").utilisation_cpu;
        assert!((low - 0.01..=high + 0.01).contains(&own), "{own} is not in {low}..{high}");
    }
}

#[test]
fn power_follows_a_given_utilisation() {
    let at = |share| {
        let report = Report::new(&Config::default(), Share::new(share).ok()).unwrap();
        report.workloads[0].platforms[0].power
    };
    // 893 x 144 W, and 893 x 177 W.
    assert_eq!((at(0.0).kilowatts * 1e3).round(), 893.0 * 144.0);
    assert_eq!((at(1.0).kilowatts * 1e3).round(), 893.0 * 177.0);
    assert_eq!(at(0.0).kilowatts, at(0.5).idle_kilowatts);
}

/// Tests the statements of section 6.4 about figure 9. The price of the SoC is not printed; 100
/// dollars are inferred.
#[test]
fn the_cost_ratios_of_section_6_4_come_out() {
    let [few, many] = halves();
    // "Even for a half priced Xeon system, the ARM cluster is 73% cheaper": 72.4% here, with the
    // printed prices.
    let arm = 1.0 - ratio(&few, "Arm", 3000.0);
    assert!((0.72..0.735).contains(&arm), "{arm}");
    // "the SoC + Maxwell configuration is more than 15x cheaper"
    let soc = 1.0 / ratio(&few, "SoC + Maxwell", 3000.0);
    assert!((15.0..16.5).contains(&soc), "{soc}");
    // At 500 dollars: "the Xeon + Maxwell being 56% cheaper, and the SoC + Maxwell more than 3x
    // cheaper"
    let xeon = 1.0 - ratio(&few, "Xeon + Maxwell", 500.0);
    assert_eq!((100.0 * xeon).round(), 56.0, "{xeon}");
    assert!(1.0 / ratio(&few, "SoC + Maxwell", 500.0) > 3.0);
    // "the Xeon cluster is cheaper than the ARM one for $system(xeon) < $2400"
    let even = of(&many, "Arm").break_even_dollars.unwrap();
    assert!((2350.0..2450.0).contains(&even), "{even}");
    // "At half the retail price of the Xeon, the SoC + Titan system is more than 5x cheaper, and
    // the Xeon + Titan configuration is 2x cheaper."
    assert!(1.0 / ratio(&many, "SoC + Titan", 3000.0) > 5.0);
    assert!(1.0 / ratio(&many, "Xeon + Titan", 3000.0) > 2.0);
    // "Even for $system(xeon) = $500, the accelerator platforms are 30% cheaper": 25% and 33% here.
    let both = ["Xeon + Titan", "SoC + Titan"].map(|name| 1.0 - ratio(&many, name, 500.0));
    assert!((0.24..0.27).contains(&both[0]) && (0.30..0.35).contains(&both[1]), "{both:?}");
}

#[test]
fn a_dearer_server_never_makes_others_dearer_beside_it() {
    for half in halves() {
        for platform in &half.platforms {
            let falls = platform.ratios.windows(2).all(|pair| pair[1] <= pair[0] + 1e-12);
            let of_xeon = platform.name.starts_with("Xeon");
            assert!(falls || of_xeon, "{}: {:?}", platform.name, platform.ratios);
            assert!(platform.ratios.iter().all(|ratio| ratio.is_finite() && *ratio > 0.0));
        }
    }
}

#[test]
fn hardware_of_today_stands_beside() {
    let [few, many] = halves();
    let machines = |half: &PlannedWorkload, name: &str| of(half, name).shape.machines;
    // 10^9 documents need four nodes of 300 million at any rate; at 25,000/s the work needs
    // twelve.
    assert_eq!(machines(&few, "16 cores + H200, today"), 4);
    assert_eq!(machines(&many, "16 cores + H200, today"), 12);
    assert_eq!(machines(&few, "16 cores, today"), 397);
    assert_eq!(machines(&many, "16 cores, today"), 993);
}
