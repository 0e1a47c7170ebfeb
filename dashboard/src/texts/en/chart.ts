const per = (one: string, several: (count: number) => string) => (count: number) => (count === 1 ? one : several(count));

export const chart = {
  asTable: "Show as a table",
  time: "Time",
  nothing: "Nothing happened in this time.",
  label: "Runs over time",
  range: "Range",
  ranges: { "1h": "1 hour", "6h": "6 hours", "24h": "24 hours", "7d": "7 days", "30d": "30 days" },
  runsPer: {
    minutes: per("Runs per minute", (count) => `Runs per ${count} minutes`),
    hours: per("Runs per hour", (count) => `Runs per ${count} hours`),
    days: per("Runs per day", (count) => `Runs per ${count} days`),
  },
  submitted: "Submitted",
  durations: "Queue time and run time",
  queueTime: (percentile: string) => `Queue ${percentile}`,
  runTime: (percentile: string) => `Run ${percentile}`,
  success: (share: string) => `${share} of the runs that ended have completed`,
  cut: (kept: string) => `Finished runs are kept for ${kept}. Those that ended earlier are removed and not shown. Kept since:`,
};
